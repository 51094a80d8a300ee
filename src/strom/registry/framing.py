"""Confluent's wire format: a magic byte of zero, the schema id in four bytes, then the payload.

Protobuf puts the message indexes in front of the payload: the path from the outermost message inwards,
as zigzag varints preceded by their count; the most common path [0] is abbreviated to one zero byte.
"""

import struct
from collections.abc import Sequence

from strom.model.errors import UserError

MAGIC = 0
_HEAD = struct.Struct(">BI")
_VARINT_MOST_BYTES = 5


class NotFramed(UserError):
    """The data does not start with the magic byte and a schema id."""


def frame(schema_id: int, payload: bytes) -> bytes:
    """Prefix a payload with the id of its schema."""
    return _HEAD.pack(MAGIC, schema_id) + payload


def unframe(data: bytes) -> tuple[int, bytes]:
    """Split data into the schema id and the payload."""
    if len(data) < _HEAD.size:
        raise NotFramed(f"Data of {len(data)} bytes is too short for a schema id.")
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise NotFramed(
            f"The data starts with {magic:#04x} instead of the magic byte 0x00 of a schema id."
        )
    return schema_id, data[_HEAD.size :]


def frame_message_indexes(indexes: Sequence[int], payload: bytes) -> bytes:
    """Prefix a Protobuf payload with its message indexes; they follow the schema id."""
    if list(indexes) == [0]:
        return b"\x00" + payload
    return b"".join(map(_zigzag, (len(indexes), *indexes))) + payload


def unframe_message_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """Split data behind the schema id into the message indexes and the payload."""
    count, position = _read_zigzag(data, 0)
    if count == 0:
        return (0,), data[position:]
    if not 0 < count <= len(data):
        raise NotFramed(f"Invalid number of Protobuf message indexes: {count}.")
    indexes = []
    for _ in range(count):
        index, position = _read_zigzag(data, position)
        indexes.append(index)
    return tuple(indexes), data[position:]


def _zigzag(number: int) -> bytes:
    left = (number << 1) ^ (number >> 31)
    encoded = bytearray()
    while left >= 0x80:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def _read_zigzag(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(data[position : position + _VARINT_MOST_BYTES]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position + place + 1
    raise NotFramed("The Protobuf message indexes are truncated.")
