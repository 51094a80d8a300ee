"""Compaction: keeps the last value of every key, and the offset of every record.

A run has two passes over chunks of complete batches, so that memory stays bounded:

    plan = plan_compaction(...)                                # compaction_plan.py: is it due?
    keys = build_key_map(chunks(plan.first_dirty_offset), plan, aborted)
    cleaner = Cleaner(keys, now_ms=..., settings=..., aborted=aborted, producers=states.producers())
    for group in group_segments(segments of the plan that begin before keys.end_offset, ...):
        for chunk in chunks(group):
            for header, batch in cleaner.clean(chunk): append batch to the group's new segment
    ... swap the segments in, and store keys.end_offset as the next first_dirty_offset

One cleaner processes all groups of a run, in log order and from the start, because it must see a
transaction's data before its marker. Both passes verify every batch's checksum and raise CorruptData, so
that no damaged batch gets a new checksum. The old segments are then unchanged; leave such a log
uncompacted. A batch with a valid checksum whose records cannot be decoded is kept unchanged.
"""

import logging
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from strom.model.errors import CorruptData, MalformedRecords
from strom.model.topic_settings import TopicSettings
from strom.storage.compaction_plan import CompactionPlan
from strom.storage.producer_state import ProducerInfo
from strom.storage.transaction_index import AbortedTransaction
from strom.wire.kafka.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    BatchHeader,
    Buffer,
    has_valid_checksum,
    headers,
)
from strom.wire.kafka.compression import MAX_DECOMPRESSED_BYTES, Codec
from strom.wire.kafka.records import (
    RecordKey,
    assemble,
    read_body,
    read_keys,
    rebase_timestamp,
)

logger = logging.getLogger(__name__)

DEFAULT_MAX_KEYS = 256 * 1024
"""The limit of keys in a key map, which then takes about 50 MB."""

_FINGERPRINT_BYTES = 32


class AbortedTransactions:
    """Finds the batches that belong to an aborted transaction."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._by_producer: dict[int, list[AbortedTransaction]] = defaultdict(list)
        for transaction in sorted(transactions, key=lambda each: each.first_offset):
            self._by_producer[transaction.producer_id].append(transaction)

    def holding(self, header: BatchHeader) -> AbortedTransaction | None:
        """The aborted transaction that a data batch belongs to, if any."""
        if not header.is_transactional or header.producer_id not in self._by_producer:
            return None
        transactions = self._by_producer[header.producer_id]
        index = bisect_right(transactions, header.base_offset, key=lambda each: each.first_offset)
        if index and header.base_offset <= transactions[index - 1].last_offset:
            return transactions[index - 1]
        return None


class KeyMap:
    """The last offset of every key in the dirty part of a log, up to `end_offset`."""

    def __init__(self, max_keys: int, first_offset: int) -> None:
        self._max_keys = max_keys
        self._last_offsets: dict[bytes, int] = {}
        self._sorted_last_offsets: list[int] | None = None
        self._first_offset = first_offset
        self._undecodable: set[int] = set()
        """The base offsets of batches whose keys could not be decoded."""
        self.end_offset = first_offset
        """Every record from the first dirty offset up to here is in the map."""
        self.full = False
        """Whether it stopped at the limit of keys."""

    def __len__(self) -> int:
        return len(self._last_offsets)

    def add(self, key: bytes, offset: int) -> bool:
        """Record the last offset of a key; False if the map is full."""
        fingerprint = _fingerprint(key)
        if fingerprint not in self._last_offsets and len(self._last_offsets) >= self._max_keys:
            self.full = True
            return False
        self._last_offsets[fingerprint] = offset
        self.end_offset = offset + 1
        return True

    def add_undecodable(self, header: BatchHeader) -> None:
        """Record a batch whose keys cannot be decoded: nothing supersedes it."""
        self._undecodable.add(header.base_offset)

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether the map has a later record of this key."""
        return self._last_offsets.get(_fingerprint(key), -1) > offset

    def supersedes_all(self, header: BatchHeader) -> bool:
        """Whether the (complete) map covers a batch, and none of its records is the last of its key."""
        if header.base_offset < self._first_offset or header.next_offset > self.end_offset:
            return False
        if header.base_offset in self._undecodable:
            return False
        if self._sorted_last_offsets is None:
            self._sorted_last_offsets = sorted(self._last_offsets.values())
        offsets = self._sorted_last_offsets
        at = bisect_left(offsets, header.base_offset)
        return at == len(offsets) or offsets[at] >= header.next_offset


