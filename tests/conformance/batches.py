"""Record batches as bytes, built and read by kafka-python's pure Python codec."""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
CREATE_TIME_MS = 1_700_000_000_000
"""The timestamp of a record that does not ask for another."""

_ATTRIBUTES_POSITION = 21
_CRC_POSITION = 17


class Record(NamedTuple):
    """One record, to send or as received."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = CREATE_TIME_MS
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = 0


def batch(
    *values: bytes | Record | None,
    codec: str = "none",
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """A record batch that holds the given records; bare values become records without a key."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS[codec],
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        batch_size=1 << 30,
    )
    for offset, item in enumerate(values):
        record = item if isinstance(item, Record) else Record(item)
        builder.append(offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    data = bytes(builder.build())
    # The builder falls back to no compression where compression gains nothing.
    assert data[_ATTRIBUTES_POSITION + 1] & 0b111 == CODECS[codec], "give it more to compress"
    return data


def with_bytes_at(data: bytes, position: int, new: bytes, *, fix_checksum: bool = True) -> bytes:
    """The batch with some bytes replaced, and by default with a new checksum."""
    changed = bytearray(data)
    changed[position : position + len(new)] = new
    if fix_checksum:
        checksum = crc32c(bytes(changed[_ATTRIBUTES_POSITION:]))
        struct.pack_into(">I", changed, _CRC_POSITION, checksum)
    return bytes(changed)


def read_batches(data: bytes | None) -> list[Any]:
    """The whole batches in fetched bytes, as kafka-python's objects, checksums verified."""
    batches = list(MemoryRecords(data or b""))
    assert all(found.validate_crc() for found in batches)
    return batches


def read_records(data: bytes | None) -> list[Record]:
    """All records in fetched bytes."""
    return [
        Record(
            value=_copy(found.value),
            key=_copy(found.key),
            timestamp_ms=found.timestamp,
            headers=tuple(found.headers),
            offset=found.offset,
        )
        for one in read_batches(data)
        for found in one
    ]


def read_values(data: bytes | None) -> Sequence[bytes | None]:
    """The values of all records in fetched bytes."""
    return [record.value for record in read_records(data)]


def _copy(data: bytes | memoryview | None) -> bytes | None:
    return None if data is None else bytes(data)
