"""Which messages of a queue are removed: all before a floor, and ranges beyond it.

Messages are mostly removed in the order in which they were published, so that there are few ranges:
about as many as unacknowledged messages.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""From a position up to, not including, another."""


class Acknowledged:
    """The positions of removed messages, of any cause."""

    def __init__(self, floor: int = 0, beyond: Iterable[Range] = ()) -> None:
        self.floor = floor
        """All positions before it are removed."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in beyond:
            self.add_range(start, end)

    def add(self, position: int) -> None:
        if position == self.floor and not self._starts:
            self.floor = position + 1
        else:
            self.add_range(position, position + 1)

    def add_range(self, start: int, end: int) -> None:
        """Remove a range, parts of which may already be removed."""
        if start <= self.floor:
            self.floor = max(self.floor, end)
        elif start < end:
            first = bisect_right(self._ends, start - 1)
            last = bisect_right(self._starts, end)
            if first < last:
                start = min(start, self._starts[first])
                end = max(end, self._ends[last - 1])
            self._starts[first:last] = [start]
            self._ends[first:last] = [end]
        if self._starts and self._starts[0] <= self.floor:
            reached = bisect_right(self._starts, self.floor)
            self.floor = max(self.floor, self._ends[reached - 1])
            del self._starts[:reached]  # in one go: one by one is quadratic
            del self._ends[:reached]

    def __contains__(self, position: int) -> bool:
        if position < self.floor:
            return True
        index = bisect_right(self._starts, position)
        return index > 0 and position < self._ends[index - 1]

    def beyond(self) -> Iterator[Range]:
        """The ranges beyond the floor, in order."""
        return zip(self._starts, self._ends, strict=True)

    def live_before(self, end: int) -> Iterator[int]:
        """The positions before `end` that are not removed."""
        for start, stop in self.live_ranges_before(end):
            yield from range(start, stop)

    def live_ranges_before(self, end: int) -> Iterator[Range]:
        """The same as ranges."""
        at = self.floor
        for start, stop in self.beyond():
            if start >= end:
                break
            yield at, start
            at = stop
        if at < end:
            yield at, end

    def count_live_before(self, end: int) -> int:
        """The number of positions before `end` that are not removed."""
        gone = sum(min(stop, end) - start for start, stop in self.beyond() if start < end)
        return max(0, end - self.floor - gone)

    def count_live(self, start: int, end: int) -> int:
        """The number of positions from `start` up to `end` that are not removed."""
        start = max(start, self.floor)
        if start >= end:
            return 0
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if first >= last:
            return end - start
        gone = sum(self._ends[first:last]) - sum(self._starts[first:last])
        gone -= max(0, start - self._starts[first]) + max(0, self._ends[last - 1] - end)
        return end - start - gone

    def copy(self) -> "Acknowledged":
        copied = Acknowledged(self.floor)
        copied._starts, copied._ends = self._starts.copy(), self._ends.copy()
        return copied

    def cut(self, end: int) -> None:
        """Forget positions from `end` on: they will be assigned to new messages."""
        kept = [(start, min(stop, end)) for start, stop in self.beyond() if start < end]
        self.floor = min(self.floor, end)
        self._starts = [start for start, _ in kept]
        self._ends = [stop for _, stop in kept]
