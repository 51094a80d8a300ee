"""Validates connectors' configurations: all problems at once, by setting.

Kafka ignores settings that have no effect; here a configuration with such settings is refused.
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from strom.connect.api import Connector, InvalidSettings
from strom.connect.api.settings import SettingDefinition, did_you_mean
from strom.connect.plugins import Plugin, plugin
from strom.connect.runtime.client_overrides import override_problems
from strom.connect.runtime.conversion import make_conversion
from strom.connect.runtime.secrets import Secrets, masked, secrets_in
from strom.connect.runtime.settings import (
    CONVERTER_PREFIXES,
    OVERRIDE_PREFIXES,
    CommonSettings,
    SinkSettings,
    SourceSettings,
    WorkerSettings,
    without,
)
from strom.connect.runtime.topic_patterns import posix_pattern
from strom.connect.runtime.transaction_timeouts import (
    Problem,
    configured_timeout,
    timeout_problems,
)
from strom.model.errors import ApiError
from strom.model.topics import check_topic_name

_OTHER_PREFIXES = ("transforms.", "predicates.", *CONVERTER_PREFIXES, *OVERRIDE_PREFIXES)
"""Prefixes of settings that are neither the runtime's nor the connector's."""


@dataclass(frozen=True)
class Checker:
    """Validates and reads configurations, with one worker's defaults."""

    worker: WorkerSettings
    worker_texts: Mapping[str, str]
    secrets: Secrets
    producer_texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The worker's settings for all producers."""
    transaction_limit_ms: Callable[[], int | None] = lambda: None
    """Returns the broker's longest transaction timeout; None if it is unknown."""

    def plugin(self, config: Mapping[str, str]) -> Plugin:
        """The plugin that a configuration names; InvalidSettings if this worker does not have it."""
        return plugin(config.get("connector.class", ""), self.worker.plugin_packages)

    def common_class(self, kind: Plugin) -> type[CommonSettings]:
        """The runtime's settings class for this kind of connector."""
        return SourceSettings if kind.kind == "source" else SinkSettings

    def common(self, config: Mapping[str, str]) -> CommonSettings:
        """The runtime's part of a configuration; InvalidSettings if it is invalid."""
        cls = self.common_class(self.plugin(config))
        return cls.read(_only(config, cls.definitions()))

    def own(self, config: Mapping[str, str]) -> Any:
        """The connector's part of a configuration, with references resolved."""
        kind = self.plugin(config)
        known = self.common_class(kind).definitions()
        resolved = self.secrets.resolve(without(config, _OTHER_PREFIXES))
        self.secrets.keep_hidden(secrets_in({**config, **resolved}, passwords_of(kind)))
        return kind.load().settings_class.read(resolved, known_elsewhere=known)

    def make(self, config: Mapping[str, str]) -> Connector[Any]:
        return self.plugin(config).load()(self.own(config))

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """All problems by setting, with secrets hidden."""
        found: dict[str, list[str]] = {}
        try:
            self.plugin(config)
        except InvalidSettings as error:
            if not config.get("connector.class"):
                text = (
                    'Missing required configuration "connector.class" which has no default value.'
                )
                return {"connector.class": [text]}
            return {name: list(texts) for name, texts in error.problems.items()}
        steps = (self._check_config, self._check_common, self._check_own)
        for step in steps:
            try:
                for name, text in step(config).items():
                    found.setdefault(name, []).append(text)
            except InvalidSettings as error:
                for name, texts in error.problems.items():
                    found.setdefault(name, []).extend(texts)
        return {name: [self.secrets.hide(text) for text in texts] for name, texts in found.items()}

    def _check_config(self, config: Mapping[str, str]) -> Mapping[str, str]:
        return dict(_config_problems(self.secrets.resolve(config)))

    def _check_common(self, config: Mapping[str, str]) -> Mapping[str, str]:
        resolved = self.secrets.resolve(config)
        common = self.common(config)
        if isinstance(common, SinkSettings):
            wrong = dict(_topic_problems(common))
            if wrong:
                return wrong
        make_conversion(resolved, common, self.worker, self.worker_texts)
        if not isinstance(common, SourceSettings):
            return {}
        kind = self.plugin(config)
        defines = getattr(kind.load(), "defines_transactions", False)
        if common.transaction_boundary == "connector" and not defines:
            return {
                "transaction.boundary": "This connector does not define transactions: use poll or "
                "interval."
            }
        if exactly_once(kind, self.worker):
            configured = configured_timeout(resolved, self.producer_texts)
            flush_ms = self.worker.flush_interval_ms
            return dict(timeout_problems(common, flush_ms, configured, self.transaction_limit_ms))
        if common.exactly_once_support != "required":
            return {}
        return {
            "exactly.once.support": "This connector cannot be exactly once: it does not "
            "support it, or exactly.once.source.support is not enabled."
        }

    def _check_own(self, config: Mapping[str, str]) -> Mapping[str, str]:
        return self.make(config).check()

    def described(self, config: Mapping[str, str]) -> dict[str, Any]:
        """Kafka's validation response: every setting with its definition, value and errors."""
        kind = self.plugin(config)
        problems = self.problems(config)
        definitions = definitions_of(self.common_class(kind), kind)
        unknown = [name for name in problems if name not in definitions]
        to_show = masked(config, passwords_of(kind))
        infos: list[dict[str, Any]] = [
            {
                "definition": described(one, order),
                "value": _value(one.name, to_show, problems, one),
            }
            for order, one in enumerate(definitions.values(), 1)
        ]
        infos += [
            {"definition": None, "value": _value(name, to_show, problems)} for name in unknown
        ]
        groups = dict.fromkeys(info["definition"]["group"] for info in infos if info["definition"])
        return {
            "name": config.get("connector.class"),
            "error_count": sum(len(texts) for texts in problems.values()),
            "groups": [group for group in groups if group],
            "configs": infos,
        }


