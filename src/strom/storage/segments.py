"""The segments of a log in order, the last one active."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from strom.storage.segment import LogSegment


class Segments:
    """A list of segments, ascending by base offset; never empty once the log is open."""

    def __init__(self, segments: Sequence[LogSegment]) -> None:
        self._segments = list(segments)
        self._bases = [segment.base_offset for segment in segments]

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> LogSegment:
        return self._segments[-1]

    @property
    def first(self) -> LogSegment:
        return self._segments[0]

    def closed(self) -> list[LogSegment]:
        return self._segments[:-1]

    def holding(self, offset: int) -> int:
        """Index of the segment that may hold an offset; the first, if the offset precedes all."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def at(self, index: int) -> LogSegment | None:
        """The segment at an index, None after the last."""
        return self._segments[index] if index < len(self._segments) else None

    def since(self, offset: int) -> list[LogSegment]:
        """The segment that may hold an offset, and all after it."""
        return self._segments[self.holding(offset) :]

    def add(self, segment: LogSegment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def remove(self, segment: LogSegment) -> None:
        index = bisect_left(self._bases, segment.base_offset)
        del self._segments[index], self._bases[index]

    def replace(self, old: Sequence[LogSegment], new: LogSegment | None) -> None:
        """Replace adjacent segments by one or none."""
        index = bisect_left(self._bases, old[0].base_offset)
        fresh = [] if new is None else [new]
        self._segments[index : index + len(old)] = fresh
        self._bases[index : index + len(old)] = [segment.base_offset for segment in fresh]
