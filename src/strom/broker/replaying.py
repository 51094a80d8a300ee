"""Reading a whole log at start-up, to rebuild state from it."""

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from strom.model.errors import ApiError, CorruptData, MalformedRecords
from strom.model.topics import TopicPartition
from strom.storage.log import Log
from strom.storage.log_reading import Chunk
from strom.wire.kafka.batch import BatchHeader, headers
from strom.wire.kafka.compression import MAX_DECOMPRESSED_BYTES
from strom.wire.kafka.records import Marker, Record, read_marker, read_records

logger = logging.getLogger(__name__)

_READ_BYTES = 1 << 20


class Replayed(NamedTuple):
    """One batch: its records or its marker."""

    header: BatchHeader
    records: list[Record]
    marker: Marker | None = None


def records_of(log: Log) -> Iterator[Record]:
    """Every record from the log's start on; CorruptData if it cannot be read to its end."""
    for batch in batches_of(log):
        yield from batch.records


def batches_of(log: Log) -> Iterator[Replayed]:
    """Every batch from the log's start on; CorruptData if it cannot be read to its end."""
    if log.quarantined:
        raise CorruptData(log.quarantined)
    offset = log.start_offset
    while offset < log.high_watermark:
        try:
            data = log.reader.read(offset, _READ_BYTES).data
        except ApiError as error:  # the damage was detected while reading
            raise CorruptData(error.message) from error
        before = offset
        for position, header in headers(data):
            if header.is_control:
                yield Replayed(header, [], read_marker(data, position, header))
            else:
                records = read_records(data, position, header)
                if header.base_offset < offset:  # the log start offset is within the batch
                    records = [one for one in records if one.offset >= offset]
                yield Replayed(header, records)
            offset = header.next_offset
        if offset == before:
            raise CorruptData(f"the log {log.partition} cannot be read at offset {offset}")


def last_batches_of(log: Log, counts_last: Callable[[bytes], bool]) -> list[Replayed]:
    """Every batch in order, without records that a later record of the same key supersedes.

    `counts_last` selects the keys of which only the last value matters. In an uncompacted log nearly
    all records are superseded, and decoding them would dominate the start. Never skipped are tombstones
    and the records before them (replaying them may do more than remove the value), and records of
    transactions, which do not take effect in log order.
    """
    found: list[Replayed | None] = []
    places: dict[bytes, int] = {}
    for batch in batches_of(log):
        header, records, _ = batch
        if header.is_transactional or header.is_control:
            found.append(batch)
            continue
        for record in records:
            key = record.key
            if key is not None and counts_last(key):
                if record.value is None:
                    places.pop(key, None)
                else:
                    place = places.get(key)
                    if place is not None:
                        found[place] = None
                    places[key] = len(found)
            found.append(Replayed(header, [record]))
    return [batch for batch in found if batch is not None]


def committed_records(
    chunk: Chunk, start: int, partition: TopicPartition
) -> tuple[list[Record], int]:
    """The committed records from an offset on, and the offset after them.

    A batch whose records cannot be decoded is skipped and logged: clients write these topics, and a
    malformed batch of one must not block the records of others.
    """
    found: list[Record] = []
    after = start
    for position, header in headers(chunk.data):
        aborted = header.is_transactional and any(
            one.producer_id == header.producer_id
            and one.first_offset <= header.base_offset <= one.last_offset
            for one in chunk.aborted
        )
        if not header.is_control and not aborted:
            try:
                records = read_records(chunk.data, position, header, MAX_DECOMPRESSED_BYTES)
            except MalformedRecords as error:
                records = []
                logger.error(
                    "%s: skipped offsets %d to %d, whose records cannot be decoded: %s",
                    partition,
                    header.base_offset,
                    header.last_offset,
                    error,
                )
            found += [record for record in records if record.offset >= start]
        after = header.next_offset
    return found, after
