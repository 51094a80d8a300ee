"""The sparse offset index of a segment: the file positions of batches.

One entry about every `index.interval.bytes`. An entry takes 8 bytes on disk: the batch's base offset
relative to the segment's, and its position, both as unsigned 32-bit numbers, big-endian; a checksum
ends the file.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.storage.checksummed import add_checksum, strip_checksum

ENTRY_BYTES = 8


class IndexEntry(NamedTuple):
    """The position of the batch with this relative base offset."""

    relative_offset: int
    position: int


class OffsetIndex:
    """Entries in ascending order of both offset and position."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size_bytes(self) -> int:
        return len(self._offsets) * ENTRY_BYTES

    def add(self, relative_offset: int, position: int) -> None:
        """Add a batch after all others."""
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def floor(self, relative_offset: int) -> IndexEntry | None:
        """The last entry at or before an offset."""
        at = bisect_right(self._offsets, relative_offset) - 1
        return IndexEntry(self._offsets[at], self._positions[at]) if at >= 0 else None

    def position_after(self, relative_offset: int) -> int | None:
        """Position of the first entry after an offset."""
        at = bisect_right(self._offsets, relative_offset)
        return self._positions[at] if at < len(self._positions) else None

    def before(self, position: int) -> IndexEntry | None:
        """The last entry that points before a position."""
        at = bisect_left(self._positions, position) - 1
        return IndexEntry(self._offsets[at], self._positions[at]) if at >= 0 else None

    def last(self) -> IndexEntry | None:
        return IndexEntry(self._offsets[-1], self._positions[-1]) if self._offsets else None

    def encode(self) -> bytes:
        words = array("I", bytes(self.size_bytes))
        words[0::2] = self._offsets
        words[1::2] = self._positions
        if sys.byteorder == "little":
            words.byteswap()
        return add_checksum(words.tobytes())

    @classmethod
    def decode(cls, data: bytes, log_bytes: int) -> "OffsetIndex":
        """Decode an index; CorruptData if it is damaged or does not fit a log file of that size."""
        data = strip_checksum(data)
        if len(data) % ENTRY_BYTES:
            raise CorruptData(f"offset index of {len(data)} bytes ends within an entry")
        words = array("I", data)
        if sys.byteorder == "little":
            words.byteswap()
        index = cls()
        index._offsets, index._positions = words[0::2], words[1::2]
        for column in (index._offsets, index._positions):
            if not all(map(lt, column, column[1:])):
                raise CorruptData("offset index is not ascending")
        if index._positions and index._positions[-1] >= log_bytes:
            raise CorruptData("offset index points beyond the end of the log file")
        return index
