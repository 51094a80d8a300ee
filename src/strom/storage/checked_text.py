"""Small text files for humans to read that tell when they are damaged, by a checksum line."""

from collections.abc import Sequence

from crc32c import crc32c

from strom.model.errors import CorruptData


def encode_lines(lines: Sequence[str]) -> bytes:
    """The lines, and under them their CRC-32C."""
    body = "".join(f"{line}\n" for line in lines).encode()
    return body + b"crc32c %08x\n" % crc32c(body)


def decode_lines(data: bytes) -> list[str]:
    """The lines back; CorruptData unless they are exactly what was written."""
    body, mark, crc = data.rpartition(b"crc32c ")
    if not mark or crc != b"%08x\n" % crc32c(body):
        raise CorruptData("a checked file fails its checksum")
    return body.decode().splitlines()
