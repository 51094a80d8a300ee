"""Reads the metrics that clients push: OpenTelemetry's MetricsData, a Protobuf message (KIP-714).

Only numbers are read: gauges and sums. The work is bounded by a number of fields, for any bytes.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from strom.model.errors import CorruptData

MAX_FIELDS = 5000
"""The limit of fields that are read of one push, which takes a few milliseconds."""
MAX_NAME_BYTES = 200
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BITS = 64
_DOUBLE = struct.Struct("<d")
_INTEGER = struct.Struct("<q")


class ClientMetric(NamedTuple):
    """One number of a client."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    """Such as the topic."""
    value: float


class _Fields:
    """Splits messages into their fields, within one limit for all of them."""

    def __init__(self) -> None:
        self.left = MAX_FIELDS

    def of(self, data: memoryview) -> Iterator[tuple[int, memoryview | int]]:
        """Each field's number, and its bytes or its varint; ends early when the limit is reached."""
        position, size = 0, len(data)
        while position < size and self.left > 0:
            self.left -= 1
            tag, position = _varint(data, position)
            kind = tag & 7
            if kind == _VARINT:
                value, position = _varint(data, position)
                yield tag >> 3, value
                continue
            if kind == _LENGTH:
                length, position = _varint(data, position)
            elif kind in (_FIXED64, _FIXED32):
                length = 8 if kind == _FIXED64 else 4
            else:
                raise CorruptData(f"unknown wire type {kind} in metrics")
            if length > size - position:
                raise CorruptData("a field exceeds the metrics")
            yield tag >> 3, data[position : position + length]
            position += length

    def messages(self, data: memoryview, *path: int) -> Iterator[memoryview]:
        """The messages at a path of field numbers."""
        for number, value in self.of(data):
            if number == path[0] and isinstance(value, memoryview):
                if len(path) == 1:
                    yield value
                else:
                    yield from self.messages(value, *path[1:])


def read_client_metrics(data: bytes) -> Iterator[ClientMetric]:
    """Every number, until the limit is reached; CorruptData if the bytes are no such message."""
    fields = _Fields()
    # MetricsData.resource_metrics, ResourceMetrics.scope_metrics, ScopeMetrics.metrics
    for metric in fields.messages(memoryview(data), 1, 2, 2):
        yield from _metric(fields, metric)


def _metric(fields: _Fields, data: memoryview) -> Iterator[ClientMetric]:
    name = ""
    for number, value in fields.of(data):
        if number == 1:
            name = _text(value)
        elif number in (5, 7) and isinstance(value, memoryview):  # Gauge, Sum
            for point in fields.messages(value, 1):
                found = _point(fields, point)
                if found is not None and name:
                    yield ClientMetric(name, *found)


def _point(fields: _Fields, data: memoryview) -> tuple[tuple[tuple[str, str], ...], float] | None:
    """The attributes and the value of a NumberDataPoint; None if it has no value."""
    attributes, found = {}, None
    for number, value in fields.of(data):
        if not isinstance(value, memoryview):
            continue
        if number in (4, 6):
            if len(value) != _DOUBLE.size:
                raise CorruptData("a number of the metrics does not have 8 bytes")
            found = float((_DOUBLE if number == 4 else _INTEGER).unpack(value)[0])
        elif number == 7:
            pair = dict(fields.of(value))
            key, text = pair.get(1), pair.get(2)
            if key is not None and isinstance(text, memoryview):
                attributes[_text(key)] = _any_value(fields, text)
    return None if found is None else (tuple(sorted(attributes.items())), found)


def _any_value(fields: _Fields, data: memoryview) -> str:
    for number, value in fields.of(data):
        if number == 1:
            return _text(value)
        if isinstance(value, int):
            return str(value)
    return ""


def _text(value: memoryview | int) -> str:
    if isinstance(value, int):
        raise CorruptData("a name of the metrics is a number")
    return bytes(value[:MAX_NAME_BYTES]).decode(errors="replace")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    try:
        for shift in range(0, _MAX_VARINT_BITS + 6, 7):
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
    except IndexError:
        raise CorruptData("the metrics end within a number") from None
    raise CorruptData("a number of the metrics exceeds 64 bits")
