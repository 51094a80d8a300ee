"""One partition of a topic that feeds an exchange: every record of it is routed, by its key and headers.

Each target (a queue, a topic, the delayed messages) gets the records in order. How far the partition was
read is noted down only after they are durable: after a crash some may be routed again, and none is left
out. A target that refuses a record, or takes too long to make one durable, falls behind: the others go on
without it, and it reads the partition on its own from there until it has caught up.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from strom.broker.partition import Partition
from strom.broker.replaying import committed_records
from strom.model.errors import ApiError, CorruptData
from strom.queues.receipts import BatchReceipt, Receipt
from strom.wire.kafka.records import Record

log = logging.getLogger(__name__)

READ_BYTES = 256 * 1024
RETRY_SECONDS = 1.0
PATIENCE_S = 1.0
"""So long a read waits for the slowest of its targets before it goes on without it."""
FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 1.0


class Delivery(NamedTuple):
    """A record on its way to one target."""

    target: str
    deliver: Callable[[Receipt], bool]
    """Hand it over; False if the target refuses it for now."""


class Route(NamedTuple):
    """What leads from the topic to the exchange."""

    exchange: str
    deliveries: Callable[[Partition, Record], Iterable[Delivery]]
    is_open: Callable[[], bool]
    """Whether the exchange is still there."""
    on_moved: Callable[[], None]


class Read(NamedTuple):
    """Some records, and where the next ones begin."""

    records: list[Record]
    after: int


class PartitionReader:
    """Routes the records of one partition, one read after the other."""

    def __init__(
        self, route: Route, partition: Partition, position: int, lagging: Mapping[str, int]
    ) -> None:
        self.route = route
        self.partition = partition
        self.position = position
        """All before it is durable, except in targets that lag."""
        self.next = position
        """All before it was routed, except to targets that lag."""
        self.stopped = False
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
        """Up to where the records are durable in targets that fell behind."""
        return {target: lagger.position for target, lagger in self._lagging.items()}

    def stop(self) -> None:
        """Read no more; what was routed may still become durable."""
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
        """Whether there still is something to read from, and to route to."""
        return not self.stopped and not self.partition.deleted and self.route.is_open()

    def fetch(self, start: int) -> Read | None:
        """Committed records from an offset on; None if there are none, or none can be read now."""
        source = self.partition.log
        asked = start
        try:
            if start < source.start_offset:
                log.warning(
                    "Exchange %r misses the records %d to %d of %s: they were deleted before.",
                    self.route.exchange,
                    start,
                    source.start_offset - 1,
                    source.partition,
                )
                start = source.start_offset
            if start >= source.last_stable_offset:
                return Read([], start) if start > asked else None
            chunk = source.read(start, READ_BYTES, committed_only=True)
            records, after = committed_records(chunk, start, source.partition)
        except (ApiError, CorruptData) as error:
            log.warning("Exchange %r cannot read its topic: %s", self.route.exchange, error)
            self.loop.call_later(RETRY_SECONDS, self.partition_changed)
            return None
        return None if after == start else Read(records, after)

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
        if not durable:  # read again for it, from where this read began
            self._fall_behind(target, receipt, at=self.position).read_after(RETRY_SECONDS)
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
        """Go on without those that have not made the records of this read durable yet."""
        for target, receipt in tuple(self._pending.items()):
            self._fall_behind(target, receipt, at=self.next)
        self._finish()

    def _fall_behind(self, target: str, receipt: BatchReceipt, at: int) -> "LaggingTarget":
        log.info("Exchange %r goes on without %s, which lags.", self.route.exchange, target)
        self._pending.pop(target, None)
        lagger = self._lagging[target] = LaggingTarget(self, target, self.position, at)
        receipt.done = lagger.settled
        return lagger

    def caught_up(self, target: str) -> None:
        """A target that lagged has everything that was routed."""
        log.info("%s has caught up with exchange %r.", target, self.route.exchange)
        del self._lagging[target]
        self.route.on_moved()


class LaggingTarget:
    """Reads a partition for one target only, up to where the others are."""

    def __init__(self, reader: PartitionReader, target: str, position: int, following: int) -> None:
        self.position = position
        """All before it is durable in this target."""
        self.is_refused = False
        """Whether the target did not take the record at `_next`."""
        self._reader = reader
        self._target = target
        self._next = following
        self._backoff_s = FIRST_BACKOFF_S
        self._timer: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def read_after(self, seconds: float) -> None:
        """Read on after a while."""
        if not self._reader.stopped:
            self._timer = self._reader.loop.call_later(seconds, self._read)

    def settled(self, durable: bool) -> None:
        """Everything that the target took so far is durable."""
        if durable:
            self.position = self._next
        else:
            self._next = self.position
            self.is_refused = True
        self._reader.route.on_moved()
        if self.is_refused:
            self.read_after(self._backoff_s)
            self._backoff_s = min(2 * self._backoff_s, LONGEST_BACKOFF_S)
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
            self.read_after(RETRY_SECONDS)
            return
        receipt = BatchReceipt(self.settled, is_patient=True)
        self._next = self._deliver(read, limit, receipt)
        receipt.settle(durable=True)

    def _deliver(self, read: Read, limit: int, receipt: BatchReceipt) -> int:
        """Hand records over until one is refused; the offset to go on at."""
        reader = self._reader
        for record in read.records:
            if record.offset >= limit:
                break
            for target, deliver in reader.route.deliveries(reader.partition, record):
                if target == self._target:
                    self.is_refused = not deliver(receipt)
                    if self.is_refused:
                        return record.offset
                    self._backoff_s = FIRST_BACKOFF_S
        self.is_refused = False
        return min(read.after, limit)
