"""Bytes that tell when they are damaged or cut off: their CRC-32C stands behind them."""

from crc32c import crc32c

from strom.model.errors import CorruptData

SIGNATURE_BYTES = 4
_MASK = 0x5A5A5A5A
"""So that zeros do not sign nothing: the plain checksum of no bytes is 0."""


def sign(data: bytes) -> bytes:
    """The data with its checksum behind it."""
    return data + (crc32c(data) ^ _MASK).to_bytes(SIGNATURE_BYTES, "big")


def unsign(data: bytes) -> bytes:
    """The data without its checksum; CorruptData unless it is exactly what was signed."""
    content = data[:-SIGNATURE_BYTES]
    if len(data) < SIGNATURE_BYTES or sign(content) != data:
        raise CorruptData(f"{len(data)} bytes fail their checksum")
    return content
