"""Running compaction: rewriting closed segments, and swapping the new files in.

After a crash at any step `folder.complete_interrupted_work` restores a consistent folder:

1. (any thread) The new segments are written as `.cleaned` files and synced. Recovery removes them.
2. (any thread) `cleaned-offsets` records that the log may have gaps now.
3. (any thread) One by one, oldest first, a new file is renamed to `BASE-END.swap` and the folder is
   synced: from then on it is part of the log. The order matters: a tombstone must not be removed before
   the older values that it deletes.
4. (event loop) The replaced files are renamed to `.replaced`, the new indexes get their final names; the
   folder is synced.
5. (event loop) The new files get their final names; the folder is synced. They never lack their indexes.

A shortage of space or descriptors ends a run, but the renames of step 3 cannot be undone: a `.swap`
file left behind would replace newer data at the next start. What was renamed is swapped in, and a swap
that a shortage interrupts is continued before the log is used again.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from strom.model.errors import CorruptData, StorageError
from strom.model.topic_settings import TopicSettings
from strom.storage.batch_walk import read_whole_batches
from strom.storage.cleaned import Cleaned, write_cleaned
from strom.storage.compaction import AbortedTransactions, CleanedBatch, Cleaner, build_key_map
from strom.storage.compaction_plan import CompactionPlan, group_segments, plan_compaction
from strom.storage.disk import Disk, Garbage
from strom.storage.files import File, is_temporary
from strom.storage.folder import CLEANED, REPLACED, adopt_indexes, clear_for_swap, swap_name
from strom.storage.log_reading import aborted_between
from strom.storage.log_retention import segment_info
from strom.storage.log_state import LogState
from strom.storage.producer_state import ProducerInfo
from strom.storage.segment import LOG_SUFFIX, LogSegment
from strom.storage.transaction_index import AbortedTransaction
from strom.wire.kafka.batch import Buffer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Replacement:
    """A new segment and the adjacent segments that it replaces."""

    old: list[LogSegment]
    new: LogSegment


class BatchCleaner(Protocol):
    aborted_with_data: set[AbortedTransaction]

    def clean(self, chunk: Buffer) -> Iterator[CleanedBatch]:
        """The remaining batches of a chunk of complete batches."""
        ...


@dataclass(frozen=True)
class Work:
    """The input of a compaction run, collected on the event loop's thread."""

    plan: CompactionPlan
    segments: list[LogSegment]
    aborted: list[AbortedTransaction]
    producers: list[ProducerInfo]
    settings: TopicSettings
    now_ms: int


def gather_work(
    disk: Disk, state: LogState, settings: TopicSettings, now_ms: int, decided_offset: int
) -> Work | None:
    """What to compact now (flushed, and before any open transaction), None if nothing is due."""
    unflushed = [segment.base_offset for segment in state.segments if segment.dirty]
    plan = plan_compaction(
        [segment_info(disk, segment) for segment in state.segments],
        now_ms=now_ms,
        settings=settings,
        first_dirty_offset=state.cleaned.first_dirty_offset,
        last_stable_offset=min([decided_offset, *unflushed]),
    )
    if plan is None:
        return None
    segments = list(state.segments)[: len(plan.segments)]
    aborted = list(aborted_between(state, segments[0].base_offset, plan.end_offset))
    producers = list(state.producers.producers())
    return Work(plan, segments, aborted, producers, settings, now_ms)


