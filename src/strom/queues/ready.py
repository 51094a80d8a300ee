"""The messages of a queue that wait for a consumer, by their positions in its log.

A plain queue is a range of the log: a million waiting messages cost two numbers. Only messages that came
back from consumers are kept singly. With priorities, every waiting position is.
"""

import heapq
from collections.abc import Iterator
from typing import Protocol

from strom.queues.acknowledged import Acknowledged, Range


class Ready(Protocol):
    """Positions in the order in which they are to be delivered."""

    def __len__(self) -> int: ...

    def push(self, position: int, priority: int) -> None:
        """A new message, behind all others of its priority."""
        ...

    def put_back(self, position: int, priority: int) -> None:
        """A message that was taken: it goes to where it was."""
        ...

    def peek(self) -> int | None:
        """The next one."""
        ...

    def pop(self) -> int | None:
        """Take the next one."""
        ...

    def clear(self) -> Iterator[Range]:
        """Take all; the ranges that they were in, which may hold some that are gone already."""
        ...


class FifoReady:
    """First come, first served."""

    def __init__(self) -> None:
        self._returned: list[int] = []
        self._head = 0
        self._tail = 0

    def restore(self, acknowledged: Acknowledged, delivered: int, end: int) -> None:
        """What waits after a restart: what was out with consumers came back, the rest is a range."""
        self._returned = list(acknowledged.live_before(min(delivered, end)))
        self._head = max(acknowledged.floor, min(delivered, end))
        self._tail = max(end, self._head)

    def __len__(self) -> int:
        return self._tail - self._head + len(self._returned)

    def push(self, position: int, priority: int) -> None:
        """Positions only grow; what lies between was delivered without ever waiting."""
        if self._head == self._tail:
            self._head = position
        self._tail = position + 1

    def put_back(self, position: int, priority: int) -> None:
        """Into its old place."""
        heapq.heappush(self._returned, position)

    def peek(self) -> int | None:
        """The oldest."""
        if self._returned:
            return self._returned[0]
        return self._head if self._head < self._tail else None

    def pop(self) -> int | None:
        """Take the oldest: what came back is older than all that waits for the first time."""
        if self._returned:
            return heapq.heappop(self._returned)
        if self._head == self._tail:
            return None
        self._head += 1
        return self._head - 1

    def clear(self) -> Iterator[Range]:
        """Take all."""
        returned, self._returned = self._returned, []
        for position in returned:
            yield position, position + 1
        head, self._head = self._head, self._tail
        if head < self._tail:
            yield head, self._tail


class PriorityReady:
    """The highest priority first; among equals, first come first served."""

    def __init__(self, highest: int) -> None:
        self._levels: list[list[int]] = [[] for _ in range(highest + 1)]
        self._highest = highest
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, position: int, priority: int) -> None:
        """Behind all others of its priority."""
        heapq.heappush(self._levels[min(priority, self._highest)], position)
        self._count += 1

    put_back = push

    def peek(self) -> int | None:
        """The next one."""
        level = self._first()
        return level[0] if level else None

    def pop(self) -> int | None:
        """Take the next one."""
        level = self._first()
        if not level:
            return None
        self._count -= 1
        return heapq.heappop(level)

    def clear(self) -> Iterator[Range]:
        """Take all."""
        levels, self._levels = self._levels, [[] for _ in self._levels]
        self._count = 0
        for level in levels:
            for position in level:
                yield position, position + 1

    def _first(self) -> list[int] | None:
        return next((level for level in reversed(self._levels) if level), None)
