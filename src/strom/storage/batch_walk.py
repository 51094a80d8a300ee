"""Iterating over the batches of a log file in bounded memory."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.storage.damage import DamagedRange, skip_damage
from strom.storage.files import File
from strom.wire.kafka.batch import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    has_valid_checksum,
    headers,
    read_header,
)

_HEADER_CHUNK = 64 * 1024
_BATCH_CHUNK = 1024 * 1024


class WalkedBatch(NamedTuple):
    """A batch and its position in the file; `data` begins with the header."""

    position: int
    header: BatchHeader
    data: memoryview


class DamagedBatch(CorruptData):
    """The bytes at a position of a log file are not the batch that was written there."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} at byte {position}")
        self.position = position
        self.reason = reason


def walk_headers(
    file: File, position: int, end: int, damage: Sequence[DamagedRange] = ()
) -> Iterator[tuple[int, BatchHeader]]:
    """The header of every batch between two positions, without reading the records.

    Known damage is skipped.
    """
    chunk, chunk_start = b"", position
    while position < end:
        if damage and (after := skip_damage(damage, position)) != position:
            position = after
            continue
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk = file.pread(min(_HEADER_CHUNK, end - position), position)
            chunk_start = position
        header = _sane_header(chunk, position - chunk_start, position, end)
        yield position, header
        position += header.size_bytes


def walk_batches(file: File, position: int, end: int) -> Iterator[WalkedBatch]:
    """Every batch between two positions, complete and with a verified checksum."""
    chunk, chunk_start = memoryview(b""), position
    while position < end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk = memoryview(file.pread(min(_BATCH_CHUNK, end - position), position))
            chunk_start = position
        header = _sane_header(chunk, position - chunk_start, position, end)
        if position + header.size_bytes > chunk_start + len(chunk):
            length = min(max(_BATCH_CHUNK, header.size_bytes), end - position)
            chunk = memoryview(file.pread(length, position))
            chunk_start = position
        data = chunk[position - chunk_start : position - chunk_start + header.size_bytes]
        if len(data) < header.size_bytes:
            raise DamagedBatch(position, "the file ends within a batch")
        if not has_valid_checksum(data, 0, header):
            raise DamagedBatch(position, "a batch fails its checksum")
        yield WalkedBatch(position, header, data)
        position += header.size_bytes


def read_whole_batches(file: File, end: int) -> Iterator[tuple[memoryview, list[BatchHeader]]]:
    """A log file in chunks of complete batches, with their headers; checksums are not verified."""
    position = 0
    while position < end:
        chunk = memoryview(file.pread(min(_BATCH_CHUNK, end - position), position))
        first = _sane_header(chunk, 0, position, end)
        if first.size_bytes > len(chunk):
            chunk = memoryview(file.pread(first.size_bytes, position))
        found = [header for _, header in headers(chunk)]
        size = sum(header.size_bytes for header in found)
        if not size:
            raise DamagedBatch(position, "the file ends within a batch")
        yield chunk[:size], found
        position += size


def _sane_header(chunk: bytes | memoryview, at: int, position: int, end: int) -> BatchHeader:
    if at + HEADER_BYTES > len(chunk):
        raise DamagedBatch(position, "the file ends within a batch header")
    header = read_header(chunk, at)
    if header.batch_length < HEADER_BYTES - 12 or header.magic != MAGIC:
        raise DamagedBatch(position, "no batch")
    if position + header.size_bytes > end:
        raise DamagedBatch(position, "the file ends within a batch")
    if header.last_offset_delta < 0 or header.base_offset < 0:
        raise DamagedBatch(position, "a batch has invalid offsets")
    return header
