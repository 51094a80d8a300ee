"""Describing and changing the settings of topics, groups, brokers and client metrics subscriptions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from strom.broker.broker import Broker
from strom.model.broker_settings import BrokerSettings
from strom.model.client_metrics_settings import ClientMetricsSettings
from strom.model.errors import ApiError, ErrorCode
from strom.model.group_settings import GroupSettings
from strom.model.settings import Definition, Kind
from strom.model.topic_settings import TopicSettings
from strom.model.topics import check_topic_name, reject_topic_of_queues


class ResourceType(IntEnum):
    """The type of a config resource, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """The source of a value, with Kafka's numbers."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs, with Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Synonym(NamedTuple):
    """One source of a setting, with its value (KIP-226)."""

    name: str
    value: str
    source: Source


@dataclass(frozen=True)
class ConfigEntry:
    """A setting with all of its sources, in order of precedence."""

    definition: Definition
    synonyms: list[Synonym] = field(default_factory=list)
    read_only: bool = False

    @property
    def value(self) -> str:
        return self.synonyms[0].value

    @property
    def source(self) -> Source:
        return self.synonyms[0].source


def describe_topic(broker: Broker, name: str) -> list[ConfigEntry]:
    return describe_configs_of(broker, broker.topic(name).topic.configs)


def describe_configs_of(broker: Broker, own: Mapping[str, str]) -> list[ConfigEntry]:
    """Every setting of a topic with these configs."""
    return [
        _entry(broker, definition, own, Source.DYNAMIC_TOPIC)
        for definition in TopicSettings.definitions().values()
    ]


def describe_broker(broker: Broker, name: str) -> list[ConfigEntry]:
    """Every setting of this broker; for the empty name, the dynamic configs of all brokers."""
    if not name:
        return [
            ConfigEntry(
                BrokerSettings.definition(key),
                [Synonym(key, value, Source.DYNAMIC_DEFAULT_BROKER)],
            )
            for key, value in broker.metadata.broker_configs(None).items()
        ]
    _check_node(broker, name)
    return [
        ConfigEntry(
            definition,
            _broker_synonyms(broker, definition, definition.name),
            read_only=not definition.live,
        )
        for definition in BrokerSettings.definitions().values()
    ]


def describe_group(broker: Broker, name: str) -> list[ConfigEntry]:
    """Every setting of a group, which need not exist."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    own = broker.metadata.group_configs(name)
    return [
        _entry(broker, definition, own, Source.DYNAMIC_GROUP)
        for definition in GroupSettings.definitions().values()
    ]


def describe_client_metrics(broker: Broker, name: str) -> list[ConfigEntry]:
    """Every setting of a client metrics subscription, which need not exist."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name must not be empty")
    own = broker.metadata.client_metrics_configs(name)
    return [
        _entry(broker, definition, own, Source.DYNAMIC_CLIENT_METRICS)
        for definition in ClientMetricsSettings.definitions().values()
    ]


def _entry(
    broker: Broker, definition: Definition, own: Mapping[str, str], source: Source
) -> ConfigEntry:
    synonyms = []
    if definition.name in own:
        synonyms.append(Synonym(definition.name, own[definition.name], source))
    if definition.broker_name:
        synonyms += _broker_synonyms(broker, definition, definition.broker_name)
    else:
        default = definition.render(definition.default)
        synonyms.append(Synonym(definition.name, default, Source.DEFAULT))
    return ConfigEntry(definition, synonyms)


def _broker_synonyms(broker: Broker, definition: Definition, name: str) -> list[Synonym]:
    found = []
    for node, source in (
        (broker.settings.node_id, Source.DYNAMIC_BROKER),
        (None, Source.DYNAMIC_DEFAULT_BROKER),
    ):
        value = broker.metadata.broker_configs(node).get(name)
        if value is not None:
            found.append(Synonym(name, value, source))
    at_start = broker.start_settings.value(name)
    if at_start != definition.default:
        found.append(Synonym(name, definition.render(at_start), Source.STATIC_BROKER))
    found.append(Synonym(name, definition.render(definition.default), Source.DEFAULT))
    return found


class ConfigChange(NamedTuple):
    """One operation of an incremental change."""

    name: str
    operation: int
    value: str | None


def check_replacement(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The configs of a full replacement (AlterConfigs), or INVALID_REQUEST."""
    replacement: dict[str, str] = {}
    for name, value in configs:
        if value is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Null value not supported for topic configs: {name}"
            )
        if name in replacement:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {name}")
        replacement[name] = value
    return replacement