class Compaction:
    """One compaction of one log. The log stays in use meanwhile, but must keep these segments."""

    def __init__(self, disk: Disk, folder: str, state: LogState, work: Work) -> None:
        self.failed = False
        self.finished = False
        """Whether `run` has succeeded."""
        self.synced = True
        """Whether the renames of `run` are durable."""
        self.swapping = False
        """Whether old segments may have been renamed: they can no longer be read."""
        self.cleared = False
        """Whether all old segments are renamed."""
        self.replacements: list[Replacement] = []
        """What to swap in; complete when `run` has returned."""
        self.cleaned = state.cleaned
        self.due_ms = work.now_ms + work.settings.file_delete_delay_ms
        self._disk = disk
        self._folder = folder
        self._state = state
        self._work = work

    def run(self) -> None:
        """Write the new segments; any thread. CorruptData, and no change, if an old one is damaged."""
        try:
            with self._disk.writing(optional=True), self._not_failing_when_deleted():
                self._write_replacements()
                self._check_not_deleted()
                self._commit()
            self.finished = True
        except BaseException:
            self.failed = True
            if not self._state.gone:
                self._remove_cleaned()
                raise

    @property
    def bytes_removed(self) -> int:
        """How much smaller the new segments are, after `run` and until they are swapped in."""
        return sum(
            sum(old.size_bytes for old in one.old) - one.new.size_bytes for one in self.replacements
        )

    @contextmanager
    def _not_failing_when_deleted(self) -> Iterator[None]:
        """Keep missing files of a deleted log from being taken for a failure of the medium."""
        try:
            yield
        except OSError as error:
            if self._state.gone:
                raise StorageError(f"{self._folder} was deleted") from error
            raise

    def _check_not_deleted(self) -> None:
        """Stop if the log was deleted: the folder may belong to a recreated topic by now."""
        if self._state.gone:
            raise StorageError(f"{self._folder} was deleted")

    def _write_replacements(self) -> None:
        work = self._work
        aborted = AbortedTransactions(work.aborted)
        dirty = [each for each in work.segments if each.next_offset > work.plan.first_dirty_offset]
        keys = build_key_map(self._chunks(dirty), work.plan, aborted)
        cleaner = Cleaner(
            keys,
            now_ms=work.now_ms,
            settings=work.settings,
            aborted=aborted,
            producers=work.producers,
        )
        by_base = {segment.base_offset: segment for segment in work.segments}
        reached = [each for each in work.plan.segments if each.base_offset < keys.end_offset]
        for group in group_segments(reached, max_bytes=work.settings.segment_bytes):
            self._replace([by_base[facts.base_offset] for facts in group], cleaner)
        self.cleaned = Cleaned(
            max(self._state.cleaned.gaps_before, work.plan.end_offset), keys.end_offset
        )

    def _replace(self, old: list[LogSegment], cleaner: BatchCleaner) -> None:
        new = self._write_segment(old, cleaner)
        if len(old) > 1 or new.size_bytes != old[0].size_bytes:
            self.replacements.append(Replacement(old, new))
        else:
            self._disk.files.remove(new.log_path + CLEANED)

    def _write_segment(self, old: list[LogSegment], cleaner: BatchCleaner) -> LogSegment:
        disk, interval = self._disk, self._work.settings.index_interval_bytes
        new = LogSegment(disk, self._folder, old[0].base_offset, created_ms=old[0].created_ms)
        path = new.log_path + CLEANED
        file = disk.files.open(path, create=True)
        try:
            file.truncate(0)
            for chunk in self._chunks(old):
                for header, data in cleaner.clean(chunk):
                    file.append(data)
                    new.note(header, len(data), interval)
            file.datasync()
        finally:
            file.close()
        new.next_offset = old[-1].next_offset
        new.transactions.replace(self._aborted_with_data(old, cleaner))
        new.close()
        if len(old) > 1 or new.size_bytes != old[0].size_bytes:
            new.save_indexes(CLEANED)
        new.indexes_saved = True
        return new

    def _aborted_with_data(
        self, old: list[LogSegment], cleaner: BatchCleaner
    ) -> list[AbortedTransaction]:
        met = {(each.producer_id, each.first_offset) for each in cleaner.aborted_with_data}
        return [
            each
            for each in self._work.aborted
            if old[0].base_offset <= each.last_offset < old[-1].next_offset
            and (each.producer_id, each.first_offset) in met
        ]

    def _chunks(self, segments: list[LogSegment]) -> Iterator[memoryview]:
        for segment in segments:
            file = self._disk.files.open(segment.log_path)
            try:
                yield from self._chunks_of(segment, file)
            finally:
                file.close()

    def _chunks_of(self, segment: LogSegment, file: File) -> Iterator[memoryview]:
        """Complete batches with verified offsets: a new checksum must not cover a wrong offset."""
        expected = segment.base_offset
        gaps = self._state.may_have_gaps(segment.base_offset)
        for chunk, headers in read_whole_batches(file, segment.size_bytes):
            self._check_not_deleted()
            for header in headers:
                gap = header.base_offset - expected
                if gap < 0 or (gap and not gaps) or header.next_offset > segment.next_offset:
                    raise CorruptData(f"{segment.log_path} has a batch with an invalid offset")
                if header.leader_epoch != self._state.epochs.epoch_at(header.base_offset):
                    raise CorruptData(
                        f"{segment.log_path} has a batch with an invalid leader epoch"
                    )
                expected = header.next_offset
            yield chunk

    def _commit(self) -> None:
        files, folder = self._disk.files, self._folder
        gaps_first = self._state.cleaned._replace(gaps_before=self.cleaned.gaps_before)
        write_cleaned(files, folder, gaps_first)
        committed: list[Replacement] = []
        try:
            for replacement in self.replacements:
                new = replacement.new
                swap = swap_name(new.base_offset, new.next_offset)
                files.rename(new.log_path + CLEANED, f"{folder}/{swap}")
                committed.append(replacement)
                self.synced = False
                files.sync_directory(folder)
                self.synced = True
            write_cleaned(files, folder, self.cleaned)
        except OSError as error:
            if not committed or not is_temporary(error):
                raise
            logger.warning("%s: compaction ends early: %s", folder, error)
            self._keep_only(committed)
            self.cleaned = gaps_first

    def _keep_only(self, committed: list[Replacement]) -> None:
        """Discard new segments that were not renamed yet."""
        self.replacements = committed
        self._remove_cleaned()

    def _remove_cleaned(self) -> None:
        """Remove `.cleaned` files, except the indexes of replacements."""
        used = tuple(replacement.new.stem for replacement in self.replacements if not self.failed)
        with suppress(OSError):
            for name in self._disk.files.list(self._folder):
                path = f"{self._folder}/{name}"
                if name.endswith(CLEANED) and not path.startswith(used):
                    self._disk.files.remove(path)


