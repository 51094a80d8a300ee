"""One partition of a topic that feeds an exchange: every record is routed by its key and headers.

Each target (a queue, a topic, the delayed messages) gets the records in order. The cursor advances only
once they are durable, so that delivery is at least once: after a crash some are routed again, none is
skipped. A target that refuses a record, or is slow to make one durable, lags: the others go on without
it, and it reads the partition on its own until it has caught up.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from strom.broker.partition import Partition
from strom.broker.replaying import committed_records
from strom.model.errors import ApiError, CorruptData
from strom.model.retries import RetryPolicy
from strom.queues.receipts import BatchReceipt, Receipt
from strom.wire.kafka.records import Record

log = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
RETRY = RetryPolicy(first_s=1.0)
"""For a topic that cannot be read, and records that did not become durable."""
RETRY_REFUSED = RetryPolicy()
"""For a target that refuses records: it grows until the target accepts one."""
PATIENCE_S = 1.0
"""How long a read waits for its slowest target before it goes on without it."""


class Delivery(NamedTuple):
    """A record for one target."""

    target: str
    deliver: Callable[[Receipt], bool]
    """Deliver it; False if the target refuses it for now."""


class Route(NamedTuple):
    """The connection from the topic to the exchange."""

    exchange: str
    deliveries: Callable[[Partition, Record], Iterable[Delivery]]
    is_open: Callable[[], bool]
    """Whether the exchange still exists."""
    on_moved: Callable[[], None]


class FetchedRecords(NamedTuple):
    """Some records, and the offset of the next ones."""

    records: list[Record]
    after: int


class PartitionReader:
    """Routes the records of one partition, one read after another."""

    def __init__(
        self, route: Route, partition: Partition, position: int, lagging: Mapping[str, int]
    ) -> None:
        self.route = route
        self.partition = partition
        self.position = position
        """All records before it are durable, except in targets that lag."""
        self.next = position
        """All records before it were routed, except to targets that lag."""
        self.stopped = False
        self._unreadable: dict[int, str] = {}
        """Why records cannot be read, by their offset: that of the reader, or of a target that lags."""
        self.loop = asyncio.get_running_loop()
        self._pending: dict[str, BatchReceipt] = {}
        self._is_reading = False
        self._timer: asyncio.TimerHandle | None = None
        self._lagging: dict[str, LaggingTarget] = {}
        for target, at in lagging.items():
            self._lagging[target] = lagger = LaggingTarget(self, target, at, at)
            lagger.read_after(0)
        partition.wait_for_records(self)
        self.loop.call_soon(self.partition_changed)

    @property
    def lagging(self) -> dict[str, int]:
        """The durable positions of targets that lag."""
        return {target: lagger.position for target, lagger in self._lagging.items()}

    def stop(self) -> None:
        """Stop reading; what was routed may still become durable."""
        self.stopped = True
        self.partition.stop_waiting(self)
        if self._timer is not None:
            self._timer.cancel()
        for lagger in self._lagging.values():
            lagger.stop()

    def partition_changed(self) -> None:
        """There may be more to read."""
        if not self._is_reading and self.can_read:
            self._read()

    @property
    def can_read(self) -> bool:
        """Whether the partition and the exchange still exist."""
        return not self.stopped and not self.partition.deleted and self.route.is_open()

    @property
    def is_stopped_by_damage(self) -> bool:
        """Whether records cannot be read, so that the exchange or a target waits for a repair."""
        return bool(self._unreadable) and self.can_read

    def fetch(self, start: int) -> FetchedRecords | None:
        """Fetch committed records from an offset; None if there are none or the log is unreadable."""
        try:
            read = self._fetch(start)
        except (ApiError, CorruptData) as error:
            self._note_unreadable(start, error)
            self.loop.call_later(RETRY.delay(0, 0), self.partition_changed)
            return None
        if self._unreadable.pop(start, None) is not None:
            log.info(
                "Exchange %r can read %s again.", self.route.exchange, self.partition.log.partition
            )
        return read

    def _fetch(self, asked: int) -> FetchedRecords | None:
        source, start = self.partition.log, asked
        if start < source.start_offset:
            log.warning(
                "Exchange %r skips records %d to %d of %s: deleted before they were read.",
                self.route.exchange,
                start,
                source.start_offset - 1,
                source.partition,
            )
            start = source.start_offset
        if start >= source.last_stable_offset:
            return FetchedRecords([], start) if start > asked else None
        chunk = source.reader.read(start, READ_BYTES, committed_only=True)
        records, after = committed_records(chunk, start, source.partition)
        return None if after == start else FetchedRecords(records, after)

    def _note_unreadable(self, offset: int, error: ApiError | CorruptData) -> None:
        """Log why records cannot be read: once, not at each retry."""
        kind = error.code.name if isinstance(error, ApiError) else type(error).__name__
        if self._unreadable.get(offset) != kind:
            self._unreadable[offset] = kind
            log.error(
                "Exchange %r stops at offset %d of %s, and goes on when it can be read: %s",
                self.route.exchange,
                offset,
                self.partition.log.partition,
                error,
            )

    def _read(self) -> None:
        read = self.fetch(self.next)
        if read is None:
            return
        self._is_reading = True
        receipts = self._pending
        for record in read.records:
            for target, deliver in self.route.deliveries(self.partition, record):
                if target in self._lagging:
                    continue
                receipt = receipts.get(target)
                if receipt is None:
                    done = partial(self._settled, target)
                    receipt = receipts[target] = BatchReceipt(done, is_patient=True)
                if not deliver(receipt):
                    lagger = self._fall_behind(target, receipt, at=record.offset)
                    lagger.is_refused = True
                    receipt.settle(durable=True)
        self.next = read.after
        for receipt in tuple(receipts.values()):
            receipt.settle(durable=True)
        if not receipts:
            self._finish()
        elif self._is_reading:
            self._timer = self.loop.call_later(PATIENCE_S, self._leave_behind)

    def _settled(self, target: str, durable: bool) -> None:
        receipt = self._pending.pop(target)
        if not durable:  # read again for it, from the start of this read
            lagger = self._fall_behind(target, receipt, at=self.position)
            lagger.read_after(RETRY.delay(0, 0))
        if not self._pending and self._timer is not None:
            self._finish()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_reading = False
        self.position = self.next
        self.route.on_moved()
        if not self.stopped:
            self.loop.call_soon(self.partition_changed)

    def _leave_behind(self) -> None:
        """Go on without targets that have not made the records of this read durable yet."""
        for target, receipt in tuple(self._pending.items()):
            self._fall_behind(target, receipt, at=self.next)
        self._finish()

    def _fall_behind(self, target: str, receipt: BatchReceipt, at: int) -> "LaggingTarget":
        log.info("Exchange %r goes on without the lagging target: %s.", self.route.exchange, target)
        self._pending.pop(target, None)
        lagger = self._lagging[target] = LaggingTarget(self, target, self.position, at)
        receipt.done = lagger.settled
        return lagger

    def caught_up(self, target: str) -> None:
        """A lagging target has all records that were routed."""
        log.info("Exchange %r: lagging target %s has caught up.", self.route.exchange, target)
        del self._lagging[target]
        self.route.on_moved()


class LaggingTarget:
    """Reads a partition for one lagging target, up to the position of the others."""

    def __init__(self, reader: PartitionReader, target: str, position: int, following: int) -> None:
        self.position = position
        """All records before it are durable in this target."""
        self.is_refused = False
        """Whether the target refused the record at `_next`."""
        self._reader = reader
        self._target = target
        self._next = following
        self._refusals = 0
        self._timer: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def read_after(self, seconds: float) -> None:
        """Schedule the next read."""
        if not self._reader.stopped:
            self._timer = self._reader.loop.call_later(seconds, self._read)

    def settled(self, durable: bool) -> None:
        """All records that the target accepted so far are durable, or one failed."""
        if durable:
            self.position = self._next
        else:
            self._next = self.position
            self.is_refused = True
        self._reader.route.on_moved()
        if self.is_refused:
            self.read_after(RETRY_REFUSED.delay(self._refusals, 0))
            self._refusals += 1
        else:
            self.read_after(0)

    def _read(self) -> None:
        reader = self._reader
        if not reader.can_read:
            return
        limit = reader.next
        if self._next >= limit:
            reader.caught_up(self._target)
            return
        read = reader.fetch(self._next)
        if read is None:
            self.read_after(RETRY.delay(0, 0))
            return
        receipt = BatchReceipt(self.settled, is_patient=True)
        self._next = self._deliver(read, limit, receipt)
        receipt.settle(durable=True)

    def _deliver(self, read: FetchedRecords, limit: int, receipt: BatchReceipt) -> int:
        """Deliver records until one is refused; return the offset to continue at."""
        reader = self._reader
        for record in read.records:
            if record.offset >= limit:
                break
            for target, deliver in reader.route.deliveries(reader.partition, record):
                if target == self._target:
                    self.is_refused = not deliver(receipt)
                    if self.is_refused:
                        return record.offset
                    self._refusals = 0
        self.is_refused = False
        return min(read.after, limit)
