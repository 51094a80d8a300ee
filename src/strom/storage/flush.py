"""Flushing a log in three steps, so that the slow one can run on another thread.

`Log.begin_flush` collects what to sync, `Flush.sync` syncs it, `Log.finish_flush` applies the result.
A flush also saves what recovery would otherwise have to rebuild: the indexes of segments closed since
the last one, leader epochs, producer snapshots. The recovery point advances only when these are saved
too, so that everything before it has all its files.
"""

import logging
from contextlib import suppress
from typing import NamedTuple

from strom.storage.disk import Disk
from strom.storage.epochs import FILE_NAME as EPOCHS_FILE
from strom.storage.files import DirectoryNotOpened, is_temporary, write_file
from strom.storage.log_state import LogState
from strom.storage.open_files import OpenFile
from strom.storage.segment import LogSegment
from strom.storage.snapshots import ProducerSnapshot

logger = logging.getLogger(__name__)


class DirtySegment(NamedTuple):
    """A segment to sync, as it was when the flush began."""

    segment: LogSegment
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
        state: LogState,
        segments: list[DirtySegment],
        snapshots: list[ProducerSnapshot],
        *,
        recovery_point: int,
        entries_version: int,
        save_epochs: bool,
    ) -> None:
        self.end_offset = end_offset
        self.segments = segments
        self.snapshots = snapshots
        self.entries_version = entries_version
        self.epochs_version = state.epochs.version
        self.complete = False
        """Whether indexes, epochs and snapshots are saved too."""
        self._epochs = state.epochs.encode() if save_epochs else None
        self._sync_folder = save_epochs or entries_version != state.entries_synced
        self._recovery_point = recovery_point
        self._disk = disk
        self._folder = folder
        self._state = state

    def sync(self) -> None:
        """Return when all of it is on the disk; DirectoryOffline if the disk failed. Any thread.

        Without space for an index the data is still synced. A log that was deleted meanwhile has
        nothing to sync. ApiError for a shortage that prevented the attempt to sync.
        """
        try:
            self._disk.check_online()
            self._save_beside()
            for dirty in self.segments:
                dirty.open_file.file.datasync()
            if self._sync_folder:
                self._disk.files.sync_directory(self._folder)
        except DirectoryNotOpened as error:
            if not self._state.gone:
                raise self._disk.write_error(error) from error
        except OSError as error:
            # Final even for lack of space: the kernel marks pages clean after a failed fsync, so a retry
            # would succeed without having written them.
            if not self._state.gone:
                raise self._disk.fail(error) from error

    def _save_beside(self) -> None:
        files = self._disk.files
        try:
            for dirty in self.segments:
                if dirty.closed:
                    dirty.segment.save_indexes()
            if self._epochs is not None:
                path = f"{self._folder}/{EPOCHS_FILE}"
                write_file(files, f"{path}.tmp", self._epochs)
                files.rename(f"{path}.tmp", path)
            for snapshot in self.snapshots:
                self._state.snapshots.write(snapshot)
            if self.snapshots:
                self._state.snapshots.prune(self._recovery_point)
            self.complete = True
        except OSError as error:
            if not is_temporary(error):
                raise
            logger.warning("%s: cannot save indexes yet: %s", self._folder, error)


class Unflushed:
    def __init__(self, disk: Disk, folder: str, state: LogState) -> None:
        self._disk = disk
        self._folder = folder
        self._state = state
        self._segments: list[LogSegment] = []
        self._snapshots: list[ProducerSnapshot] = []
        self._entries_version = 0
        if state.unsaved is not None:
            for segment in state.unsaved.segments:
                self.note_segment(segment)
            self._snapshots.append(state.unsaved.snapshot)

    @property
    def entries_dirty(self) -> bool:
        """Whether a crash could undo the creation of a segment file."""
        return self._entries_version != self._state.entries_synced

    def note_segment(self, segment: LogSegment) -> None:
        """Register a segment with unflushed data."""
        if not segment.dirty:
            segment.dirty = True
            self._segments.append(segment)

    def note_closed(self, segment: LogSegment, snapshot: ProducerSnapshot) -> None:
        """Register a closed segment, with the producer state at its end."""
        self.note_segment(segment)
        self._snapshots.append(snapshot)
        self._entries_version += 1

    def begin(self, end_offset: int, recovery_point: int) -> Flush | None:
        """A flush of everything that is not on disk, None if nothing is left."""
        save_epochs = self._state.epochs.version != self._state.epochs_saved
        if not self._segments and not self.entries_dirty and not save_epochs:
            return None
        pool = self._disk.open_files
        dirty: list[DirtySegment] = []
        try:
            for segment in self._segments:
                open_file = pool.pin(segment, segment.log_path)
                closed = not segment.active
                dirty.append(DirtySegment(segment, segment.size_bytes, closed, open_file))
        except OSError as error:
            for each in dirty:
                pool.unpin(each.open_file)
            raise self._disk.write_error(error) from error
        return Flush(
            self._disk,
            self._folder,
            end_offset,
            self._state,
            dirty,
            self._snapshots[:],
            recovery_point=recovery_point,
            entries_version=self._entries_version,
            save_epochs=save_epochs,
        )

    def finish(self, flush: Flush) -> None:
        """Apply a synced flush; what was written after it began stays unflushed."""
        for dirty in flush.segments:
            self._disk.open_files.unpin(dirty.open_file)
            self._finish_segment(dirty, flush.complete)
        self._segments = [segment for segment in self._segments if segment.dirty]
        self._state.entries_synced = max(self._state.entries_synced, flush.entries_version)
        if flush.complete:
            self._state.epochs_saved = max(self._state.epochs_saved, flush.epochs_version)
            for snapshot in flush.snapshots:
                with suppress(ValueError):
                    self._snapshots.remove(snapshot)

    def _finish_segment(self, dirty: DirtySegment, complete: bool) -> None:
        segment = dirty.segment
        if dirty.size_bytes != segment.size_bytes or dirty.closed == segment.active:
            return  # it has grown, or was closed, since the flush began
        if dirty.closed:
            if not complete:
                return
            segment.indexes_saved = True
            self._disk.note_loaded(segment)
        segment.dirty = False

    def abandon(self, flush: Flush) -> None:
        for dirty in flush.segments:
            self._disk.open_files.unpin(dirty.open_file)