def swap_in(disk: Disk, folder: str, state: LogState, compaction: Compaction) -> None:
    """Replace the old segments by the new ones; event loop's thread.

    ApiError for a shortage: call it again before the log is read.
    """
    files = disk.files
    with disk.writing():
        if not compaction.cleared:
            _clear(disk, folder, compaction)
        while compaction.replacements:
            new = compaction.replacements[0].new
            swap = swap_name(new.base_offset, new.next_offset)
            files.rename(f"{folder}/{swap}", new.stem + LOG_SUFFIX)
            state.segments.replace(compaction.replacements.pop(0).old, new)
            disk.note_loaded(new)
        files.sync_directory(folder)
    compaction.swapping = False
    state.cleaned = compaction.cleaned


def _clear(disk: Disk, folder: str, compaction: Compaction) -> None:
    files = disk.files
    if not compaction.synced:
        files.sync_directory(folder)
    compaction.swapping = True
    for replacement in compaction.replacements:
        for segment in replacement.old:
            segment.release()
        clear_for_swap(files, folder, replacement.new.base_offset, replacement.new.next_offset)
        adopt_indexes(files, replacement.new.stem)
    files.sync_directory(folder)
    compaction.cleared = True
    old = [segment for replacement in compaction.replacements for segment in replacement.old]
    if old:
        replaced = [segment.log_path + REPLACED for segment in old]
        disk.remove_later(Garbage(folder, replaced, compaction.due_ms))
