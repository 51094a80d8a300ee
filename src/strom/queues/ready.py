"""The ready messages of a queue, by their positions in its log.

A plain queue is a range of the log: a million ready messages cost two numbers. Requeued messages are
kept in ranges too. With priorities, every ready position is kept.
"""

import heapq
from collections.abc import Iterator

from strom.queues.acknowledged import Acknowledged, Range


class FifoReady:
    """Positions in the order of publishing, requeued ones at their old places."""

    def __init__(self) -> None:
        self._returned = ReturnedRanges()
        self._head = 0
        self._tail = 0

    def restore(self, acknowledged: Acknowledged, delivered: int, end: int) -> None:
        """After a restart: unacknowledged messages count as requeued, the rest is a range."""
        self._returned = ReturnedRanges()
        for start, stop in acknowledged.live_ranges_before(min(delivered, end)):
            self._returned.add_range(start, stop)
        self._head = max(acknowledged.floor, min(delivered, end))
        self._tail = max(end, self._head)

    def __len__(self) -> int:
        return self._tail - self._head + self._returned.count

    def push(self, position: int, priority: int) -> None:
        """Add the newest position; those skipped in between were delivered directly."""
        if self._head == self._tail:
            self._head = position
        self._tail = position + 1

    def put_back(self, position: int, priority: int) -> None:
        """Into its old place."""
        self._returned.add_range(position, position + 1)

    def peek(self) -> int | None:
        if self._returned.count:
            return self._returned.first
        return self._head if self._head < self._tail else None

    def pop(self) -> tuple[int, bool] | None:
        """Take the oldest and whether it was requeued; those are older than all others."""
        if self._returned.count:
            return self._returned.pop(), True
        if self._head == self._tail:
            return None
        self._head += 1
        return self._head - 1, False

    def clear(self) -> Iterator[Range]:
        """Take all, as ranges that may include positions that are removed already."""
        returned, self._returned = self._returned, ReturnedRanges()
        yield from returned.ranges()
        head, self._head = self._head, self._tail
        if head < self._tail:
            yield head, self._tail


class ReturnedRanges:
    """Requeued positions, smallest first: a heap of disjoint ranges.

    Messages are mostly requeued in the order of their delivery, so that a range grows at its end.
    """

    def __init__(self) -> None:
        self._heap: list[list[int]] = []
        self._newest: list[int] = []
        """The range that was added last; an empty list once it is popped."""
        self.count = 0
        """The number of positions."""

    def add_range(self, start: int, end: int) -> None:
        """Add positions that it does not hold yet."""
        self.count += end - start
        newest = self._newest
        if newest and newest[1] == start:
            newest[1] = end  # its start, by which the heap is ordered, stays
        else:
            self._newest = newest = [start, end]
            heapq.heappush(self._heap, newest)

    @property
    def first(self) -> int:
        return self._heap[0][0]

    def pop(self) -> int:
        """Take the smallest position."""
        first = self._heap[0]
        position = first[0]
        self.count -= 1
        if position + 1 < first[1]:
            first[0] = position + 1  # the others begin behind its end: it stays the smallest
        else:
            heapq.heappop(self._heap)
            if first is self._newest:
                self._newest = []
        return position

    def ranges(self) -> Iterator[Range]:
        """All ranges, in order."""
        return ((start, end) for start, end in sorted(self._heap))


class PriorityReady:
    """The highest priority first; first in, first out within a priority."""

    def __init__(self, highest: int) -> None:
        self._levels: list[list[int]] = [[] for _ in range(highest + 1)]
        self._highest = highest
        self._count = 0
        self._returned: set[int] = set()

    def __len__(self) -> int:
        return self._count

    def push(self, position: int, priority: int) -> None:
        """Add a position behind all others of its priority."""
        heapq.heappush(self._levels[min(priority, self._highest)], position)
        self._count += 1

    def put_back(self, position: int, priority: int) -> None:
        """Requeue a position at its old place within its priority."""
        self._returned.add(position)
        self.push(position, priority)

    def peek(self) -> int | None:
        level = self._first()
        return level[0] if level else None

    def pop(self) -> tuple[int, bool] | None:
        """Take the next one."""
        level = self._first()
        if not level:
            return None
        self._count -= 1
        position = heapq.heappop(level)
        was_returned = position in self._returned
        if was_returned:
            self._returned.remove(position)
        return position, was_returned

    def clear(self) -> Iterator[Range]:
        levels, self._levels = self._levels, [[] for _ in self._levels]
        self._count = 0
        self._returned.clear()
        yield from join_positions(sorted(position for level in levels for position in level))

    def _first(self) -> list[int] | None:
        return next((level for level in reversed(self._levels) if level), None)


def join_positions(positions: list[int]) -> Iterator[Range]:
    """Join sorted positions into ranges."""
    start = end = -1
    for position in positions:
        if position != end:
            if start < end:
                yield start, end
            start = position
        end = position + 1
    if start < end:
        yield start, end
