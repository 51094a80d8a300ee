"""The in-flight records of one partition, as adjacent ranges of offsets.

Most records are acquired and acknowledged in batches, so their state is kept per range. A range is
split only where the states of its records differ, and adjacent ranges with the same final state are
merged.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple


class RecordState(IntEnum):
    """The delivery state of a record, with Kafka's numbers."""

    AVAILABLE = 0
    """Not acquired; it may have been delivered before."""
    ACQUIRED = 1
    """Acquired by a member, until its lock times out."""
    ACKNOWLEDGED = 2
    """Processed. Final."""
    ARCHIVING = 3
    """No longer delivered, but not yet in the dead letter topic (KIP-1191)."""
    ARCHIVED = 4
    """Rejected, out of delivery attempts, or no such record. Final."""

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
"""Looked at directly where a request may change thousands of ranges: the property takes longer."""


class StateBatch(NamedTuple):
    """A range of offsets, both ends included, with its stored state."""

    first: int
    last: int
    state: RecordState
    deliveries: int
    """The delivery count."""


NO_MEMBER = ""


@dataclass(slots=True)
class Range:
    """Adjacent offsets with the same state."""

    first: int
    last: int
    state: RecordState
    deliveries: int = 0
    member: str = NO_MEMBER
    deadline_ms: int = 0

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def as_batch(self) -> StateBatch:
        """The stored form: a delivery without acknowledgement does not count."""
        if self.state is RecordState.AVAILABLE or self.state in _FINAL:
            return StateBatch(self.first, self.last, self.state, self.deliveries)
        return StateBatch(self.first, self.last, RecordState.AVAILABLE, self.deliveries - 1)


class Ranges:
    """Ranges without gaps between a start and an end, with counters."""

    def __init__(self, start: int) -> None:
        self.start = start
        """The first offset that is not final."""
        self.end = start
        """The offset after the last one in flight."""
        self.available = 0
        """How many offsets are available."""
        self.unfinished = 0
        """How many offsets are not final."""
        self._ranges: list[Range] = []

    def __iter__(self) -> Iterator[Range]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def first_available(self) -> int | None:
        """The first available offset."""
        if not self.available:
            return None
        for one in self._ranges:
            if one.state is RecordState.AVAILABLE:
                return one.first
        raise AssertionError("the count of available records is wrong")

    def over(self, first: int, last: int) -> list[Range]:
        """The ranges that overlap these offsets."""
        if last < self.start or first >= self.end or last < first:
            return []
        begin = self._index_of(max(first, self.start))
        if last <= self._ranges[begin].last:
            return [self._ranges[begin]]
        return self._ranges[begin : self._index_of(min(last, self.end - 1)) + 1]

    def append(self, fresh: Range) -> None:
        """Append a range; `fresh` begins at the end."""
        assert fresh.first == self.end <= fresh.last, fresh  # noqa: S101 - no gaps, no overlap
        self._ranges.append(fresh)
        self.end = fresh.last + 1
        self._count(fresh, 1)

    def extend(self, one: Range, last: int) -> None:
        """Extend the last range."""
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
        member: str = NO_MEMBER,
        deadline_ms: int = 0,
    ) -> None:
        """Change the state of a range."""
        before, size = one.state, one.last - one.first + 1
        if before is RecordState.AVAILABLE:
            self.available -= size
        if state is RecordState.AVAILABLE:
            self.available += size
        self.unfinished += size * ((before in _FINAL) - (state in _FINAL))
        one.state = state
        one.deliveries = one.deliveries if deliveries is None else deliveries
        one.member, one.deadline_ms = member, deadline_ms

    def split_out(self, first: int, last: int) -> list[Range]:
        """The ranges that cover exactly these offsets, split at the ends if necessary."""
        return self._ranges[self._split(first, last)]

    def tidy(self) -> None:
        """Drop final ranges at the front, and merge adjacent ranges with the same final state."""
        kept: list[Range] = []
        for one in self._ranges:
            if one.state not in _FINAL:
                kept.append(one)
            elif kept and kept[-1].state is one.state:
                kept[-1].last = one.last
            elif kept:
                kept.append(one)
        self._ranges = kept
        self.start = kept[0].first if kept else self.end

    def drop_before(self, offset: int) -> None:
        """Drop all offsets before an offset."""
        if offset >= self.end:
            self._ranges.clear()
            self.available = self.unfinished = 0
            self.start = offset
            self.end = offset
            return
        self._drop(self._split(self.start, offset - 1))
        self.start = max(self.start, offset)

    def drop_from(self, offset: int) -> None:
        """Drop all offsets from an offset on."""
        self._drop(self._split(offset, self.end - 1))
        self.end = max(self.start, min(self.end, offset))

    def _drop(self, part: slice) -> None:
        for gone in self._ranges[part]:
            self._count(gone, -1)
        del self._ranges[part]

    def _split(self, first: int, last: int) -> slice:
        """The slice of the ranges that cover exactly these offsets, after splits at the ends."""
        first, last = max(first, self.start), min(last, self.end - 1)
        if last < first:
            return slice(0, 0)
        begin = self._begin_at(first)
        if last <= self._ranges[begin].last:
            return slice(begin, self._cut(begin, last + 1))
        stop = len(self._ranges) if last + 1 == self.end else self._begin_at(last + 1)
        return slice(begin, stop)

    def _index_of(self, offset: int) -> int:
        return bisect_right(self._ranges, offset, key=_first) - 1

    def _begin_at(self, offset: int) -> int:
        """Index of the range that begins at an offset, after a split if necessary."""
        index = self._index_of(offset)
        return index if self._ranges[index].first == offset else self._cut(index, offset)

    def _cut(self, index: int, offset: int) -> int:
        """Split a range before an offset, unless it ends there; returns the index of the next range."""
        one = self._ranges[index]
        if offset > one.last:
            return index + 1
        rest = Range(offset, one.last, one.state, one.deliveries, one.member, one.deadline_ms)
        one.last = offset - 1
        self._ranges.insert(index + 1, rest)
        return index + 1

    def _count(self, one: Range, sign: int) -> None:
        if one.state is RecordState.AVAILABLE:
            self.available += sign * one.size
        if one.state not in _FINAL:
            self.unfinished += sign * one.size


_first = attrgetter("first")
