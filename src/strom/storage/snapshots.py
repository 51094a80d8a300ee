"""Producer snapshots of a log, named by the offset up to which they apply.

They save recovery from reading the whole log; after retention has removed the oldest segments, only
they hold the producers of these. A damaged one is skipped, and the one before is used.
"""

from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.storage.files import FileSystem, read_file, write_file
from strom.storage.producer_state import ProducerStates

SUFFIX = ".snapshot"


class ProducerSnapshot(NamedTuple):
    """The producer state before the batch at an offset."""

    offset: int
    data: bytes


class SnapshotFiles:
    """The snapshots in a partition's folder, oldest first."""

    def __init__(self, files: FileSystem, folder: str, offsets: list[int]) -> None:
        self._files = files
        self._folder = folder
        self._offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        return f"{self._folder}/{offset:020d}{SUFFIX}"

    def write(self, snapshot: ProducerSnapshot) -> None:
        """Write and sync a snapshot; its directory entry is not synced."""
        write_file(self._files, self.path(snapshot.offset), snapshot.data)
        self._offsets = sorted({*self._offsets, snapshot.offset})

    def prune(self, recovery_point: int) -> None:
        """Remove snapshots that no recovery from this point needs.

        It needs one at or before the recovery point, and another in case that one is damaged.
        """
        before = [offset for offset in self._offsets if offset <= recovery_point]
        behind = [offset for offset in self._offsets if offset > recovery_point]
        for offset in before[:-2] + behind[:-2]:
            self._files.remove(self.path(offset))
            self._offsets.remove(offset)

    def newest(self, at_most: int) -> tuple[ProducerStates, int] | None:
        """The producers of the newest valid snapshot up to an offset, and its offset."""
        for offset in reversed(self._offsets):
            if offset <= at_most:
                try:
                    states, next_offset = ProducerStates.restore(
                        read_file(self._files, self.path(offset))
                    )
                except (CorruptData, FileNotFoundError):
                    continue
                if next_offset == offset:
                    return states, offset
        return None

    def remove_beyond(self, offset: int) -> None:
        """Remove snapshots after an offset, because the log was truncated there."""
        for beyond in [each for each in self._offsets if each > offset]:
            self._files.remove(self.path(beyond))
            self._offsets.remove(beyond)
