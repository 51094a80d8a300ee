"""What a virtual host is made of: exchanges, queues and bindings, as values and as records.

A record's key names the thing and its value holds all of it, so that the log of definitions can be
compacted: what is left is the topology.
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
    """A name space of its own."""

    name: str


@dataclass(frozen=True)
class ExchangeDefinition:
    """Where publishers send to."""

    vhost: str
    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = field(default_factory=dict)


@dataclass(frozen=True)
class QueueDefinition:
    """Where messages wait. `topic` is the internal topic that holds them."""

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
        """Bindings that agree in it are the same binding."""
        arguments = json.dumps(self.arguments, sort_keys=True, default=_plain)
        return self.source, self.kind, self.destination, self.routing_key, arguments


@dataclass(frozen=True)
class Cursor:
    """How far the partitions of the topic that feeds an exchange were read."""

    vhost: str
    exchange: str
    positions: Mapping[str, int] = field(default_factory=dict)
    topic_id: str = ""
    """In hexadecimal; empty in records that strom wrote before 0.1.1."""
    lagging: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By partition and target: how far the records have got that are behind the others."""


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
    """The record key: equal for what replaces each other."""
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
    """The definition in a record; CorruptData if it is none."""
    try:
        kind = _KINDS[json.loads(key)[0]]
        return kind(**json.loads(value, object_hook=_unplain))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CorruptData(f"no definition of queues: {error}") from None


def _plain(value: object) -> object:
    """Types of AMQP's tables that JSON does not have."""
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
