"""The idempotent and transactional producers of one partition (Kafka's ProducerStateManager).

Before an append, `check` decides whether a batch is new, a duplicate of one of the producer's last
five, or invalid. After it, `update` records the batch. `update` alone, for every batch in order,
rebuilds the state from the log; a snapshot shortens that: restore it, then update with the batches
after it.
"""

import struct
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.wire.kafka.batch import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader
from strom.wire.kafka.records import ControlType, Marker

RETAINED_BATCHES = 5
"""A producer has at most this many requests in flight, so no older batch can be retried."""

_NO_COORDINATOR_EPOCH = -1
_NO_OFFSET = -1
_SEQUENCE_MASK = 0x7FFFFFFF

_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = struct.Struct(">IBqI")  # checksum of the rest, version, next offset, producers
_PRODUCER = struct.Struct(">qhiqqB")
_BATCH = struct.Struct(">iiqqq")
_CHECKSUM_BYTES = 4


class BatchMetadata(NamedTuple):
    """An appended batch: the response to a duplicate has its offsets and timestamp."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class CompletedTransaction(NamedTuple):
    """A transaction of this partition that has ended; `last_offset` is that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerInfo(NamedTuple):
    """One producer, as in DescribeProducers; None where it has no value."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_first_offset: int | None
    last_data_offset: int | None
    """Last offset of its last batch of this epoch, which compaction keeps even if it is empty."""


class _Producer:
    """The state of one producer. A new epoch resets the sequence, but keeps an open transaction."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=RETAINED_BATCHES)
        self.last_timestamp = -1
        self.coordinator_epoch = _NO_COORDINATOR_EPOCH

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def begin_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        if header.producer_epoch == self.epoch:
            for batch in self.batches:
                if batch.base_sequence == header.base_sequence:
                    return batch if batch.last_sequence == header.last_sequence else None
        return None


