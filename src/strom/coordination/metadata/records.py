"""The records of the cluster metadata log: a key that names the thing, a value that holds all of it.

Each value stands for the whole thing, not for a change, so the log can be compacted by key: what is
left is the state. A value of None (a tombstone) means that the thing is gone.
"""

import json
import uuid
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from strom.model.errors import CorruptData


@dataclass(frozen=True)
class Topic:
    """A topic as the cluster knows it. `configs` holds only what was set for it, as text."""

    name: str
    id: uuid.UUID
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)
    deleting: bool = False
    """Set before its files go, so that a crash in between is finished at the next start."""


@dataclass(frozen=True)
class TopicGone:
    """The topic with this id, and all its files, are gone."""

    id: uuid.UUID


@dataclass(frozen=True)
class BrokerConfigs:
    """What was set for a broker while it ran; node None holds for every broker."""

    node: int | None
    configs: dict[str, str]


@dataclass(frozen=True)
class GroupConfigs:
    """What was set for a group, as text; nothing if everything was taken back."""

    group: str
    configs: dict[str, str]


@dataclass(frozen=True)
class ProducerIds:
    """Producer ids below `next_id` have been handed out."""

    next_id: int


@dataclass(frozen=True)
class LeaderEpoch:
    """Raised at every start after a crash, so that clients notice a log that may have lost its tail."""

    epoch: int


MetadataRecord: TypeAlias = (
    Topic | TopicGone | BrokerConfigs | GroupConfigs | ProducerIds | LeaderEpoch
)


def encode(record: MetadataRecord) -> tuple[bytes, bytes | None]:
    """Key and value for the log."""
    match record:
        case Topic():
            value = {
                "name": record.name,
                "partitions": record.partitions,
                "configs": record.configs,
                "deleting": record.deleting,
            }
            return f"topic:{record.id}".encode(), _dump(value)
        case TopicGone():
            return f"topic:{record.id}".encode(), None
        case BrokerConfigs():
            node = "" if record.node is None else record.node
            return f"broker:{node}".encode(), _dump({"configs": record.configs})
        case GroupConfigs():
            value = {"configs": record.configs}
            return f"group:{record.group}".encode(), _dump(value) if record.configs else None
        case ProducerIds():
            return b"producer-ids", _dump({"next": record.next_id})
        case LeaderEpoch():
            return b"leader-epoch", _dump({"epoch": record.epoch})


def decode(key: bytes | None, value: bytes | None) -> MetadataRecord:
    """The record for a key and a value; CorruptData if they are none of ours."""
    try:
        kind, _, rest = (key or b"").decode().partition(":")
        if kind == "topic" and value is None:
            return TopicGone(uuid.UUID(rest))
        if kind == "group" and value is None:
            return GroupConfigs(rest, {})
        return _decode_value(kind, rest, json.loads(value or b""))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"unreadable metadata record {key!r}: {error}") from error


def _decode_value(kind: str, rest: str, value: dict[str, Any]) -> MetadataRecord:
    match kind:
        case "topic":
            return Topic(
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
        case "producer-ids":
            return ProducerIds(value["next"])
        case "leader-epoch":
            return LeaderEpoch(value["epoch"])
    raise ValueError(f"unknown kind {kind!r}")


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