def exactly_once(kind: Plugin, worker: WorkerSettings) -> bool:
    """Whether tasks of this source write records and offsets in transactions."""
    return worker.exactly_once == "enabled" and bool(getattr(kind.load(), "exactly_once", False))


def definitions_of(common: type[CommonSettings], kind: Plugin) -> dict[str, Any]:
    """Every setting of a connector class: the runtime's, then the connector's."""
    return {**common.definitions(), **kind.load().settings_class.definitions()}


def described(definition: SettingDefinition, order: int) -> dict[str, Any]:
    """A definition in the format of REST."""
    runtimes = definition.name in SourceSettings.definitions() or definition.name in (
        SinkSettings.definitions()
    )
    group = definition.group or ("Common" if runtimes else None)
    default = None if definition.default is None else definition.render(definition.default)
    return {
        "name": definition.name,
        "type": definition.kind.name,
        "required": definition.required,
        "default_value": default,
        "importance": definition.importance.value,
        "documentation": definition.doc,
        "group": group,
        "order_in_group": order,
        "width": "MEDIUM",
        "display_name": definition.display_name or definition.name,
        "dependents": [],
    }


def _value(
    name: str,
    config: Mapping[str, str],
    problems: Mapping[str, list[str]],
    definition: SettingDefinition | None = None,
) -> dict[str, Any]:
    text = config.get(name)
    if text is None and definition is not None and definition.default is not None:
        text = definition.render(definition.default)
    return {
        "name": name,
        "value": text,
        "recommended_values": [] if definition is None else list(definition.choices),
        "errors": problems.get(name, []),
        "visible": True,
    }


def passwords_of(kind: Plugin) -> set[str]:
    """The settings of a connector class whose values are secret."""
    definitions = kind.load().settings_class.definitions()
    return {name for name, one in definitions.items() if one.is_secret}


def _only(config: Mapping[str, str], names: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in config.items() if name in names}


def _config_problems(config: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of a configuration whose references are resolved."""
    yield from _name_problems(config.get("name", ""))
    yield from _converter_problems(config)
    for group in ("transforms", "predicates"):
        yield from _alias_problems(config, group)
    yield from override_problems(config)


def _topic_problems(settings: SinkSettings) -> Iterator[Problem]:
    """Yield the problems of the topics that a sink names."""
    for setting, topics in (
        ("topics", settings.topics),
        ("errors.deadletterqueue.topic.name", [settings.dead_letter_topic or "-"]),
    ):
        for topic in topics:
            try:
                check_topic_name(topic)
            except ApiError as error:
                yield setting, f"{setting}: {error}"
    if settings.topics_regex:
        try:
            posix_pattern(settings.topics_regex)
        except ValueError as error:
            yield "topics.regex", f"Invalid value {settings.topics_regex} for topics.regex: {error}"


def _name_problems(name: str) -> Iterator[Problem]:
    control = [letter for letter in name if unicodedata.category(letter) == "Cc"]
    if control:
        yield (
            "name",
            f"A connector's name must not contain control characters such as {control[0]!r}.",
        )


def _converter_problems(config: Mapping[str, str]) -> Iterator[Problem]:
    for prefix in CONVERTER_PREFIXES:
        setting = prefix.removesuffix(".")
        named = config.get(setting)
        if named is not None and not named.strip():
            yield setting, f"{setting} is empty: remove it to use the worker's converter."
        if named is None:
            for name in config:
                if name.startswith(prefix):
                    yield (
                        name,
                        f"{name} has no effect without {setting}: set that too. The worker's converter "
                        "has the worker's settings.",
                    )


def _alias_problems(config: Mapping[str, str], group: str) -> Iterator[Problem]:
    """Yield settings of transforms or predicates that are not in their list."""
    listed = [alias.strip() for alias in config.get(group, "").split(",") if alias.strip()]
    for name in config:
        if not name.startswith(f"{group}.") or any(
            name.startswith(f"{group}.{alias}.") for alias in listed
        ):
            continue
        alias = name.split(".")[1]
        hint = did_you_mean(alias, listed, f" List it: {group}={','.join([*listed, alias])}.")
        yield name, f"{name} belongs to {alias}, which is not in {group}.{hint}"
