"""How a record says which schema it was written with: one zero byte, the id in four, the data.

Protobuf puts between them which message of the file it is: the path of indexes from the outermost
message inwards, as zigzag varints with their number first; the very common path [0] is one zero byte.
"""

import struct
from collections.abc import Sequence

from strom.model.errors import UserError

MAGIC = 0
_HEAD = struct.Struct(">BI")
_VARINT_MOST_BYTES = 5


class NotFramed(UserError):
    """Bytes that do not begin with the id of a schema."""


def frame(schema_id: int, payload: bytes) -> bytes:
    """Data behind the id of its schema."""
    return _HEAD.pack(MAGIC, schema_id) + payload


def unframe(data: bytes) -> tuple[int, bytes]:
    """The id of the schema, and the data behind it."""
    if len(data) < _HEAD.size:
        raise NotFramed(f"{len(data)} bytes are too few to begin with a schema id.")
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise NotFramed(
            f"The data begins with {magic:#04x}, not with the zero byte of a schema id."
        )
    return schema_id, data[_HEAD.size :]


def frame_message_indexes(indexes: Sequence[int], payload: bytes) -> bytes:
    """Protobuf's data behind the path of its message, as it follows the schema id."""
    if list(indexes) == [0]:
        return b"\x00" + payload
    return b"".join(map(_zigzag, (len(indexes), *indexes))) + payload


def unframe_message_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The path of the message, and the data behind it."""
    count, position = _read_zigzag(data, 0)
    if count == 0:
        return (0,), data[position:]
    if not 0 < count <= len(data):
        raise NotFramed(f"A message cannot lie {count} deep in a Protobuf file.")
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
    raise NotFramed("The path of the Protobuf message is cut off.")