def _fingerprint(key: bytes) -> bytes:
    """Short keys unchanged, long ones as a digest, which is longer than any short key."""
    if len(key) < _FINGERPRINT_BYTES:
        return key
    return blake2b(key, digest_size=_FINGERPRINT_BYTES).digest()


def build_key_map(
    chunks: Iterable[Buffer],
    plan: CompactionPlan,
    aborted: AbortedTransactions,
    max_keys: int = DEFAULT_MAX_KEYS,
) -> KeyMap:
    """Read the dirty part of a log, given as chunks of complete batches in order.

    With too many keys the map ends early: see its `end_offset`. Records of aborted transactions are
    excluded, so that they never supersede an older value.
    """
    keys = KeyMap(max_keys, plan.first_dirty_offset)
    for chunk in chunks:
        for position, header in whole_batches(chunk):
            if header.next_offset <= plan.first_dirty_offset:
                continue
            if header.base_offset >= plan.end_offset:
                break
            if not (header.is_control or aborted.holding(header)):
                _add_batch(keys, chunk, position, header, plan.first_dirty_offset)
            if keys.full:
                return keys
    keys.end_offset = plan.end_offset
    return keys


def _add_batch(
    keys: KeyMap, chunk: Buffer, position: int, header: BatchHeader, first_offset: int
) -> None:
    if header.record_count == 0:
        return
    try:
        body = read_body(chunk, position, header, MAX_DECOMPRESSED_BYTES)
        records = read_keys(body, header)
    except MalformedRecords as error:
        logger.warning(
            "The batch at offset %d is kept unchanged, because its records cannot be decoded: %s",
            header.base_offset,
            error,
        )
        keys.add_undecodable(header)
        return
    for record in records:
        if (
            record.key is not None
            and record.offset >= first_offset
            and not keys.add(record.key, record.offset)
        ):
            return


