"""Bringing a log to the disk, in three steps, so that the slow one can run on another thread.

`Log.begin_flush` says what is to be synced, `Flush.sync` does it, `Log.finish_flush` takes note of
it. A flush also saves what recovery would otherwise have to work out: the indexes of segments
closed since the last one, leader epochs, producer snapshots. So everything before `flushed_offset`
has all its files.
"""

from typing import NamedTuple

from strom.storage.disk import Disk
from strom.storage.epochs import FILE_NAME as EPOCHS_FILE
from strom.storage.files import write_whole
from strom.storage.open_files import OpenFile
from strom.storage.segment import Segment
from strom.storage.snapshots import Snapshot, SnapshotFiles


class DirtySegment(NamedTuple):
    """A segment to be synced, as it was when the flush began."""

    segment: Segment
    size_bytes: int
    closed: bool
    open_file: OpenFile


class Flush:
    """One flush of one log: everything before `end_offset`."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        end_offset: int,
        segments: list[DirtySegment],
        *,
        entries_version: int | None,
        epochs: tuple[int, bytes] | None,
        snapshots: tuple[SnapshotFiles, list[Snapshot]],
    ) -> None:
        self.end_offset = end_offset
        self.segments = segments
        self.entries_version = entries_version
        """Which state of the folder is synced; None if nothing was created or removed in it."""
        self.epochs = epochs
        self._disk = disk
        self._folder = folder
        self._snapshots = snapshots

    def sync(self) -> None:
        """Return when all of it is on the disk; any thread.

        DirectoryOffline if the disk failed. ApiError if there was no space for an index: nothing
        is wrong with the data then, and a later flush will do.
        """
        with self._disk.writing():
            for dirty in self.segments:
                if dirty.closed:
                    dirty.segment.save_indexes()
            self._save_memory()
            for dirty in self.segments:
                self._datasync(dirty)
            if self.entries_version is not None:
                self._sync_folder()

    def _save_memory(self) -> None:
        if self.epochs is not None:
            path = f"{self._folder}/{EPOCHS_FILE}"
            write_whole(self._disk.files, f"{path}.tmp", self.epochs[1])
            self._disk.files.rename(f"{path}.tmp", path)
        files, snapshots = self._snapshots
        for snapshot in snapshots:
            files.write(snapshot)

    def _datasync(self, dirty: DirtySegment) -> None:
        # Final even for want of space: the kernel has dropped what it could not write.
        try:
            dirty.open_file.file.datasync()
        except OSError as error:
            raise self._disk.fail(error) from error

    def _sync_folder(self) -> None:
        try:
            self._disk.files.sync_directory(self._folder)
        except OSError as error:
            raise self._disk.fail(error) from error
