"""The sparse time index of a segment: up to which offset all timestamps are at or below a value.

An entry takes 12 bytes on disk: a timestamp (64 bits), and the base offset, relative to the segment's,
of the batch that has it (32 bits), big-endian; a checksum ends the file. Every batch before that one
has smaller timestamps only, so a search for a later timestamp may begin there. The last entry holds the
segment's largest timestamp, which retention uses.
"""

import sys
from array import array
from bisect import bisect_left
from operator import lt
from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.storage.checksummed import add_checksum, strip_checksum

ENTRY_BYTES = 12


class TimeEntry(NamedTuple):
    """The largest timestamp of the batch with this relative base offset."""

    timestamp: int
    relative_offset: int


class TimeIndex:
    """Entries in ascending order of both timestamp and offset."""

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size_bytes(self) -> int:
        return len(self._offsets) * ENTRY_BYTES

    def add(self, timestamp: int, relative_offset: int) -> None:
        """Add a timestamp and its batch; ignored unless it is larger than all before."""
        if not self._timestamps or timestamp > self._timestamps[-1]:
            self._timestamps.append(timestamp)
            self._offsets.append(relative_offset)

    def before(self, timestamp: int) -> TimeEntry | None:
        """The last entry with a smaller timestamp."""
        at = bisect_left(self._timestamps, timestamp) - 1
        return TimeEntry(self._timestamps[at], self._offsets[at]) if at >= 0 else None

    def last(self) -> TimeEntry | None:
        """The entry with the largest timestamp."""
        return TimeEntry(self._timestamps[-1], self._offsets[-1]) if self._offsets else None

    def encode(self) -> bytes:
        swap = sys.byteorder == "little"
        stamps, offsets = self._timestamps[:], self._offsets[:]
        if swap:
            stamps.byteswap()
            offsets.byteswap()
        halves = array("I", stamps.tobytes())
        words = array("I", bytes(self.size_bytes))
        words[0::3], words[1::3], words[2::3] = halves[0::2], halves[1::2], offsets
        return add_checksum(words.tobytes())

    @classmethod
    def decode(cls, data: bytes) -> "TimeIndex":
        """Decode an index; CorruptData if it is malformed."""
        data = strip_checksum(data)
        if len(data) % ENTRY_BYTES:
            raise CorruptData(f"time index of {len(data)} bytes ends within an entry")
        words = array("I", data)
        halves = array("I", bytes(len(words) // 3 * 8))
        halves[0::2], halves[1::2] = words[0::3], words[1::3]
        index = cls()
        index._timestamps, index._offsets = array("q", halves.tobytes()), words[2::3]
        if sys.byteorder == "little":
            index._timestamps.byteswap()
            index._offsets.byteswap()
        for column in (index._timestamps, index._offsets):
            if not all(map(lt, column, column[1:])):
                raise CorruptData("time index is not ascending")
        return index
