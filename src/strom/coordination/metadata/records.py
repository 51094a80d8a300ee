"""The records of the cluster metadata log: a key, and a value with the whole state for that key.

Values are states, not changes, so that the log can be compacted by key. A value of None (a tombstone)
deletes the key.
"""

import json
import uuid
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from strom.model.errors import CorruptData


@dataclass(frozen=True)
class TopicMetadata:
    """A topic. `configs` holds only what was set for this topic, as text."""

    name: str
    id: uuid.UUID
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)
    deleting: bool = False
    """Set before its files are removed, so that the next start completes an interrupted deletion."""


@dataclass(frozen=True)
class TopicDeleted:
    """The topic with this id and its files are deleted."""

    id: uuid.UUID


@dataclass(frozen=True)
class BrokerConfigs:
    """The dynamic configs of a broker; node None stands for all brokers."""

    node: int | None
    configs: dict[str, str]


@dataclass(frozen=True)
class GroupConfigs:
    """The configs of a group, as text; empty if all were reset."""

    group: str
    configs: dict[str, str]


@dataclass(frozen=True)
class ClientMetricsConfigs:
    """The configs of a client metrics subscription, as text; empty if it was deleted."""

    subscription: str
    configs: dict[str, str]


@dataclass(frozen=True)
class ProducerIds:
    """Producer ids below `next_id` are reserved."""

    next_id: int


@dataclass(frozen=True)
class LeaderEpoch:
    """Bumped at every start after a crash, so that clients detect a log that may have lost its tail."""

    epoch: int


MetadataRecord: TypeAlias = (
    TopicMetadata
    | TopicDeleted
    | BrokerConfigs
    | GroupConfigs
    | ClientMetricsConfigs
    | ProducerIds
    | LeaderEpoch
)


def encode(record: MetadataRecord) -> tuple[bytes, bytes | None]:
    match record:
        case TopicMetadata():
            value = {
                "name": record.name,
                "partitions": record.partitions,
                "configs": record.configs,
                "deleting": record.deleting,
            }
            return f"topic:{record.id}".encode(), _dump(value)
        case TopicDeleted():
            return f"topic:{record.id}".encode(), None
        case BrokerConfigs():
            node = "" if record.node is None else record.node
            return f"broker:{node}".encode(), _dump({"configs": record.configs})
        case GroupConfigs():
            value = {"configs": record.configs}
            return f"group:{record.group}".encode(), _dump(value) if record.configs else None
        case ClientMetricsConfigs():
            value = {"configs": record.configs}
            key = f"client-metrics:{record.subscription}".encode()
            return key, _dump(value) if record.configs else None
        case ProducerIds():
            return b"producer-ids", _dump({"next": record.next_id})
        case LeaderEpoch():
            return b"leader-epoch", _dump({"epoch": record.epoch})


def decode(key: bytes | None, value: bytes | None) -> MetadataRecord:
    """The record for a key and a value; CorruptData if they are malformed."""
    try:
        kind, _, rest = (key or b"").decode().partition(":")
        if kind == "topic" and value is None:
            return TopicDeleted(uuid.UUID(rest))
        if kind == "group" and value is None:
            return GroupConfigs(rest, {})
        if kind == "client-metrics" and value is None:
            return ClientMetricsConfigs(rest, {})
        return _decode_value(kind, rest, json.loads(value or b""))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"unreadable metadata record {key!r}: {error}") from error


def _decode_value(kind: str, rest: str, value: dict[str, Any]) -> MetadataRecord:
    match kind:
        case "topic":
            return TopicMetadata(
                name=value["name"],
                id=uuid.UUID(rest),
                partitions=value["partitions"],
                configs=value["configs"],
                deleting=value["deleting"],
            )
        case "broker":
            return BrokerConfigs(int(rest) if rest else None, value["configs"])
        case "group":
            return GroupConfigs(rest, value["configs"])
        case "client-metrics":
            return ClientMetricsConfigs(rest, value["configs"])
        case "producer-ids":
            return ProducerIds(value["next"])
        case "leader-epoch":
            return LeaderEpoch(value["epoch"])
    raise ValueError(f"unknown type {kind!r}")


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
