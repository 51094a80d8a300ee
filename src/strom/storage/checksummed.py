"""Small files with a CRC-32C, so that damage and truncation are detected: binary, or lines of text."""

from collections.abc import Sequence

from crc32c import crc32c

from strom.model.errors import CorruptData

CHECKSUM_BYTES = 4
_MASK = 0x5A5A5A5A
"""Without it a file of zeros would be valid: the CRC of no bytes is 0."""


def add_checksum(data: bytes) -> bytes:
    """The data followed by its checksum."""
    return data + (crc32c(data) ^ _MASK).to_bytes(CHECKSUM_BYTES, "big")


def strip_checksum(data: bytes) -> bytes:
    """The data without its checksum; CorruptData if it does not match."""
    content = data[:-CHECKSUM_BYTES]
    if len(data) < CHECKSUM_BYTES or add_checksum(content) != data:
        raise CorruptData(f"{len(data)} bytes fail their checksum")
    return content


def encode_lines(lines: Sequence[str]) -> bytes:
    """The lines, followed by a line with their checksum."""
    body = "".join(f"{line}\n" for line in lines).encode()
    return body + b"crc32c %08x\n" % crc32c(body)


def decode_lines(data: bytes) -> list[str]:
    """The lines of a file; CorruptData if the checksum does not match."""
    body, mark, crc = data.rpartition(b"crc32c ")
    if not mark or crc != b"%08x\n" % crc32c(body):
        raise CorruptData("a text file fails its checksum")
    return body.decode().splitlines()
