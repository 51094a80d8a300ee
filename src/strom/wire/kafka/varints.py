"""Unsigned varints: seven bits per byte, least significant first; the last byte has no high bit."""

from strom.model.errors import ProtocolError
from strom.wire.kafka.batch import Buffer

MAX_VARINT_BYTES = 5
MAX_UNKNOWN_TAGS = 64
"""The limit of unknown tagged fields in one struct: a newer peer has a few, an attacker many."""


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The number at a position and the position after it; IndexError where the buffer ends."""
    byte = buffer[position]
    position += 1
    if byte < 0x80:
        return byte, position
    return read_varint_rest(buffer, position, byte)


def read_varint_rest(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Continue after a first byte with the high bit set; generated code reads the first byte inline."""
    value = first & 0x7F
    for shift in range(7, 7 * MAX_VARINT_BYTES, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise ProtocolError("varint exceeds 32 bits")


def varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip_tags(buffer: Buffer, position: int, count: int) -> int:
    """Skip unknown tagged fields, as KIP-482 requires; `count` is the first byte of their number."""
    if count >= 0x80:
        count, position = read_varint_rest(buffer, position, count)
    if count > MAX_UNKNOWN_TAGS:
        raise ProtocolError(
            f"{count} unknown tagged fields in one struct exceed the limit of {MAX_UNKNOWN_TAGS}"
        )
    for _ in range(count):
        _, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        position += size
        if position > len(buffer):
            raise ProtocolError("a tagged field exceeds the message")
    return position