def apply_changes(
    current: Mapping[str, str],
    changes: Iterable[ConfigChange],
    inherited: Mapping[str, str],
    definitions: Mapping[str, Definition],
) -> dict[str, str]:
    """The configs after an incremental change; `inherited` has the lists to append to."""
    result = dict(current)
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {change.name}"
            )
        seen.add(change.name)
        if change.operation == ConfigOperation.DELETE:
            result.pop(change.name, None)
            continue
        definition = definitions.get(change.name)
        if definition is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown configuration {change.name}.")
        _apply(result, change, inherited.get(change.name, ""), definition)
    return result


def _apply(
    result: dict[str, str], change: ConfigChange, inherited: str, definition: Definition
) -> None:
    name, operation, value = change
    if value is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for {name} unless it is deleted"
        )
    if operation == ConfigOperation.SET:
        result[name] = value
        return
    if operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} for {name}")
    if definition.kind is not Kind.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Config value {ConfigOperation(operation).name.lower()} is not allowed for config key: "
            f"{name}",
        )
    now = [item for item in result.get(name, inherited).split(",") if item]
    given = [item.strip() for item in value.split(",") if item.strip()]
    if operation == ConfigOperation.APPEND:
        now += [item for item in given if item not in now]
    else:
        now = [item for item in now if item not in given]
    result[name] = ",".join(now)


async def change_settings(
    broker: Broker,
    resource_type: int,
    name: str,
    changes: Iterable[ConfigChange] | None,
    replacement: Iterable[tuple[str, str | None]] = (),
    *,
    only_check: bool,
) -> None:
    """Change the configs of a resource: incrementally, or (None) by replacement."""
    if resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        own: Mapping[str, str] = broker.topic(name).topic.configs
        reject_topic_of_queues(name)
        entries = describe_topic(broker, name)
        definitions = TopicSettings.definitions()
    elif resource_type == ResourceType.BROKER:
        own = broker.metadata.broker_configs(_node(broker, name))
        entries = describe_broker(broker, name)
        definitions = BrokerSettings.definitions()
    elif resource_type == ResourceType.GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        own = broker.metadata.group_configs(name)
        entries = describe_group(broker, name)
        definitions = GroupSettings.definitions()
    elif resource_type == ResourceType.CLIENT_METRICS:
        own = broker.metadata.client_metrics_configs(name)
        entries = describe_client_metrics(broker, name)
        definitions = ClientMetricsSettings.definitions()
    else:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource_type}.")
    if changes is None:
        configs = check_replacement(replacement)
    else:
        inherited = {entry.definition.name: entry.value for entry in entries}
        configs = apply_changes(own, changes, inherited, definitions)
    if resource_type == ResourceType.TOPIC:
        await broker.set_topic_configs(name, configs, only_check=only_check)
    elif resource_type == ResourceType.GROUP:
        await broker.set_group_configs(name, configs, only_check=only_check)
    elif resource_type == ResourceType.CLIENT_METRICS:
        await broker.set_client_metrics_configs(name, configs, only_check=only_check)
    else:
        _check_live(configs, own)
        try:
            await broker.set_broker_configs(_node(broker, name), configs, only_check=only_check)
        except ApiError as error:
            # For brokers Kafka returns INVALID_REQUEST for an invalid value.
            raise ApiError(ErrorCode.INVALID_REQUEST, error.message) from error


def _check_live(configs: Mapping[str, str], own: Mapping[str, str]) -> None:
    for name, value in configs.items():
        if own.get(name) != value and not BrokerSettings.definition(name).live:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {name}"
            )


def _node(broker: Broker, name: str) -> int | None:
    if not name:
        return None
    return _check_node(broker, name)


def _check_node(broker: Broker, name: str) -> int:
    if not name.isdigit() or int(name) != broker.settings.node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.settings.node_id}, but received {name}",
        )
    return int(name)