def whole_batches(chunk: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """The batches of a chunk, with verified checksums; CorruptData for trailing bytes."""
    end = 0
    for position, header in headers(chunk):
        if not has_valid_checksum(chunk, position, header):
            raise CorruptData(f"the batch at offset {header.base_offset} has an invalid checksum")
        yield position, header
        end = position + header.size_bytes
    if end != len(chunk):
        raise CorruptData(f"{len(chunk) - end} bytes after the last complete batch of a chunk")


class CleanedBatch(NamedTuple):
    """A remaining batch: unchanged, with fewer records, or empty."""

    header: BatchHeader
    data: Buffer


class Cleaner:
    """Rewrites the batches of one run of compaction.

    Removed are records that the key map supersedes, records without a key, records of aborted
    transactions, and tombstones and markers of emptied transactions past their delete horizon. The
    horizon is written into their batch by the first compaction that sees them: now plus
    `delete.retention.ms` (KIP-534). Remaining records keep their offsets, and batches their offsets,
    producer and sequence. A producer's last batch is kept even if empty, so that recovery can rebuild
    the producer's sequence from it.
    """

    def __init__(
        self,
        keys: KeyMap,
        *,
        now_ms: int,
        settings: TopicSettings,
        aborted: AbortedTransactions,
        producers: Iterable[ProducerInfo],
    ) -> None:
        self._keys = keys
        self._now_ms = now_ms
        self._new_horizon = now_ms + settings.delete_retention_ms
        self._aborted = aborted
        self._producers = {facts.producer_id: facts for facts in producers}
        self._transactions_with_data: set[int] = set()
        """Producers with a remaining batch of a transaction whose marker comes later."""
        self.aborted_with_data: set[AbortedTransaction] = set()
        """Aborted transactions with batches in this run: the others need no index entry any more."""
        self.bytes_read = 0
        self.bytes_kept = 0

    def clean(self, chunk: Buffer) -> Iterator[CleanedBatch]:
        """The remaining batches of a chunk of complete batches; unchanged ones are views into it."""
        view = memoryview(chunk)
        for position, header in whole_batches(view):
            batch = CleanedBatch(header, view[position : position + header.size_bytes])
            self.bytes_read += header.size_bytes
            try:
                cleaned = (
                    self._clean_marker(batch) if header.is_control else self._clean_data(batch)
                )
            except MalformedRecords:
                cleaned = batch  # its keys are not in the map, so they superseded nothing
            if cleaned is None and self._is_last_of_its_producer(header):
                cleaned = empty_batch(batch)
            if cleaned is not None:
                if header.is_transactional and not header.is_control:
                    self._transactions_with_data.add(header.producer_id)
                self.bytes_kept += len(cleaned.data)
                yield cleaned

    def _clean_marker(self, batch: CleanedBatch) -> CleanedBatch | None:
        """Keep a marker while its data remains, even as an empty batch, and then until its horizon."""
        header = batch.header
        if header.producer_id in self._transactions_with_data:
            self._transactions_with_data.remove(header.producer_id)
            return batch
        if header.record_count == 0:
            return None
        if not header.has_producer:
            return batch  # a control batch of another type
        if header.delete_horizon is None:
            body = read_body(batch.data, 0, header, MAX_DECOMPRESSED_BYTES)
            return keep_records(batch, body, read_keys(body, header), self._new_horizon)
        return None if header.delete_horizon <= self._now_ms else batch

    def _clean_data(self, batch: CleanedBatch) -> CleanedBatch | None:
        header = batch.header
        transaction = self._aborted.holding(header)
        if transaction is not None:
            self.aborted_with_data.add(transaction)
            return None
        if header.record_count == 0:
            return None
        if header.base_offset >= self._keys.end_offset:
            return batch
        if self._keys.supersedes_all(header):
            return None  # the common case in a log of few keys: no need to decode the records
        body = read_body(batch.data, 0, header, MAX_DECOMPRESSED_BYTES)
        records = read_keys(body, header)
        kept = [record for record in records if self._stays(record, header)]
        horizon = header.delete_horizon
        if horizon is None and any(self._is_known_tombstone(record) for record in kept):
            horizon = self._new_horizon
        if not kept:
            return None
        if len(kept) == len(records) and horizon == header.delete_horizon:
            return batch
        return keep_records(batch, body, kept, horizon)

    def _stays(self, record: RecordKey, header: BatchHeader) -> bool:
        # After the map's end a tombstone must stay: older values of its key may still be in the log.
        if record.offset >= self._keys.end_offset:
            return True
        if record.key is None or self._keys.is_superseded(record.key, record.offset):
            return False
        horizon = header.delete_horizon
        return record.has_value or horizon is None or self._now_ms < horizon

    def _is_known_tombstone(self, record: RecordKey) -> bool:
        """Whether this run removes all older values of its key, so that its delete horizon can be set."""
        return not record.has_value and record.offset < self._keys.end_offset

    def _is_last_of_its_producer(self, header: BatchHeader) -> bool:
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return False
        if producer.last_data_offset is not None:
            return not header.is_control and header.last_offset == producer.last_data_offset
        # Transactional offset commits have no sequences, but each transaction has a marker. Only the last
        # marker carries state: the one with the producer's last timestamp.
        return (
            header.is_control
            and header.producer_epoch == producer.producer_epoch
            and header.max_timestamp == producer.last_timestamp
        )


def keep_records(
    batch: CleanedBatch, body: bytes, kept: Sequence[RecordKey], horizon: int | None = None
) -> CleanedBatch:
    """A batch with only some of its records, which are in `body`, and optionally a delete horizon."""
    header = batch.header
    if not header.has_append_time:
        header = header._replace(max_timestamp=max(record.timestamp for record in kept))
    if horizon is not None:
        attributes = header.attributes | DELETE_HORIZON_BIT
        header = header._replace(attributes=attributes, base_timestamp=horizon)
    header = header._replace(record_count=len(kept))
    records = bytearray()
    if header.base_timestamp == batch.header.base_timestamp:
        for record in kept:
            records += body[record.start : record.end]
    else:
        for record in kept:
            rebase_timestamp(records, body, record, header.base_timestamp)
    return _assembled(header, records, header.codec)


def empty_batch(batch: CleanedBatch) -> CleanedBatch:
    """A batch without its records; it keeps its offsets, producer and sequence."""
    if batch.header.record_count == 0:
        return batch
    attributes = batch.header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    header = batch.header._replace(attributes=attributes, record_count=0)
    return _assembled(header, b"", Codec.NONE)


def _assembled(header: BatchHeader, body: Buffer, codec: int) -> CleanedBatch:
    data = assemble(header, body, codec)
    (_, header), *_ = headers(data)
    return CleanedBatch(header, data)
