"""The header of a record batch (format v2), read and stamped in place.

The broker treats a batch as opaque bytes behind this header. The checksum excludes the base offset and
the leader epoch, so that a broker can assign them without computing it again.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from strom.model.errors import CorruptData

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC = 2
LOG_OVERHEAD = 12
"""Bytes before the part that the batch length counts: base offset and the length itself."""
HEADER_BYTES = 61
CRC_POSITION = 17
CRC_START = 21
"""The checksum covers everything from here (the attributes) to the end."""

NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

CODEC_MASK = 0b111
APPEND_TIME_BIT = 1 << 3
TRANSACTIONAL_BIT = 1 << 4
CONTROL_BIT = 1 << 5
DELETE_HORIZON_BIT = 1 << 6

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET = struct.Struct(">q")
_SPAN = struct.Struct(">qi11xi")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_EPOCH_POSITION = 12
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35
SPAN_BYTES = _SPAN.size
"""How much of a batch `read_span` looks at."""
assert _HEADER.size == HEADER_BYTES  # noqa: S101


class BatchHeader(NamedTuple):
    """The fields before the records, the same on the wire and on disk."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record as produced; compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether it holds control records (transaction markers), which consumers never see."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        """Whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def has_append_time(self) -> bool:
        """Whether max_timestamp is the broker's time, and holds for every record."""
        return bool(self.attributes & APPEND_TIME_BIT)

    @property
    def delete_horizon(self) -> int | None:
        """When its tombstones may be deleted, if compaction has set that (in base_timestamp; KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer(self) -> bool:
        """Whether an idempotent or transactional producer wrote it."""
        return self.producer_id != NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; numbers wrap to 0 after 2³¹ - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at a position; CorruptData if the buffer ends within it."""
    try:
        return BatchHeader._make(_HEADER.unpack_from(buffer, position))
    except struct.error:
        raise CorruptData(f"truncated batch header at byte {position}") from None


def read_span(buffer: Buffer, position: int = 0) -> tuple[int, int, int]:
    """Base offset, the offset after the batch, and its size in bytes; for walking a log file."""
    base_offset, batch_length, last_offset_delta = _SPAN.unpack_from(buffer, position)
    return base_offset, base_offset + last_offset_delta + 1, LOG_OVERHEAD + batch_length


def headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """The complete batches in a buffer as (position, header); a truncated last one is skipped."""
    end = len(buffer)
    while position + HEADER_BYTES <= end:
        header = read_header(buffer, position)
        if header.batch_length < HEADER_BYTES - LOG_OVERHEAD:
            raise CorruptData(
                f"batch length {header.batch_length} at byte {position} is less than its header"
            )
        if position + header.size_bytes > end:
            return
        yield position, header
        position += header.size_bytes


def checksum(buffer: Buffer, position: int, size_bytes: int) -> int:
    """CRC-32C over the part of a batch that its checksum covers."""
    return int(crc32c(memoryview(buffer)[position + CRC_START : position + size_bytes]))


def has_valid_checksum(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    return checksum(buffer, position, header.size_bytes) == header.crc


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, epoch: int) -> None:
    """Write base offset and leader epoch into a batch; its checksum stays valid."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + _EPOCH_POSITION, epoch)


def stamp_append_time(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, now_ms: int
) -> None:
    """Replace the producer's timestamps by the broker's, and update the checksum."""
    attributes = header.attributes | APPEND_TIME_BIT
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, attributes)
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, now_ms)
    _CRC.pack_into(buffer, position + CRC_POSITION, checksum(buffer, position, header.size_bytes))


def pack_header(header: BatchHeader) -> bytes:
    """The header as bytes, its checksum as given."""
    return _HEADER.pack(*header)
