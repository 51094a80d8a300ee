"""One member acquires records: it is offered the batches of the log in their order.

It takes what is available, up to as many records as it asked for. A batch is taken whole even if that
makes it more, unless the member wants strictly no more.

Records that were delivered often without success are handed out in ever smaller portions, and alone
the last time: so the one that is the culprit is found, and does not take the others with it.
"""

from typing import NamedTuple

from strom.coordination.groups.share.partitions.ranges import Range, RecordState
from strom.coordination.groups.share.partitions.share_partition import Rules, SharePartition


class Acquired(NamedTuple):
    """A range of offsets, both ends included, that the member has now."""

    first: int
    last: int
    deliveries: int


class AcquireLimits(NamedTuple):
    """What the member asked for."""

    max_records: int
    batch_size: int
    """How many records it would like to find in one range."""
    strict: bool = False
    """Whether it wants no more than `max_records`, at the price of batches in pieces."""


class Acquisition:
    """What one member acquires in one go. Offer it batches until it is full, then `finish`."""

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
        """How many records were acquired so far."""
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
        """Offer the next batch of the log; how many of its records were taken.

        A batch without records for consumers (a transaction's marker, or an aborted one) ends here.
        """
        before = self.taken
        if first > self._position:
            self._pass_over(self._position, first - 1)
        self._position = last + 1
        first = max(first, self._ranges.start)
        if not holds_records:
            self._pass_over(first, last)
            return 0
        for one in self._ranges.over(first, last):
            if one.state is RecordState.AVAILABLE and not self.is_full:
                self._take_again(one, max(first, one.first), min(last, one.last))
        if last >= self._ranges.end and not self.is_full:
            self._take_new(max(first, self._ranges.end), last)
        return self.taken - before

    def finish(self) -> list[Acquired]:
        """What was acquired, in order."""
        self._partition.finish_acquiring()
        return [Acquired(one.first, one.last, one.deliveries) for one in self._acquired]

    def _left(self) -> int:
        return self._limits.max_records - self.taken

    def _pass_over(self, first: int, last: int) -> None:
        """There are no records to deliver here."""
        ranges = self._ranges
        if ranges.available:
            for one in ranges.cut_out(first, last):
                if one.state is RecordState.AVAILABLE:
                    ranges.change(one, RecordState.ARCHIVED)
        if last >= ranges.end:
            ranges.append(Range(ranges.end, last, RecordState.ARCHIVED))

    def _take_again(self, one: Range, first: int, last: int) -> None:
        limit = self._rules.delivery_limit
        is_last_time = limit > 2 and one.deliveries == limit - 1
        if is_last_time and self.taken:
            self.is_full = True  # it comes alone, the next time
            return
        cautious_from = max(2, (limit + 1) // 2)
        most = last - first + 1
        if one.deliveries >= cautious_from:
            most = min(most, 1 if is_last_time else one.size >> one.deliveries - cautious_from + 1)
            self.is_full = True
        if self._limits.strict:
            most = min(most, self._left())
        (part,) = self._ranges.cut_out(first, first + max(most, 1) - 1)
        self._ranges.change(
            part,
            RecordState.ACQUIRED,
            deliveries=part.deliveries + 1,
            member=self._member,
            deadline_ms=self._deadline_ms,
        )
        self._note(part, part.size)

    def _take_new(self, first: int, last: int) -> None:
        ranges = self._ranges
        room = self._rules.max_in_flight - ranges.unfinished
        if room <= 0:
            self.is_full = True
            return
        if self._limits.strict and last - first >= (most := min(self._left(), room)):
            last = first + most - 1
            self.is_full = True  # or the rest of the batch would be passed over
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
            self._pass_over(ranges.end, first - 1)
        fresh = Range(first, last, RecordState.ACQUIRED, 1, self._member, self._deadline_ms)
        ranges.append(fresh)
        self._note(fresh, size)

    def _note(self, part: Range, size: int) -> None:
        self._acquired.append(part)
        self.taken += size
        self.is_full = self.is_full or self._left() <= 0
