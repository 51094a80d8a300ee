"""The segments of a log in order, the last one active."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from strom.storage.segment import Segment


class Segments:
    """A list of segments, ascending by base offset; never empty once the log is open."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = list(segments)
        self._bases = [segment.base_offset for segment in segments]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> Segment:
        """The one that grows."""
        return self._segments[-1]

    @property
    def first(self) -> Segment:
        """The oldest."""
        return self._segments[0]

    def closed(self) -> list[Segment]:
        """All but the active one."""
        return self._segments[:-1]

    def holding(self, offset: int) -> int:
        """Place of the segment that may hold an offset; the first, if it lies before all."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def at(self, place: int) -> Segment | None:
        """The segment at a place, None behind the last."""
        return self._segments[place] if place < len(self._segments) else None

    def since(self, offset: int) -> list[Segment]:
        """The segment that may hold an offset, and all after it."""
        return self._segments[self.holding(offset) :]

    def add(self, segment: Segment) -> None:
        """Put a new active segment at the end."""
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def remove(self, segment: Segment) -> None:
        """Take a segment out."""
        place = bisect_left(self._bases, segment.base_offset)
        del self._segments[place], self._bases[place]

    def replace(self, old: Sequence[Segment], new: Segment | None) -> None:
        """Put one segment in the place of neighbours."""
        place = bisect_left(self._bases, old[0].base_offset)
        fresh = [] if new is None else [new]
        self._segments[place : place + len(old)] = fresh
        self._bases[place : place + len(old)] = [segment.base_offset for segment in fresh]
