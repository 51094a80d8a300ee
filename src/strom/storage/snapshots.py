"""Snapshot files of a log's producers, named by the offset up to which they hold.

They save recovery from reading the whole log, and once retention has taken the oldest segments they
alone know what was in them. A damaged one is passed over, and the one before is taken.
"""

from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.storage.files import Files, read_whole, write_whole
from strom.storage.producer_state import ProducerStates

SUFFIX = ".snapshot"


class Snapshot(NamedTuple):
    """The producers as they were before the batch at an offset."""

    offset: int
    data: bytes


class SnapshotFiles:
    """The snapshots in a partition's folder, oldest first."""

    def __init__(self, files: Files, folder: str, offsets: list[int]) -> None:
        self._files = files
        self._folder = folder
        self._offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        """Where the snapshot at an offset lies."""
        return f"{self._folder}/{offset:020d}{SUFFIX}"

    def write(self, snapshot: Snapshot) -> None:
        """Write one, on the disk; its directory entry is not synced."""
        write_whole(self._files, self.path(snapshot.offset), snapshot.data)
        self._offsets = sorted({*self._offsets, snapshot.offset})

    def prune(self, recovery_point: int) -> None:
        """Remove what no recovery will ask for, if the log is safe up to an offset.

        It needs a snapshot at or before that; and another one, should the first be damaged.
        """
        before = [offset for offset in self._offsets if offset <= recovery_point]
        behind = [offset for offset in self._offsets if offset > recovery_point]
        for offset in before[:-2] + behind[:-2]:
            self._files.remove(self.path(offset))
            self._offsets.remove(offset)

    def newest(self, at_most: int) -> tuple[ProducerStates, int] | None:
        """The producers of the newest good snapshot up to an offset, and that offset."""
        for offset in reversed(self._offsets):
            if offset <= at_most:
                try:
                    states, next_offset = ProducerStates.restore(
                        read_whole(self._files, self.path(offset))
                    )
                except (CorruptData, FileNotFoundError):
                    continue
                if next_offset == offset:
                    return states, offset
        return None

    def remove_beyond(self, offset: int) -> None:
        """Remove snapshots of a part of the log that is no longer there."""
        for beyond in [each for each in self._offsets if each > offset]:
            self._files.remove(self.path(beyond))
            self._offsets.remove(beyond)
