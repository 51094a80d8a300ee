"""Writes OpenTelemetry's MetricsData as clients push it."""

import struct

from strom.wire.kafka.varints import varint


def message(*fields: tuple[int, bytes]) -> bytes:
    """A Protobuf message of fields with a length."""
    return b"".join(varint(number << 3 | 2) + varint(len(data)) + data for number, data in fields)


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def integer(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<q", value)


def point(value: float, **attributes: str) -> bytes:
    pairs = [
        (7, message((1, name.encode()), (2, message((1, text.encode())))))
        for name, text in attributes.items()
    ]
    written = integer(6, value) if isinstance(value, int) else double(4, value)
    return message(*pairs) + written


GAUGE, SUM, HISTOGRAM = 5, 7, 9


def metric(name: str, *points: bytes, kind: int = GAUGE) -> bytes:
    return message((1, name.encode()), (kind, message(*((1, one) for one in points))))


def metrics_data(*metrics: bytes) -> bytes:
    scope = message(*((2, one) for one in metrics))
    return message((1, message((2, scope))))
