"""The records in flight of one partition, as neighbouring ranges of offsets.

Most records come and go in whole batches, so their state is kept per range. A range is split only where
its records part ways, and joined again with its neighbours when they have come to the same end.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class RecordState(IntEnum):
    """Where a record is on its way, with Kafka's numbers."""

    AVAILABLE = 0
    """Nobody has it, though somebody may have had it before."""
    ACQUIRED = 1
    """A member has it, until its lock times out."""
    ACKNOWLEDGED = 2
    """It was processed. It never comes again."""
    ARCHIVING = 3
    """It will not be delivered any more, but is first to be written to the dead letter topic."""
    ARCHIVED = 4
    """It was given up, or there is no such record. It never comes again."""

    @property
    def is_final(self) -> bool:
        """Whether nothing more can happen to it."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


class StateBatch(NamedTuple):
    """A range of offsets, both ends included, with what is written down of it."""

    first: int
    last: int
    state: RecordState
    deliveries: int
    """How often it was delivered."""


NOBODY = ""


@dataclass(slots=True)
class Range:
    """Neighbouring records that have all gone the same way."""

    first: int
    last: int
    state: RecordState
    deliveries: int = 0
    member: str = NOBODY
    deadline_ms: int = 0

    @property
    def size(self) -> int:
        """How many offsets it covers."""
        return self.last - self.first + 1

    def as_batch(self) -> StateBatch:
        """As it is written down: a delivery of which nothing was heard yet does not count."""
        if self.state.is_final or self.state is RecordState.AVAILABLE:
            return StateBatch(self.first, self.last, self.state, self.deliveries)
        return StateBatch(self.first, self.last, RecordState.AVAILABLE, self.deliveries - 1)


class Ranges:
    """Ranges without gaps between a start and an end, with counts of what is in them."""

    def __init__(self, start: int) -> None:
        self.start = start
        """The first offset that is not dealt with."""
        self.end = start
        """The offset after the last one in flight."""
        self.available = 0
        """How many offsets wait for somebody to take them."""
        self.unfinished = 0
        """How many offsets have not come to their end."""
        self._ranges: list[Range] = []

    def __iter__(self) -> Iterator[Range]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def first_available(self) -> int | None:
        """The first offset that somebody could take again."""
        if not self.available:
            return None
        for one in self._ranges:
            if one.state is RecordState.AVAILABLE:
                return one.first
        raise AssertionError("the count of available records is wrong")

    def over(self, first: int, last: int) -> list[Range]:
        """The ranges that have a part in this one."""
        if last < self.start or first >= self.end or last < first:
            return []
        begin = self._index_of(max(first, self.start))
        return self._ranges[begin : self._index_of(min(last, self.end - 1)) + 1]

    def append(self, fresh: Range) -> None:
        """Take in offsets at the end; `fresh` begins there."""
        assert fresh.first == self.end <= fresh.last, fresh  # noqa: S101 - no gaps, no overlap
        self._ranges.append(fresh)
        self.end = fresh.last + 1
        self._count(fresh, 1)

    def extend(self, one: Range, last: int) -> None:
        """Let the last range reach further."""
        assert one is self._ranges[-1]  # noqa: S101
        self._count(one, -1)
        one.last = last
        self._count(one, 1)
        self.end = last + 1

    def change(
        self,
        one: Range,
        state: RecordState,
        *,
        deliveries: int | None = None,
        member: str = NOBODY,
        deadline_ms: int = 0,
    ) -> None:
        """Let a whole range come into another state."""
        self._count(one, -1)
        one.state = state
        one.deliveries = one.deliveries if deliveries is None else deliveries
        one.member, one.deadline_ms = member, deadline_ms
        self._count(one, 1)

    def cut_out(self, first: int, last: int) -> list[Range]:
        """The ranges that are exactly this part; others are split at its ends."""
        return self._ranges[self._cut(first, last)]

    def tidy(self) -> None:
        """Drop what is dealt with at the front, and join neighbours that came to the same end."""
        kept: list[Range] = []
        for one in self._ranges:
            if not one.state.is_final:
                kept.append(one)
            elif kept and kept[-1].state is one.state:
                kept[-1].last = one.last
            elif kept:
                kept.append(one)
        self._ranges = kept
        self.start = kept[0].first if kept else self.end

    def drop_before(self, offset: int) -> None:
        """Nothing before an offset is there any more."""
        if offset >= self.end:
            self._ranges.clear()
            self.available = self.unfinished = 0
            self.start = offset
            self.end = offset
            return
        self._drop(self._cut(self.start, offset - 1))
        self.start = max(self.start, offset)

    def drop_from(self, offset: int) -> None:
        """Nothing from an offset on is there any more."""
        self._drop(self._cut(offset, self.end - 1))
        self.end = max(self.start, min(self.end, offset))

    def _drop(self, part: slice) -> None:
        for gone in self._ranges[part]:
            self._count(gone, -1)
        del self._ranges[part]

    def _cut(self, first: int, last: int) -> slice:
        """Where the ranges lie that are exactly this part, after splits at its ends."""
        first, last = max(first, self.start), min(last, self.end - 1)
        if last < first:
            return slice(0, 0)
        begin = self._begin_at(first)
        stop = len(self._ranges) if last + 1 == self.end else self._begin_at(last + 1)
        return slice(begin, stop)

    def _index_of(self, offset: int) -> int:
        return bisect_right(self._ranges, offset, key=_first) - 1

    def _begin_at(self, offset: int) -> int:
        """Index of the range that begins at an offset, after a split if need be."""
        index = self._index_of(offset)
        one = self._ranges[index]
        if one.first == offset:
            return index
        rest = Range(offset, one.last, one.state, one.deliveries, one.member, one.deadline_ms)
        one.last = offset - 1
        self._ranges.insert(index + 1, rest)
        return index + 1

    def _count(self, one: Range, sign: int) -> None:
        if one.state is RecordState.AVAILABLE:
            self.available += sign * one.size
        if not one.state.is_final:
            self.unfinished += sign * one.size


def _first(one: Range) -> int:
    return one.first
