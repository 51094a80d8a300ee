"""How one member acquires records from the batches of the log, in order.

It acquires available records up to its limit. A batch is acquired as a whole even if that exceeds the
limit, unless the member requires a strict limit (KIP-1206).

Records that failed often are delivered in ever smaller portions, and alone the last time: so a poison
record is isolated, and does not cause the others to be archived.
"""

from typing import NamedTuple

from strom.coordination.groups.share.partitions.ranges import Range, RecordState
from strom.coordination.groups.share.partitions.share_partition import Rules, SharePartition


class Acquired(NamedTuple):
    """A range of offsets, both ends included, that the member has acquired."""

    first: int
    last: int
    deliveries: int


class AcquireLimits(NamedTuple):
    max_records: int
    batch_size: int
    """The preferred number of records in one range."""
    strict: bool = False
    """Whether `max_records` is strict, which may split batches."""


class Acquisition:
    """One acquisition of one member. Offer it batches until it is full, then call `finish`."""

    def __init__(
        self,
        partition: SharePartition,
        member: str,
        limits: AcquireLimits,
        rules: Rules,
        now_ms: int,
    ) -> None:
        self.is_full = False
        self.taken = 0
        """The number of records acquired so far."""
        self._partition = partition
        self._ranges = partition.ranges
        self._member = member
        self._limits = limits
        self._rules = rules
        self._deadline_ms = now_ms + rules.lock_ms
        self._acquired: list[Range] = []
        again = self._ranges.first_available()
        self._position = self._ranges.end if again is None else again

    def offer(self, first: int, last: int, *, holds_records: bool = True) -> int:
        """Offer the next batch of the log; returns how many of its records were acquired.

        A batch without records for consumers (a marker, or an aborted batch) is archived.
        """
        before = self.taken
        if first > self._position:
            self._skip(self._position, first - 1)
        self._position = last + 1
        first = max(first, self._ranges.start)
        if not holds_records:
            self._skip(first, last)
            return 0
        for one in self._ranges.over(first, last):
            if one.state is RecordState.AVAILABLE and not self.is_full:
                self._redeliver(one, max(first, one.first), min(last, one.last))
        if last >= self._ranges.end and not self.is_full:
            self._acquire_new(max(first, self._ranges.end), last)
        return self.taken - before

    def finish(self) -> list[Acquired]:
        self._partition.finish_acquiring()
        return [Acquired(one.first, one.last, one.deliveries) for one in self._acquired]

    def cancel(self) -> None:
        """Undo the acquisition: its records cannot be read, so it was no delivery."""
        for one in self._acquired:
            self._ranges.change(one, RecordState.AVAILABLE, deliveries=one.deliveries - 1)
        self._partition.finish_acquiring()

    def _left(self) -> int:
        return self._limits.max_records - self.taken

    def _skip(self, first: int, last: int) -> None:
        """Archive offsets without records."""
        ranges = self._ranges
        if ranges.available:
            for one in ranges.split_out(first, last):
                if one.state is RecordState.AVAILABLE:
                    ranges.change(one, RecordState.ARCHIVED)
        if last >= ranges.end:
            ranges.append(Range(ranges.end, last, RecordState.ARCHIVED))

    def _redeliver(self, one: Range, first: int, last: int) -> None:
        limit = self._rules.delivery_limit
        is_last_time = limit > 2 and one.deliveries == limit - 1
        if is_last_time and self.taken:
            self.is_full = True  # it is delivered alone, in the next acquisition
            return
        cautious_from = max(2, (limit + 1) // 2)
        most = last - first + 1
        if one.deliveries >= cautious_from:
            most = min(most, 1 if is_last_time else one.size >> one.deliveries - cautious_from + 1)
            self.is_full = True
        if self._limits.strict:
            most = min(most, self._left())
        (part,) = self._ranges.split_out(first, first + max(most, 1) - 1)
        self._ranges.change(
            part,
            RecordState.ACQUIRED,
            deliveries=part.deliveries + 1,
            member=self._member,
            deadline_ms=self._deadline_ms,
        )
        self._note(part, part.size)

    def _acquire_new(self, first: int, last: int) -> None:
        ranges = self._ranges
        room = self._rules.max_in_flight - ranges.unfinished
        if room <= 0:
            self.is_full = True
            return
        if self._limits.strict and last - first >= (most := min(self._left(), room)):
            last = first + most - 1
            self.is_full = True  # else the rest of the batch would be skipped
        newest = self._acquired[-1] if self._acquired else None
        size = last - first + 1
        if (
            newest is not None
            and newest.last + 1 == first == ranges.end
            and newest.deliveries == 1
            and newest.size < self._limits.batch_size
        ):
            ranges.extend(newest, last)
            self.taken += size
            self.is_full = self.is_full or self._left() <= 0
            return
        if first > ranges.end:
            self._skip(ranges.end, first - 1)
        fresh = Range(first, last, RecordState.ACQUIRED, 1, self._member, self._deadline_ms)
        ranges.append(fresh)
        self._note(fresh, size)

    def _note(self, part: Range, size: int) -> None:
        self._acquired.append(part)
        self.taken += size
        self.is_full = self.is_full or self._left() <= 0
