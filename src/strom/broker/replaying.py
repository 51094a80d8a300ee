"""Reading a whole log again, as what is rebuilt from it at start-up needs it."""

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
    """One batch: its records, or the marker that ends a transaction."""

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
            data = log.read(offset, _READ_BYTES).data
        except ApiError as error:  # the damage was found only now, while reading
            raise CorruptData(error.message) from error
        before = offset
        for position, header in headers(data):
            if header.is_control:
                yield Replayed(header, [], read_marker(data, position, header))
            else:
                records = read_records(data, position, header)
                if header.base_offset < offset:  # the log's start lies within the batch
                    records = [one for one in records if one.offset >= offset]
                yield Replayed(header, records)
            offset = header.next_offset
        if offset == before:
            raise CorruptData(f"the log {log.partition} cannot be read at offset {offset}")


def last_batches_of(log: Log, counts_last: Callable[[bytes], bool]) -> list[Replayed]:
    """Every batch in order, but without records that a later one of the same key replaces.

    `counts_last` names the keys of which only the last value counts. In a log that waits for compaction
    nearly all records are replaced, and decoding them would take most of the time of a start. Left out is
    only what makes no difference: not a tombstone, nor the record before it (replaying them may do more
    than remove the value), and nothing of a transaction, which does not count in the log's order.
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
    """The records from an offset on that no transaction took back, and the offset after them.

    A batch whose records cannot be decoded is passed over, and reported: clients write these topics,
    and what one of them got wrong must not hold up the others' records behind it.
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
                    "%s: skipped offsets %d to %d, their records cannot be decoded: %s",
                    partition,
                    header.base_offset,
                    header.last_offset,
                    error,
                )
            found += [record for record in records if record.offset >= start]
        after = header.next_offset
    return found, after
