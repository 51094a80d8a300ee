"""Carrying out compaction: rewriting closed segments, and putting the new files in their place.

Every step leaves a folder that `folder.complete_interrupted_work` brings to a good state:

1. (any thread) The new segments are written as `.cleaned` files and synced. A crash: they are removed.
2. (any thread) It is noted that the log may have gaps now.
3. (any thread) One by one, oldest first, a new file is renamed to `BASE-END.swap` and the folder is
   synced: from then on it counts. The order matters: a tombstone must not go before the older
   values that it deletes.
4. (event loop) The replaced files are renamed away; the folder is synced.
5. (event loop) The new files get their final names; the folder is synced.

A shortage of space or descriptors ends a run, but nothing can go back behind the first rename of
step 3: a `.swap` file left behind would replace newer data at the next start. What was renamed is swapped
in, and a swap that a shortage interrupts is continued before the log is used again.
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
from strom.storage.folder import CLEANED, REPLACED, clear_for_swap, swap_name
from strom.storage.log_reading import aborted_between
from strom.storage.log_retention import facts_of
from strom.storage.log_state import LogState
from strom.storage.producer_state import ProducerFacts
from strom.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, Segment
from strom.storage.transaction_index import AbortedTransaction
from strom.wire.kafka.batch import Buffer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Replacement:
    """A new segment and the neighbours that it stands for."""

    old: list[Segment]
    new: Segment


class BatchCleaner(Protocol):
    """Says what stays of batches."""

    aborted_with_data: set[AbortedTransaction]

    def clean(self, chunk: Buffer) -> Iterator[CleanedBatch]:
        """The batches that stay of a chunk of whole batches."""
        ...


@dataclass(frozen=True)
class Work:
    """What a run of compaction needs to know, gathered by the event loop's thread."""

    plan: CompactionPlan
    segments: list[Segment]
    aborted: list[AbortedTransaction]
    producers: list[ProducerFacts]
    settings: TopicSettings
    now_ms: int


