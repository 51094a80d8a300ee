"""Opening a partition's folder, after a clean stop or after a crash.

The *recovery point* is an offset up to which everything was on disk for certain when it was noted.
After a crash every batch in the segments that reach it is checked. What is wrong beyond it is a
write that the crash cut short: the log ends before it. What is wrong below it is damage to data
that was safe: then nothing is cut or removed, and the caller quarantines the partition.

None of this needs space on the disk. What recovery saves to spare the next one does: if there is none,
that is left to the first flush that finds some, as at run time, and the recovery point stays behind.
"""

import logging
from itertools import pairwise
from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.model.topic_settings import TopicSettings
from strom.storage.batch_walk import DamagedBatch, walk_batches
from strom.storage.cleaned import Cleaned, read_cleaned
from strom.storage.disk import Disk
from strom.storage.epochs import FILE_NAME as EPOCHS_FILE
from strom.storage.epochs import LeaderEpochs
from strom.storage.files import is_temporary, read_whole, replace_whole
from strom.storage.folder import FolderContents, complete_interrupted_work
from strom.storage.log_state import LogState, Unsaved
from strom.storage.producer_state import ProducerStates
from strom.storage.replay import rebuild_aborted, replay_segment
from strom.storage.segment import Segment
from strom.storage.segments import Segments
from strom.storage.snapshots import Snapshot, SnapshotFiles

logger = logging.getLogger(__name__)


class RecoveryPoint(NamedTuple):
    """What was noted of a partition: safe up to one offset, and readable from another on."""

    flushed_offset: int = 0
    start_offset: int = 0


class FutureEpoch(Exception):
    """No torn write makes this of a batch, so it is no reason to cut the log."""


