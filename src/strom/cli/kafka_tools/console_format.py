"""How Kafka's console consumer prints a record: its default formatter, property by property."""

import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strom.cli.kafka_tools.flags import is_true
from strom.cli.record_format import shown
from strom.model.errors import UserError

if TYPE_CHECKING:
    from confluent_kafka import Message

FORMATTER_PROPERTIES = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.epoch": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
    "key.deserializer": "StringDeserializer",
    "value.deserializer": "StringDeserializer",
    "headers.deserializer": "StringDeserializer",
}
_TIMESTAMP_TYPES = {0: b"NO_TIMESTAMP", 1: b"CreateTime", 2: b"LogAppendTime"}

Deserializer = Callable[[bytes], bytes]


def _number(layout: str) -> Deserializer:
    def read(data: bytes) -> bytes:
        if len(data) != struct.calcsize(layout):
            raise UserError(
                f"Size of data is not {struct.calcsize(layout)}: these records hold no such number."
            )
        return str(struct.unpack(layout, data)[0]).encode()

    return read


DESERIALIZERS: dict[str, Deserializer] = {
    "StringDeserializer": bytes,
    "ByteArrayDeserializer": bytes,
    "BytesDeserializer": bytes,
    "ShortDeserializer": _number(">h"),
    "IntegerDeserializer": _number(">i"),
    "LongDeserializer": _number(">q"),
    "FloatDeserializer": _number(">f"),
    "DoubleDeserializer": _number(">d"),
    "UUIDDeserializer": lambda data: str(uuid.UUID(data.decode())).encode(),
}


@dataclass(frozen=True)
class ConsoleFormat:
    """The formatter's properties; on a terminal, control codes in records are escaped."""

    properties: dict[str, str] = field(default_factory=dict)
    terminal: bool = False

    def formatter(self) -> Callable[["Message"], bytes]:
        """A function from a record to the bytes to print."""
        settings = FORMATTER_PROPERTIES | self.properties
        separator = settings["key.separator"].encode()
        end = settings["line.separator"].encode()
        parts = [
            part
            for name, part in (
                ("print.timestamp", _timestamp),
                ("print.partition", lambda message: b"Partition:%d" % message.partition()),
                ("print.offset", lambda message: b"Offset:%d" % message.offset()),
                ("print.epoch", _epoch),
                ("print.headers", self._headers(settings)),
                ("print.key", self._payload("key", settings)),
                ("print.value", self._payload("value", settings)),
            )
            if is_true(settings[name])
        ]
        return lambda message: separator.join([part(message) for part in parts]) + end

    def _payload(self, name: str, settings: dict[str, str]) -> Callable[["Message"], bytes]:
        deserialize = _deserializer(settings[f"{name}.deserializer"])
        null = settings["null.literal"].encode()

        def part(message: "Message") -> bytes:
            data = message.key() if name == "key" else message.value()
            return null if data is None else self._safe(deserialize(data))

        return part

    def _headers(self, settings: dict[str, str]) -> Callable[["Message"], bytes]:
        separator = settings["headers.separator"].encode()
        deserialize = _deserializer(settings["headers.deserializer"])
        null = settings["null.literal"].encode()

        def part(message: "Message") -> bytes:
            headers = message.headers()
            if not headers:
                return b"NO_HEADERS"
            return separator.join(
                self._safe(name.encode())
                + b":"
                + (null if value is None else self._safe(deserialize(value)))
                for name, value in headers
            )

        return part

    def _safe(self, data: bytes) -> bytes:
        return shown(data, terminal=True) if self.terminal else data


def _timestamp(message: "Message") -> bytes:
    kind, milliseconds = message.timestamp()
    name = _TIMESTAMP_TYPES[kind]
    return b"%s:%d" % (name, milliseconds) if kind else name


def _epoch(message: "Message") -> bytes:
    epoch = message.leader_epoch()
    return b"Epoch:NOT_PRESENT" if epoch is None else b"Epoch:%d" % epoch


def _deserializer(name: str) -> Deserializer:
    short = name.rpartition(".")[2]
    if short not in DESERIALIZERS:
        raise UserError(f"There is no deserializer {name}. Known: {', '.join(DESERIALIZERS)}.")
    return DESERIALIZERS[short]