def gather_work(
    disk: Disk, state: LogState, settings: TopicSettings, now_ms: int, decided_offset: int
) -> Work | None:
    """What is to be compacted now, None if nothing is: flushed, and before any open transaction."""
    unflushed = [segment.base_offset for segment in state.segments if segment.dirty]
    plan = plan_compaction(
        [facts_of(disk, segment) for segment in state.segments],
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
    """One run over one log. The log goes on meanwhile; it only must not lose the segments."""

    def __init__(self, disk: Disk, folder: str, state: LogState, work: Work) -> None:
        self.failed = False
        self.finished = False
        """Whether `run` has ended well."""
        self.synced = True
        """Whether a crash can no longer undo the renames of `run`."""
        self.swapping = False
        """Whether old segments may have been renamed away: they cannot be read any more."""
        self.cleared = False
        """Whether all of them are."""
        self.replacements: list[Replacement] = []
        """What is to be swapped in; complete when `run` has returned."""
        self.cleaned = state.cleaned
        self.due_ms = work.now_ms + work.settings.file_delete_delay_ms
        self._disk = disk
        self._folder = folder
        self._state = state
        self._work = work

    def run(self) -> None:
        """Write the new segments; any thread. CorruptData if an old one is damaged: all stays."""
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
        """Take missing files for what they are when the log was deleted: no failure of the medium."""
        try:
            yield
        except OSError as error:
            if self._state.gone:
                raise StorageError(f"{self._folder} was deleted") from error
            raise

    def _check_not_deleted(self) -> None:
        """Another log of the same name may have the folder by now: leave that alone."""
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

    def _replace(self, old: list[Segment], cleaner: BatchCleaner) -> None:
        new = self._write_segment(old, cleaner)
        if len(old) > 1 or new.size_bytes != old[0].size_bytes:
            self.replacements.append(Replacement(old, new))
        else:
            self._disk.files.remove(new.log_path + CLEANED)

    def _write_segment(self, old: list[Segment], cleaner: BatchCleaner) -> Segment:
        disk, interval = self._disk, self._work.settings.index_interval_bytes
        new = Segment(disk, self._folder, old[0].base_offset, created_ms=old[0].created_ms)
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
        new.aborted = self._aborted_still_met(old, cleaner)
        new.close()
        if len(old) > 1 or new.size_bytes != old[0].size_bytes:
            new.save_indexes(CLEANED)
        new.indexes_saved = True
        return new

    def _aborted_still_met(
        self, old: list[Segment], cleaner: BatchCleaner
    ) -> list[AbortedTransaction]:
        met = {(each.producer_id, each.first_offset) for each in cleaner.aborted_with_data}
        return [
            each
            for each in self._work.aborted
            if old[0].base_offset <= each.last_offset < old[-1].next_offset
            and (each.producer_id, each.first_offset) in met
        ]

    def _chunks(self, segments: list[Segment]) -> Iterator[memoryview]:
        for segment in segments:
            file = self._disk.files.open(segment.log_path)
            try:
                yield from self._chunks_of(segment, file)
            finally:
                file.close()

    def _chunks_of(self, segment: Segment, file: File) -> Iterator[memoryview]:
        """Whole batches, their offsets checked: a new checksum must not cover a wrong offset."""
        expected = segment.base_offset
        gaps = self._state.may_have_gaps(segment.base_offset)
        for chunk, headers in read_whole_batches(file, segment.size_bytes):
            self._check_not_deleted()
            for header in headers:
                gap = header.base_offset - expected
                if gap < 0 or (gap and not gaps) or header.next_offset > segment.next_offset:
                    raise CorruptData(f"{segment.log_path} has a batch with a wrong offset")
                if header.leader_epoch != self._state.epochs.epoch_at(header.base_offset):
                    raise CorruptData(f"{segment.log_path} has a batch with a wrong epoch")
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
        """Let go of new segments that do not count yet."""
        self.replacements = committed
        self._remove_cleaned()

    def _remove_cleaned(self) -> None:
        """Free the space of what will not be used; the indexes of replacements are."""
        used = tuple(replacement.new.stem for replacement in self.replacements if not self.failed)
        with suppress(OSError):
            for name in self._disk.files.list(self._folder):
                path = f"{self._folder}/{name}"
                if name.endswith(CLEANED) and not path.startswith(used):
                    self._disk.files.remove(path)


def swap_in(disk: Disk, folder: str, state: LogState, compaction: Compaction) -> None:
    """Put the new segments in the place of the old ones; event loop's thread.

    ApiError for a shortage: call it again before anything of the log is read.
    """
    files = disk.files
    with disk.writing():
        if not compaction.cleared:
            _clear(disk, folder, compaction)
        while compaction.replacements:
            new = compaction.replacements[0].new
            for suffix in INDEX_SUFFIXES:
                if files.exists(new.stem + suffix + CLEANED):
                    files.rename(new.stem + suffix + CLEANED, new.stem + suffix)
            swap = swap_name(new.base_offset, new.next_offset)
            files.rename(f"{folder}/{swap}", new.stem + LOG_SUFFIX)
            state.segments.replace(compaction.replacements.pop(0).old, new)
            disk.note_loaded(new)
        files.sync_directory(folder)
    compaction.swapping = False
    state.cleaned = compaction.cleaned


def _clear(disk: Disk, folder: str, compaction: Compaction) -> None:
    """Rename away what is replaced."""
    files = disk.files
    if not compaction.synced:
        files.sync_directory(folder)
    compaction.swapping = True
    for replacement in compaction.replacements:
        for segment in replacement.old:
            segment.release()
        clear_for_swap(files, folder, replacement.new.base_offset, replacement.new.next_offset)
    files.sync_directory(folder)
    compaction.cleared = True
    old = [segment for replacement in compaction.replacements for segment in replacement.old]
    if old:
        replaced = [segment.log_path + REPLACED for segment in old]
        disk.remove_later(Garbage(folder, replaced, compaction.due_ms))