class Recovery:
    """One opening of one partition."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        settings: TopicSettings,
        point: RecoveryPoint,
        *,
        leader_epoch: int,
        now_ms: int,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._settings = settings
        self._point = point
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms
        self._cleaned = Cleaned()
        self._epochs = LeaderEpochs()
        self._epochs_damaged = False
        self._has_markers = False

    def open(self, *, clean: bool) -> LogState:
        """The log as it is on disk; CorruptData if data is damaged that was safe."""
        with self._disk.writing():
            contents = complete_interrupted_work(self._disk.files, self._folder)
        bases = contents.bases
        self._cleaned = read_cleaned(self._disk.files, self._folder)
        self._read_epochs()
        snapshots = SnapshotFiles(self._disk.files, self._folder, contents.snapshot_offsets)
        state = self._open_clean(bases, snapshots) if clean else None
        if state is None:
            state = self._open_after_crash(bases, snapshots)
        state.start_offset = min(
            max(self._point.start_offset, state.segments.first.base_offset), state.end_offset
        )
        return state

    def _read_epochs(self) -> None:
        try:
            data = read_whole(self._disk.files, f"{self._folder}/{EPOCHS_FILE}")
            self._epochs = LeaderEpochs.decode(data)
        except FileNotFoundError:
            self._epochs_damaged = True
        except CorruptData as damage:
            self._epochs_damaged = True
            logger.warning("%s: %s; reading them from the log", self._folder, damage)

    # After a clean stop

    def _open_clean(self, bases: list[int], snapshots: SnapshotFiles) -> LogState | None:
        """The log if everything fits together, None if it is better checked from the ground up."""
        if not bases or self._epochs_damaged:
            return None
        try:
            closed = self._closed_segments(bases)
            active = Segment.resumed(
                self._disk,
                self._folder,
                bases[-1],
                self._settings.index_interval_bytes,
                created_ms=self._now_ms,
            )
        except (CorruptData, FileNotFoundError) as error:
            logger.warning("%s: %s; checking the whole log", self._folder, error)
            return None
        if active.next_offset != self._point.flushed_offset:
            return None
        state = self._state([*closed, active], snapshots)
        self._replay_producers(state)
        return state

    def _closed_segments(self, bases: list[int]) -> list[Segment]:
        return [
            Segment.closed(self._disk, self._folder, base, following, created_ms=self._now_ms)
            for base, following in pairwise(bases)
        ]

    # After a crash

    def _open_after_crash(self, bases: list[int], snapshots: SnapshotFiles) -> LogState:
        point = self._point
        if not bases:
            if point.flushed_offset > point.start_offset:
                raise CorruptData("its log files are missing")
            return self._state([self._new_segment(point.start_offset)], snapshots)
        trusted = [
            segment
            for segment in self._closed_segments(bases)
            if segment.next_offset < point.flushed_offset
        ]
        for segment in trusted:
            self._check_end(segment)
        checked, cut_from = self._check_segments(bases[len(trusted) :])
        end_offset = checked[-1].next_offset
        if end_offset < point.flushed_offset:
            raise CorruptData(
                f"it ends at offset {end_offset}, but was safe up to {point.flushed_offset}"
            )
        with self._disk.writing():
            self._cut(checked[-1], bases, cut_from)
            state = self._state([*trusted, *checked], snapshots)
            self._complete_epochs(state)
            snapshots.remove_beyond(end_offset)
            self._replay_producers(state)
            if self._has_markers:
                rebuild_aborted(state, checked)
            self._make_durable(state, checked)
        return state

    def _new_segment(self, base_offset: int) -> Segment:
        segment = Segment(self._disk, self._folder, base_offset, created_ms=self._now_ms)
        with self._disk.writing():
            self._disk.files.open(segment.log_path, create=True).close()
            self._disk.files.sync_directory(self._folder)
        return segment

    def _may_have_gaps(self, base_offset: int) -> bool:
        return base_offset < self._cleaned.gaps_before

    def _check_end(self, segment: Segment) -> None:
        """A closed segment must end where the next begins, or a file has been lost or cut."""
        end = segment.stored_end()
        if end != segment.next_offset and not (
            end < segment.next_offset and self._may_have_gaps(segment.base_offset)
        ):
            raise CorruptData(
                f"{segment.log_path} ends at offset {end}, the next begins at {segment.next_offset}"
            )

    def _check_segments(self, bases: list[int]) -> tuple[list[Segment], int | None]:
        """Check segments in order up to the first damage; also the base from which all is cut."""
        checked: list[Segment] = []
        for base, following in zip(bases, [*bases[1:], None], strict=True):
            segment = Segment(self._disk, self._folder, base, created_ms=self._now_ms)
            checked.append(segment)
            damage = self._check_segment(segment, following)
            if damage is not None:
                if segment.next_offset < self._point.flushed_offset:
                    raise CorruptData(f"{segment.log_path}: {damage}")
                lost = self._disk.files.size(segment.log_path) - segment.size_bytes
                logger.warning("%s: cut off the last %d bytes: %s", segment.log_path, lost, damage)
                return checked, following
            if following is not None:
                segment.close()
                segment.next_offset = following
        return checked, None

    def _check_segment(self, segment: Segment, following: int | None) -> CorruptData | None:
        """Take every good batch into the segment's indexes; returns what ended that early."""
        interval = self._settings.index_interval_bytes
        gaps = following is not None and self._may_have_gaps(segment.base_offset)
        size = self._disk.files.size(segment.log_path)
        try:
            for position, header, data in walk_batches(segment.file(), 0, size):
                gap = header.base_offset - segment.next_offset
                if gap < 0 or (gap and not gaps):
                    raise DamagedBatch(position, "the offsets are not in order")
                if following is not None and header.next_offset > following:
                    raise DamagedBatch(position, "a batch reaches into the next segment")
                self._check_epoch(position, header.leader_epoch, header.base_offset)
                segment.note(header, len(data), interval)
                self._has_markers |= header.is_control
            if following is not None and segment.next_offset != following and not gaps:
                raise DamagedBatch(size, "the file ends before the next one begins")
        except CorruptData as damage:
            return damage
        return None

    def _check_epoch(self, position: int, epoch: int, offset: int) -> None:
        """Epochs never fall, and agree with their file, which is saved before data is safe."""
        known = self._epochs.epoch_at(offset)
        unknown = epoch > known and not self._epochs_damaged
        if epoch < known or (unknown and offset < self._point.flushed_offset):
            raise DamagedBatch(position, f"a batch has the leader epoch {epoch}, not {known}")
        if epoch > self._leader_epoch:
            raise FutureEpoch(f"there is a batch with the leader epoch {epoch} of the future")
        self._epochs.assign(epoch, offset)

    def _cut(self, last: Segment, bases: list[int], cut_from: int | None) -> None:
        """End the log where the last good batch ends. Called only beyond the recovery point."""
        if self._disk.files.size(last.log_path) > last.size_bytes:
            last.cut(last.size_bytes)
        if cut_from is not None:
            for base in [each for each in bases if each >= cut_from]:
                logger.warning("%s: removed the segment at offset %d", self._folder, base)
                FolderContents.remove_segment(self._disk.files, self._folder, base)

    def _complete_epochs(self, state: LogState) -> None:
        self._epochs.cut_from(state.end_offset)
        if self._epochs_damaged and state.end_offset > state.segments.first.base_offset:
            self._epochs = state.epochs = LeaderEpochs()
            for segment in state.segments:
                for _, header in segment.headers():
                    self._epochs.assign(header.leader_epoch, header.base_offset)

    def _make_durable(self, state: LogState, checked: list[Segment]) -> None:
        """Sync what the crash may have left in memory only, so that all of the log is on disk."""
        for segment in checked:
            segment.file().datasync()
        snapshot = Snapshot(state.end_offset, state.producers.snapshot(state.end_offset))
        closed = [segment for segment in checked if not segment.active]
        try:
            self._save_beside(state, closed, snapshot)
        except OSError as error:
            if not is_temporary(error):
                raise
            self._disk.files.sync_directory(self._folder)
            self._disk.shortage.refused(error)
            state.unsaved = Unsaved(closed, snapshot)
            state.recovery_point = self._point.flushed_offset

    def _save_beside(self, state: LogState, closed: list[Segment], snapshot: Snapshot) -> None:
        for segment in closed:
            segment.save_indexes()
            segment.indexes_saved = True
        state.snapshots.write(snapshot)
        replace_whole(self._disk.files, self._folder, EPOCHS_FILE, state.epochs.encode())
        state.epochs_saved = state.epochs.version

    # Producers

    def _replay_producers(self, state: LogState) -> None:
        """The producers: from a snapshot, and from what the log holds behind it."""
        found = state.snapshots.newest(state.end_offset)
        state.producers, start = found or (ProducerStates(), state.segments.first.base_offset)
        for segment in state.segments.since(start):
            replay_segment(segment, state.producers, start)

    def _state(self, segments: list[Segment], snapshots: SnapshotFiles) -> LogState:
        return LogState(
            Segments(segments),
            snapshots,
            end_offset=segments[-1].next_offset,
            cleaned=self._cleaned,
            epochs=self._epochs,
        )
