"""Opening a partition's folder, after a clean stop or after a crash.

Everything before the *recovery point* was durable when the checkpoint was written. After a crash every
batch in the segments that reach it is checked. An invalid batch after it is a write that the crash
interrupted: the log is truncated there. An invalid batch before it is damage to durable data: then
nothing is truncated or removed, and the caller quarantines the partition.

None of this needs disk space. What recovery saves to shorten the next one does: if there is no space,
that is left to the first flush that finds some, as at run time, and the recovery point stays behind.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple, TypeVar

from strom.model.errors import CorruptData
from strom.model.settings import INT_MAX
from strom.model.topic_settings import TopicSettings
from strom.storage.batch_walk import DamagedBatch, walk_batches
from strom.storage.cleaned import Cleaned, read_cleaned
from strom.storage.damage import WHAT_TO_DO, Scanner
from strom.storage.damage_search import learn_damage
from strom.storage.disk import Disk
from strom.storage.epochs import FILE_NAME as EPOCHS_FILE
from strom.storage.epochs import LeaderEpochs
from strom.storage.files import is_temporary, read_file, replace_file
from strom.storage.folder import FolderContents, complete_interrupted_work, forget_missing
from strom.storage.log_state import LogState, Unsaved
from strom.storage.producer_state import ProducerStates
from strom.storage.replay import rebuild_aborted, replay_segment
from strom.storage.segment import DamagedSegment, LogSegment
from strom.storage.segments import Segments
from strom.storage.snapshots import ProducerSnapshot, SnapshotFiles
from strom.storage.start_offset import prepare_removal, read_start
from strom.storage.transaction_index_recovery import TransactionIndexRecovery

logger = logging.getLogger(__name__)

T = TypeVar("T")


class RecoveryPoint(NamedTuple):
    """The checkpoint of a partition: durable before one offset, and readable from another on."""

    flushed_offset: int = 0
    start_offset: int = 0


def check_complete(
    folder: str, bases: Sequence[int], start: int | None, expected: Sequence[int]
) -> None:
    """CorruptData if segment files are missing, judged by their names.

    `start` is the largest offset at which the first one may begin, `expected` are known base offsets.
    """
    if start is not None and not bases:
        raise CorruptData("all log files are missing")
    if start is not None and bases[0] > start:
        raise CorruptData(
            f"offsets {start} to {bases[0] - 1} are missing: the log began at or before offset "
            f"{start}, but its first file begins at {bases[0]}"
        )
    missing = sorted(set(expected) - set(bases))
    if missing:
        names = ", ".join(f"{folder}/{base:020d}.log" for base in missing[:3])
        raise CorruptData(f"{len(missing)} of its files are missing: {names}")


class FutureEpoch(Exception):
    """A batch has a newer leader epoch: no torn write causes that, so the log is not truncated."""


class Recovery:
    def __init__(
        self,
        disk: Disk,
        folder: str,
        settings: TopicSettings,
        point: RecoveryPoint,
        *,
        leader_epoch: int,
        now_ms: int,
        tolerates_damage: bool = False,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._tolerates_damage = tolerates_damage
        self._settings = settings
        self._point = point
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms
        self._cleaned = Cleaned()
        self._epochs = LeaderEpochs()
        self._epochs_damaged = False
        self._has_markers = False
        self._stores_start = False
        self._unsynced: list[LogSegment] = []
        """What may be only in the page cache."""

    def open(self, *, clean: bool) -> LogState:
        """The log as it is on disk; CorruptData if durable data is damaged or missing.

        `make_durable` must follow before the log is used.
        """
        with self._disk.writing():
            contents = complete_interrupted_work(self._disk.files, self._folder)
        bases = contents.bases
        start = read_start(self._disk.files, self._folder)
        # An older version deletes segments without updating that file, but writes the checkpoint.
        latest = None if start is None else max(start, self._point.start_offset)
        check_complete(self._folder, bases, latest, contents.missing)
        with self._disk.writing():
            forget_missing(self._disk.files, self._folder, contents.missing)
        self._cleaned = read_cleaned(self._disk.files, self._folder)
        self._read_epochs()
        on_disk = contents.transaction_indexes
        self._indexes = TransactionIndexRecovery(self._disk, self._folder, on_disk)
        snapshots = SnapshotFiles(self._disk.files, self._folder, contents.snapshot_offsets)
        state = self._open_clean(bases, snapshots) if clean else None
        if state is None:
            state = self._open_after_crash(bases, snapshots)
        first = state.segments.first.base_offset
        if self._indexes.find_lost(state, self._unsynced):
            self._skipping(lambda: self._indexes.rebuild(state))
        state.start_offset = min(max(self._point.start_offset, first), state.end_offset)
        # After an older version, so that missing files are noticed from now on.
        self._stores_start = start is None or start < first
        return state

    def _read_epochs(self) -> None:
        try:
            data = read_file(self._disk.files, f"{self._folder}/{EPOCHS_FILE}")
            self._epochs = LeaderEpochs.decode(data)
        except FileNotFoundError:
            self._epochs_damaged = True
        except CorruptData as damage:
            self._epochs_damaged = True
            logger.warning("%s: %s; reading them from the log", self._folder, damage)

    # After a clean stop

    def _open_clean(self, bases: list[int], snapshots: SnapshotFiles) -> LogState | None:
        """The log if all files are consistent, None if it needs a full check."""
        if not bases or self._epochs_damaged:
            return None
        try:
            closed = self._closed_segments(bases)
            active = LogSegment.resumed(
                self._disk,
                self._folder,
                bases[-1],
                self._settings.index_interval_bytes,
                created_ms=self._now_ms,
                has_transaction_index=self._indexes.must_exist(bases[-1]),
            )
        except (CorruptData, FileNotFoundError) as error:
            logger.warning("%s: %s; checking the whole log", self._folder, error)
            return None
        if active.next_offset != self._point.flushed_offset:
            return None
        state = self._state([*closed, active], snapshots)
        self._skipping(lambda: self._replay_producers(state))
        return state

    def _closed_segments(self, bases: list[int]) -> list[LogSegment]:
        return [
            LogSegment.closed(
                self._disk,
                self._folder,
                base,
                following,
                created_ms=self._now_ms,
                has_transaction_index=self._indexes.must_exist(base),
            )
            for base, following in pairwise(bases)
        ]

    # After a crash

    def _open_after_crash(self, bases: list[int], snapshots: SnapshotFiles) -> LogState:
        point = self._point
        if not bases:
            if point.flushed_offset > point.start_offset:
                raise CorruptData("all log files are missing")
            return self._state([self._new_segment(point.start_offset)], snapshots)
        trusted = [
            segment
            for segment in self._closed_segments(bases)
            if segment.next_offset < point.flushed_offset
        ]
        for segment in trusted:
            self._check_end(segment)
        checked, remove_from = self._check_segments(bases[len(trusted) :])
        end_offset = checked[-1].next_offset
        if end_offset < point.flushed_offset:
            raise CorruptData(
                f"offsets {end_offset} to {point.flushed_offset - 1} are missing at the end of "
                f"{checked[-1].log_path}, but were durable"
            )
        with self._disk.writing():
            self._truncate(checked[-1], bases, remove_from)
            state = self._state([*trusted, *checked], snapshots)
            self._complete_epochs(state)
            snapshots.remove_beyond(end_offset)
            self._skipping(lambda: self._replay_producers(state))
            if self._has_markers:
                self._skipping(lambda: rebuild_aborted(state, checked))
        self._unsynced = checked
        return state

    def _new_segment(self, base_offset: int) -> LogSegment:
        segment = LogSegment(self._disk, self._folder, base_offset, created_ms=self._now_ms)
        with self._disk.writing():
            self._disk.files.open(segment.log_path, create=True).close()
            self._disk.files.sync_directory(self._folder)
        return segment

    def _may_have_gaps(self, base_offset: int) -> bool:
        return base_offset < self._cleaned.gaps_before

    def _check_end(self, segment: LogSegment) -> None:
        """A closed segment must end where the next begins, or a file was lost or truncated."""
        end = self._skipping(segment.stored_end)
        if end < segment.next_offset and self._may_have_gaps(segment.base_offset):
            return
        if end != segment.next_offset:
            end = self._skipping(lambda: segment.stored_end(verify=True))
        if end != segment.next_offset:
            raise CorruptData(
                f"offsets {end} to {segment.next_offset - 1} are missing: {segment.log_path} ends "
                f"at offset {end}, the next file begins at {segment.next_offset}"
            )

    def _check_segments(self, bases: list[int]) -> tuple[list[LogSegment], int | None]:
        """Check segments in order up to the first damage; also the first base offset to remove."""
        checked: list[LogSegment] = []
        for base, following in zip(bases, [*bases[1:], None], strict=True):
            segment = LogSegment(self._disk, self._folder, base, created_ms=self._now_ms)
            segment.transactions.must_exist = self._indexes.must_exist(base)
            checked.append(segment)
            damage = self._check_segment(segment, following)
            if damage is not None:
                if segment.next_offset < self._point.flushed_offset:
                    raise CorruptData(f"{segment.log_path}: {damage}")
                lost = self._disk.files.size(segment.log_path) - segment.size_bytes
                logger.warning(
                    "%s: truncated the last %d bytes: %s", segment.log_path, lost, damage
                )
                return checked, following
            if following is not None:
                segment.close()
                segment.next_offset = following
        return checked, None

    def _check_segment(self, segment: LogSegment, following: int | None) -> CorruptData | None:
        """Index every valid batch of a segment; returns the damage that ended it early."""
        while True:
            damage = self._check_batches(segment, following)
            durable = segment.next_offset < self._point.flushed_offset
            if not isinstance(damage, DamagedBatch) or not (durable and self._tolerates_damage):
                return damage
            self._note_damage(segment, damage, following)

    def _check_batches(self, segment: LogSegment, following: int | None) -> CorruptData | None:
        interval = self._settings.index_interval_bytes
        gaps = following is not None and self._may_have_gaps(segment.base_offset)
        size = self._disk.files.size(segment.log_path)
        try:
            for position, header, data in walk_batches(segment.file(), segment.size_bytes, size):
                gap = header.base_offset - segment.next_offset
                if gap < 0 or (gap and not gaps):
                    raise DamagedBatch(position, "the offsets are not in order")
                if following is not None and header.next_offset > following:
                    raise DamagedBatch(position, "a batch overlaps the next segment")
                self._check_epoch(position, header.leader_epoch, header.base_offset)
                segment.note(header, len(data), interval)
                self._has_markers |= header.is_control
        except CorruptData as damage:
            return damage
        if following is not None and segment.next_offset != following and not gaps:
            return CorruptData(
                f"offsets {segment.next_offset} to {following - 1} are missing: it ends before the "
                "next file begins"
            )
        return None

    def _note_damage(
        self, segment: LogSegment, damage: DamagedBatch, following: int | None
    ) -> None:
        """Skip damage below the recovery point, up to the next whole batch."""
        size = self._disk.files.size(segment.log_path)
        bound = segment.base_offset + INT_MAX + 1 if following is None else following
        epoch_at = self._epochs.epoch_at
        scanner = Scanner(segment.file(), size, bound, None if self._epochs_damaged else epoch_at)
        found = scanner.damage_at(damage.position, segment.next_offset)
        if found.next_offset == bound and following is None:
            found = found._replace(next_offset=self._point.flushed_offset)
        segment.note_damage(found)
        # A marker may be among what is damaged.
        self._has_markers = True
        logger.error(
            "%s: %s. Reads of offsets %d to %d fail, the others go on. %s",
            segment.log_path,
            damage,
            found.first_offset,
            found.next_offset - 1,
            WHAT_TO_DO,
        )

    def _skipping(self, work: Callable[[], T]) -> T:
        """Run what reads batches, again if it meets damage that may be skipped."""
        while True:
            try:
                return work()
            except DamagedSegment as damage:
                segment = damage.segment
                gaps = self._may_have_gaps(segment.base_offset)
                if not self._tolerates_damage or not learn_damage(
                    segment, damage.position, self._epochs, has_gaps=gaps
                ):
                    raise
                logger.error("%s. Reads of that batch fail. %s", damage, WHAT_TO_DO)

    def _check_epoch(self, position: int, epoch: int, offset: int) -> None:
        """Epochs never decrease, and agree with their file, which is saved before data is durable."""
        known = self._epochs.epoch_at(offset)
        unknown = epoch > known and not self._epochs_damaged
        if epoch < known or (unknown and offset < self._point.flushed_offset):
            raise DamagedBatch(position, f"a batch has leader epoch {epoch} instead of {known}")
        if epoch > self._leader_epoch:
            raise FutureEpoch(f"leader epoch {epoch} of a batch exceeds {self._leader_epoch}")
        self._epochs.assign(epoch, offset)

    def _truncate(self, last: LogSegment, bases: list[int], remove_from: int | None) -> None:
        """Truncate the log after the last valid batch. Called only beyond the recovery point."""
        if self._disk.files.size(last.log_path) > last.size_bytes:
            last.truncate(last.size_bytes)
        if remove_from is not None:
            for base in [each for each in bases if each >= remove_from]:
                logger.warning("%s: removed the segment at offset %d", self._folder, base)
                FolderContents.remove_segment(self._disk.files, self._folder, base)

    def _complete_epochs(self, state: LogState) -> None:
        self._epochs.truncate_from(state.end_offset)
        if self._epochs_damaged and state.end_offset > state.segments.first.base_offset:
            self._epochs = state.epochs = LeaderEpochs()
            for segment in state.segments:
                for _, header in segment.headers():
                    self._epochs.assign(header.leader_epoch, header.base_offset)

    def make_durable(self, state: LogState) -> None:
        """Sync what may be only in the page cache, so that the whole log is durable. Any thread."""
        with self._disk.writing():
            if self._unsynced:
                self._make_durable(state, self._unsynced)
            self._indexes.save(state)
            if self._stores_start:
                first = state.segments.first.base_offset
                prepare_removal(self._disk.files, self._folder, first)

    def _make_durable(self, state: LogState, checked: list[LogSegment]) -> None:
        for segment in checked:
            # Not from the pool, which is for one thread.
            with closing(self._disk.files.open(segment.log_path)) as file:
                file.datasync()
        snapshot = ProducerSnapshot(state.end_offset, state.producers.snapshot(state.end_offset))
        closed = [segment for segment in checked if not segment.active]
        try:
            self._save_beside(state, closed, snapshot)
        except OSError as error:
            if not is_temporary(error):
                raise
            self._disk.files.sync_directory(self._folder)
            self._disk.shortage.on_write_failed(error)
            state.unsaved = Unsaved(closed, snapshot)
            state.recovery_point = self._point.flushed_offset

    def _save_beside(
        self, state: LogState, closed: list[LogSegment], snapshot: ProducerSnapshot
    ) -> None:
        for segment in closed:
            segment.save_indexes()
            segment.indexes_saved = True
        active = state.segments.active
        if self._has_markers:
            # A repair takes both together for the outcome of all transactions.
            active.transactions.save()
            self._disk.files.sync_directory(self._folder)
        else:
            active.transactions.remove_file()
        state.snapshots.write(snapshot)
        replace_file(self._disk.files, self._folder, EPOCHS_FILE, state.epochs.encode())
        state.epochs_saved = state.epochs.version

    # Producers

    def _replay_producers(self, state: LogState) -> None:
        """Restore the producers from a snapshot and the batches after it."""
        found = state.snapshots.newest(state.end_offset)
        state.producers, start = found or (ProducerStates(), state.segments.first.base_offset)
        for segment in state.segments.since(start):
            replay_segment(segment, state.producers, start)

    def _state(self, segments: list[LogSegment], snapshots: SnapshotFiles) -> LogState:
        return LogState(
            Segments(segments),
            snapshots,
            end_offset=segments[-1].next_offset,
            cleaned=self._cleaned,
            epochs=self._epochs,
        )