class ProducerStates:
    """The producers of one partition. Not thread-safe; the time is always an argument."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self._open_transactions: dict[int, int] = {}  # producer id → first offset, in log order

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._producers

    @property
    def first_open_offset(self) -> int | None:
        """The earliest offset of an open transaction, None if there is none.

        The last stable offset is the smaller of this one and the high watermark. It may precede the
        log start offset if records were deleted while the transaction was open.
        """
        return next(iter(self._open_transactions.values()), None)

    def check(
        self, header: BatchHeader, marker: Marker | None = None, *, from_client: bool = True
    ) -> BatchMetadata | None:
        """None if a batch may be appended, the earlier batch if it is a duplicate; else ApiError.

        For control batches pass their marker. For batches that the broker writes on behalf of a
        producer (offsets in a transaction) pass `from_client=False`: they have no sequence.
        The error codes are Kafka's: INVALID_PRODUCER_EPOCH for an older epoch;
        OUT_OF_ORDER_SEQUENCE_NUMBER for a gap, and for a new epoch that does not begin at 0;
        INVALID_TXN_STATE for a batch outside the producer's open transaction;
        TRANSACTION_COORDINATOR_FENCED for an old coordinator's marker.
        An unknown producer may begin at any sequence, because its batches may have been deleted.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        if marker is not None:
            self._check_epoch(producer, header)
            _check_coordinator(producer, header, marker)
            return None
        if from_client:
            duplicate = producer.duplicate_of(header)
            if duplicate is not None:
                return duplicate
        self._check_epoch(producer, header)
        if from_client:
            _check_sequence(producer, header)
        if not header.is_transactional and header.producer_id in self._open_transactions:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {header.producer_id} has an open transaction; the batch is outside it.",
            )
        return None

    @staticmethod
    def _check_epoch(producer: _Producer, header: BatchHeader) -> None:
        if header.producer_epoch < producer.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {header.producer_epoch} of producer {header.producer_id} is older than "
                f"its current epoch {producer.epoch}.",
            )

    def update(
        self, header: BatchHeader, marker: Marker | None = None
    ) -> CompletedTransaction | None:
        """Record an appended batch; its header must hold the assigned base offset.

        For control batches pass the result of `read_marker` (None for those that compaction emptied:
        they end no transaction, and are kept only because they hold the producer's epoch).
        Never raises: the log is the source of truth, also during replay.
        """
        producer_id = header.producer_id
        if producer_id == NO_PRODUCER_ID:
            return None
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.begin_epoch(header.producer_epoch)
        producer.last_timestamp = header.max_timestamp
        if marker is not None:
            producer.coordinator_epoch = marker.coordinator_epoch
            return self._complete(header, marker)
        if header.is_control:
            return None
        if header.base_sequence != NO_SEQUENCE:
            batch = BatchMetadata(
                header.base_sequence,
                header.last_sequence,
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
            )
            producer.batches.append(batch)
        if header.is_transactional:
            self._open_transactions.setdefault(producer_id, header.base_offset)
        return None

    def _complete(self, header: BatchHeader, marker: Marker) -> CompletedTransaction | None:
        first_offset = self._open_transactions.pop(header.producer_id, None)
        if first_offset is None:
            return None
        aborted = marker.type is ControlType.ABORT
        return CompletedTransaction(header.producer_id, first_offset, header.last_offset, aborted)

    def expire(self, now_ms: int, max_idle_ms: int) -> None:
        """Remove producers that were idle for `max_idle_ms`, except those with an open transaction."""
        idle = [
            producer_id
            for producer_id, producer in self._producers.items()
            if now_ms - producer.last_timestamp >= max_idle_ms
            and producer_id not in self._open_transactions
        ]
        for producer_id in idle:
            del self._producers[producer_id]

    def producers(self) -> Iterator[ProducerInfo]:
        for producer_id, producer in self._producers.items():
            has_coordinator = producer.coordinator_epoch != _NO_COORDINATOR_EPOCH
            yield ProducerInfo(
                producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch if has_coordinator else None,
                self._open_transactions.get(producer_id),
                producer.batches[-1].last_offset if producer.batches else None,
            )

    def snapshot(self, next_offset: int) -> bytes:
        """The state after the last batch before `next_offset`, as bytes."""
        parts = []
        for producer_id, producer in self._producers.items():
            first_offset = self._open_transactions.get(producer_id, _NO_OFFSET)
            facts = (
                producer_id,
                producer.epoch,
                producer.coordinator_epoch,
                producer.last_timestamp,
                first_offset,
                len(producer.batches),
            )
            parts.append(_PRODUCER.pack(*facts))
            parts.extend(_BATCH.pack(*batch) for batch in producer.batches)
        head = _SNAPSHOT_HEAD.pack(0, _SNAPSHOT_VERSION, next_offset, len(self._producers))
        data = head[_CHECKSUM_BYTES:] + b"".join(parts)
        return crc32c(data).to_bytes(_CHECKSUM_BYTES, "big") + data

    @classmethod
    def restore(cls, data: bytes) -> tuple["ProducerStates", int]:
        """The state of a snapshot and its next offset; CorruptData if it is damaged."""
        if len(data) < _SNAPSHOT_HEAD.size:
            raise CorruptData("producer snapshot is truncated")
        checksum, version, next_offset, count = _SNAPSHOT_HEAD.unpack_from(data)
        if crc32c(memoryview(data)[_CHECKSUM_BYTES:]) != checksum:
            raise CorruptData("producer snapshot has an invalid checksum")
        if version != _SNAPSHOT_VERSION:
            raise CorruptData(f"producer snapshot has unknown version {version}")
        states = cls()
        try:
            end = states._restore_producers(data, count)
        except struct.error:
            raise CorruptData("producer snapshot is truncated") from None
        if end != len(data):
            raise CorruptData("producer snapshot has trailing bytes")
        return states, next_offset

    def _restore_producers(self, data: bytes, count: int) -> int:
        transactions = []
        position = _SNAPSHOT_HEAD.size
        for _ in range(count):
            fields = _PRODUCER.unpack_from(data, position)
            producer_id, epoch, coordinator_epoch, last_timestamp, first_offset, batches = fields
            position += _PRODUCER.size
            producer = self._producers[producer_id] = _Producer(epoch)
            producer.coordinator_epoch = coordinator_epoch
            producer.last_timestamp = last_timestamp
            for _ in range(batches):
                producer.batches.append(BatchMetadata._make(_BATCH.unpack_from(data, position)))
                position += _BATCH.size
            if first_offset != _NO_OFFSET:
                transactions.append((first_offset, producer_id))
        for first_offset, producer_id in sorted(transactions):
            self._open_transactions[producer_id] = first_offset
        return position


def _check_sequence(producer: _Producer, header: BatchHeader) -> None:
    if header.producer_epoch == producer.epoch:
        expected = producer.last_sequence + 1 & _SEQUENCE_MASK
    else:
        expected = 0
    if header.base_sequence != expected:
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Producer {header.producer_id} (epoch {header.producer_epoch}) sent sequence "
            f"{header.base_sequence}, expected {expected}.",
        )


def _check_coordinator(producer: _Producer, header: BatchHeader, marker: Marker) -> None:
    if marker.coordinator_epoch < producer.coordinator_epoch:
        raise ApiError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"Marker for producer {header.producer_id} has coordinator epoch "
            f"{marker.coordinator_epoch}, older than {producer.coordinator_epoch}.",
        )
