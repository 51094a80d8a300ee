"""Definitions of virtual hosts, exchanges, queues and bindings, as values and as records.

A record's key identifies the entity and its value holds all of it, so that the log can be compacted:
what remains is the topology.
"""

import base64
import datetime as dt
import decimal
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from strom.model.errors import CorruptData

Arguments: TypeAlias = Mapping[str, Any]

QUEUE = "queue"
EXCHANGE = "exchange"


@dataclass(frozen=True)
class VirtualHostDefinition:
    name: str


@dataclass(frozen=True)
class ExchangeDefinition:
    vhost: str
    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = field(default_factory=dict)


@dataclass(frozen=True)
class QueueDefinition:
    """`topic` is the internal topic that holds the queue's messages."""

    vhost: str
    name: str
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Arguments = field(default_factory=dict)
    topic: str = ""


@dataclass(frozen=True)
class Binding:
    """From an exchange to a queue, or to another exchange (`kind`)."""

    vhost: str
    source: str
    kind: str
    destination: str
    routing_key: str = ""
    arguments: Arguments = field(default_factory=dict)

    @property
    def identity(self) -> tuple[str, str, str, str, str]:
        """Equal for two definitions of the same binding."""
        arguments = json.dumps(self.arguments, sort_keys=True, default=_plain)
        return self.source, self.kind, self.destination, self.routing_key, arguments


@dataclass(frozen=True)
class Cursor:
    """Positions in the topic that feeds an exchange."""

    vhost: str
    exchange: str
    positions: Mapping[str, int] = field(default_factory=dict)
    topic_id: str = ""
    """In hexadecimal; empty in records that strom wrote before 0.1.1."""
    lagging: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Positions by partition of the targets that lag behind the others."""


Definition: TypeAlias = (
    VirtualHostDefinition | ExchangeDefinition | QueueDefinition | Binding | Cursor
)

_KINDS: dict[str, type[Definition]] = {
    "vhost": VirtualHostDefinition,
    "exchange": ExchangeDefinition,
    "queue": QueueDefinition,
    "binding": Binding,
    "cursor": Cursor,
}


def key_of(definition: Definition) -> bytes:
    """The record key, by which the log is compacted."""
    return json.dumps(_name(definition)).encode()


def _name(definition: Definition) -> list[str]:
    match definition:
        case VirtualHostDefinition():
            return ["vhost", definition.name]
        case ExchangeDefinition():
            return ["exchange", definition.vhost, definition.name]
        case QueueDefinition():
            return ["queue", definition.vhost, definition.name]
        case Binding():
            return ["binding", definition.vhost, *definition.identity]
        case Cursor():
            return ["cursor", definition.vhost, definition.exchange]


def encode(definition: Definition) -> tuple[bytes, bytes]:
    """Key and value of the record."""
    return key_of(definition), json.dumps(vars(definition), default=_plain).encode()


def decode(key: bytes, value: bytes) -> Definition:
    """Decode a record; raise CorruptData if it is not a definition."""
    try:
        kind = _KINDS[json.loads(key)[0]]
        return kind(**json.loads(value, object_hook=_unplain))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CorruptData(f"invalid definition of a queue entity: {error}") from None


def _plain(value: object) -> object:
    """Encode types of AMQP tables that JSON does not have."""
    match value:
        case bytes() | bytearray():
            return {"!bytes": base64.b64encode(value).decode()}
        case dt.datetime():
            return {"!time": value.timestamp()}
        case decimal.Decimal():
            return {"!decimal": str(value)}
    raise TypeError(f"{type(value).__name__} in arguments")


def _unplain(table: dict[str, Any]) -> Any:
    match table:
        case {"!bytes": str(text), **rest} if not rest:
            return base64.b64decode(text)
        case {"!time": float(at) | int(at), **rest} if not rest:
            return dt.datetime.fromtimestamp(at, dt.UTC)
        case {"!decimal": str(text), **rest} if not rest:
            return decimal.Decimal(text)
    return table
