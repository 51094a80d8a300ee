"""The log of one partition: written at its end, read from anywhere, dropped at its start.

All methods belong to the event loop's thread, but for those that say: any thread. Nothing here
waits for the disk except `close`: an append hands its bytes to the operating system, and a flush,
synced on another thread, moves the high watermark up to where they are safe.
"""

import logging
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from strom.model.errors import ApiError, CorruptData, DirectoryOffline, ErrorCode
from strom.model.topic_settings import TopicSettings
from strom.model.topics import TopicPartition
from strom.storage.disk import Disk
from strom.storage.files import is_temporary
from strom.storage.flush import Flush, Unflushed
from strom.storage.log_compaction import Compaction, gather_work, swap_in
from strom.storage.log_pruning import GoneOffsets, Pruning, gather_garbage
from strom.storage.log_reading import (
    EAGER_AT_MOST,
    NOTHING,
    Chunk,
    FoundOffset,
    LazyChunk,
    Limit,
    aborted_between,
    count_bytes,
    find_largest_time,
    find_time,
    headers_from,
    read_chunk,
    read_lazily,
)
from strom.storage.log_retention import expired_segments, take_out
from strom.storage.log_state import LogState
from strom.storage.producer_state import ProducerFacts
from strom.storage.rolling import is_full, is_old
from strom.storage.segment import Segment
from strom.storage.snapshots import Snapshot
from strom.storage.transaction_index import AbortedTransaction
from strom.storage.validation import validate
from strom.wire.kafka.batch import BatchHeader, headers, stamp
from strom.wire.kafka.records import read_marker

logger = logging.getLogger(__name__)

HIGH_WATERMARK = -1
"""Stands for the high watermark where DeleteRecords names an offset."""


class Appended(NamedTuple):
    """Where a batch has got to; a duplicate is where its first copy is."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    start_offset: int
    duplicate: bool


class Log:
    """One partition's records. After damage it is `quarantined`, and refuses everything."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        partition: TopicPartition,
        topic_id: uuid.UUID,
        settings: TopicSettings,
        state: LogState | None,
        *,
        quarantined: str | None = None,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.settings = settings
        self.folder = folder
        self.quarantined = quarantined
        self.read_only: str | None = None
        """Why nothing can be appended for now, though all is well with the log itself."""
        self._disk = disk
        state = state or LogState.nothing(disk.files, folder)
        self._state = state
        self._segments = state.segments
        self._unflushed = Unflushed(disk, folder, state)
        self._compaction: Compaction | None = None
        self._appended_before = -state.segments.active.size_bytes if state.segments else 0
        """What was appended to segments that are closed, since the log was opened."""
        self._pruned: dict[int, int] = {}
        """How many records segments had when they were pruned, by base offset."""
        self._last_marker_offset = -1
        self.end_offset = state.end_offset
        """The next offset to be given."""
        self.flushed_offset = state.end_offset
        """Everything before it is on disk."""
        self.recovery_point = (
            state.end_offset if state.recovery_point is None else state.recovery_point
        )
        """Everything before it needs no check after a crash."""
        self.high_watermark = state.end_offset
        """Readers see what lies before it."""
        self._met_aborted: bool | None = None
        self._watermark_position = state.segments.active.size_bytes if state.segments else 0

    # What there is

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._state.start_offset

    @property
    def last_stable_offset(self) -> int:
        """Everything before it is decided: readers of committed records see up to here."""
        first_open = self._state.producers.first_open_offset
        if first_open is None or first_open > self.high_watermark:
            return self.high_watermark
        return max(first_open, self._state.start_offset)

    def producers(self) -> list[ProducerFacts]:
        """Who has written here of late."""
        return list(self._state.producers.producers())

    def knows_producer(self, producer_id: int) -> bool:
        """Whether this producer has written here of late."""
        return producer_id in self._state.producers

    @property
    def has_open_transactions(self) -> bool:
        """Whether any transaction that wrote here has not ended."""
        return self._state.producers.first_open_offset is not None

    @property
    def wants_flush(self) -> bool:
        """Whether a segment was closed that no flush has seen: flush it even without durability.

        Until then neither retention nor compaction nor the recovery point can get on.
        """
        return self._unflushed.entries_dirty

    @property
    def offline(self) -> DirectoryOffline | None:
        """Why nothing in the data directory can be written any more, None while it can."""
        return self._disk.offline

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def appended_bytes(self) -> int:
        """How much was appended since the log was opened."""
        return self._appended_before + self._segments.active.size_bytes if self._segments else 0

    @property
    def segment_count(self) -> int:
        """How many segments there are, the active one included."""
        return len(self._segments)

    @property
    def dirty_bytes(self) -> int:
        """Size of the segments that compaction has not reached yet, the active one included."""
        first_dirty = self._state.cleaned.first_dirty_offset
        return sum(
            segment.size_bytes for segment in self._segments if segment.next_offset > first_dirty
        )

    # Appending

    def append(
        self,
        batches: bytearray | memoryview,
        *,
        now_ms: int,
        leader_epoch: int,
        from_client: bool = True,
    ) -> Appended:
        """Check one batch, give it the next offsets and write it; ApiError if it is refused.

        The caller answers its client when the high watermark has passed the last offset.
        """
        self._check_usable()
        if self.read_only is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self.read_only)
        header, data = validate(batches, self.settings, now_ms=now_ms, from_client=from_client)
        marker = read_marker(data, 0, header) if header.is_control else None
        if header.has_producer:
            seen = self._state.producers.check(header, marker, from_client=from_client)
            if seen is not None:
                return Appended(
                    seen.base_offset, seen.last_offset, seen.timestamp, self.start_offset, True
                )
        base_offset = self.end_offset
        header = BatchHeader(base_offset, header[1], leader_epoch, *header[3:])
        stamp(data, 0, base_offset, leader_epoch)
        self._write(data, header, now_ms)
        state = self._state
        if leader_epoch != state.epochs.latest:
            state.epochs.assign(leader_epoch, base_offset)
        if header.has_producer:
            if marker is not None:
                self._last_marker_offset = base_offset
            completed = state.producers.update(header, marker)
            if completed is not None and completed.aborted:
                self._note_aborted(completed.producer_id, completed.first_offset, header)
        append_time_ms = now_ms if header.has_append_time else -1
        return Appended(base_offset, header.last_offset, append_time_ms, state.start_offset, False)

    def _write(self, data: bytearray | memoryview, header: BatchHeader, now_ms: int) -> None:
        segment = self._segments.active
        if is_full(segment, self.settings, header, len(data), now_ms):
            segment = self._roll(now_ms)
        elif not segment.size_bytes:
            segment.created_ms = now_ms
        try:
            segment.append(data, header, self.settings.index_interval_bytes)
        except OSError as error:
            self._undo_write(segment, error)
        if self._disk.shortage.is_on:
            self._disk.shortage.write_succeeded()
        if not segment.dirty:
            self._unflushed.note_segment(segment)
        self.end_offset = segment.next_offset
        if self.settings.flush == "os":
            self.high_watermark = self.end_offset
            self._watermark_position = segment.size_bytes

    def _undo_write(self, segment: Segment, error: OSError) -> None:
        if is_temporary(error):
            with self._disk.writing():
                segment.cut(segment.size_bytes)
        raise self._disk.write_error(error) from error

    def _note_aborted(self, producer_id: int, first_offset: int, marker: BatchHeader) -> None:
        first_open = self._state.producers.first_open_offset
        stable = marker.next_offset if first_open is None else first_open
        self._met_aborted = True
        self._segments.active.note_aborted(
            AbortedTransaction(producer_id, first_offset, marker.last_offset, stable)
        )

    def roll_if_due(self, now_ms: int) -> bool:
        """Close the active segment if it holds records and is older than `segment.ms`."""
        self._check_usable()
        if not is_old(self._segments.active, self.settings, now_ms):
            return False
        self._roll(now_ms)
        return True

    def roll_if_larger(self, size_bytes: int, now_ms: int) -> bool:
        """Close the active segment if it is larger than that, whatever `segment.bytes` is."""
        self._check_usable()
        if self._segments.active.size_bytes <= size_bytes:
            return False
        self._roll(now_ms)
        return True

    def roll_for_compaction(self, now_ms: int) -> bool:
        """Close the active segment if at least half of what is not compacted yet lies in it.

        Less would not help: something else keeps the closed segments from being compacted.
        """
        self._check_usable()
        size_bytes = self._segments.active.size_bytes
        if not size_bytes or 2 * size_bytes < self.dirty_bytes:
            return False
        self._roll(now_ms)
        return True

    def _roll(self, now_ms: int) -> Segment:
        fresh = Segment(self._disk, self.folder, self.end_offset, created_ms=now_ms)
        with self._disk.writing():
            self._disk.files.open(fresh.log_path, create=True).close()
        self._close_active()
        self._appended_before += self._segments.active.size_bytes
        self._segments.add(fresh)
        return fresh

    def _close_active(self) -> None:
        old = self._segments.active
        old.close()
        snapshot = Snapshot(self.end_offset, self._state.producers.snapshot(self.end_offset))
        self._unflushed.note_closed(old, snapshot)

    # Flushing

    def begin_flush(self) -> Flush | None:
        """What is to be synced now, None if all is on disk. Several may be under way."""
        self._check_usable()
        return self._unflushed.begin(self.end_offset, self.recovery_point)

    def finish_flush(self, flush: Flush) -> None:
        """Everything in a flush is on disk: the high watermark moves up to it."""
        self._unflushed.finish(flush)
        self.flushed_offset = max(self.flushed_offset, flush.end_offset)
        if flush.complete:
            self.recovery_point = max(self.recovery_point, flush.end_offset)
        if flush.end_offset > self.high_watermark:
            self.high_watermark = flush.end_offset
            self._watermark_position = flush.segments[-1].size_bytes

    def abandon_flush(self, flush: Flush) -> None:
        """A flush could not be synced: all that it held is still to be flushed."""
        self._unflushed.abandon(flush)

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        committed_only: bool = False,
        at_least_one: bool = True,
    ) -> Chunk:
        """Batches from the one that holds `offset` on, up to what readers may see.

        At the end the chunk is empty; beyond it, or before the start: OFFSET_OUT_OF_RANGE. With
        `at_least_one` the first batch is whole even if it is larger than `max_bytes`.
        """
        self._check_readable(offset)
        try:
            limit = self._limit(committed_only)
            if offset >= limit.offset:
                return NOTHING
            data = read_chunk(self._state, offset, max_bytes, limit, at_least_one=at_least_one)
            if not committed_only or not data or not self._has_aborted():
                return Chunk(data)
            return Chunk(data, self._aborted_in(data, offset))
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def read_lazily(
        self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool
    ) -> LazyChunk:
        """The same for sending to a client: large parts are left in their file until they are sent."""
        self._check_readable(offset)
        if committed_only and self._has_aborted():
            return LazyChunk(
                *self.read(
                    offset,
                    min(max_bytes, EAGER_AT_MOST),
                    committed_only=True,
                    at_least_one=at_least_one,
                )
            )
        try:
            limit = self._limit(committed_only)
            if offset >= limit.offset:
                return LazyChunk(b"")
            return LazyChunk(
                read_lazily(self._state, offset, max_bytes, limit, at_least_one=at_least_one)
            )
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def headers_from(self, offset: int, *, committed_only: bool = False) -> Iterator[BatchHeader]:
        """The headers of the batches that a read from an offset could give: all of one segment."""
        self._check_readable(offset)
        try:
            limit = self._limit(committed_only)
            if offset < limit.offset:
                yield from headers_from(self._state, offset, limit)
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Aborted transactions with records between two offsets."""
        self._check_usable()
        try:
            return list(aborted_between(self._state, start, end)) if self._has_aborted() else []
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def _check_readable(self, offset: int) -> None:
        self._check_usable()
        if not self.start_offset <= offset <= self.end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} is not within {self.start_offset} and {self.end_offset}.",
            )

    def _aborted_in(self, data: bytes, offset: int) -> tuple[AbortedTransaction, ...]:
        end = offset + 1
        for _, header in headers(data):
            end = header.next_offset
        return tuple(aborted_between(self._state, offset, end))

    def _has_aborted(self) -> bool:
        """Whether any transaction was ever aborted here. Mostly not, which spares much looking."""
        if self._met_aborted is None:
            try:
                self._met_aborted = any(segment.aborted for segment in self._segments)
            except CorruptData:
                self._met_aborted = True  # whoever reads that part of the log will be told
            except OSError:
                return True  # so that the read itself meets it, and reports it
        return self._met_aborted

    def _limit(self, committed_only: bool) -> Limit:
        watermark = Limit(self.high_watermark, self._watermark_position)
        if not committed_only:
            return watermark
        stable = self.last_stable_offset
        if stable == watermark.offset:
            return watermark
        segment = self._segments.since(stable)[0]
        span = segment.locate(stable)
        return Limit(stable, span.position if span else segment.size_bytes)

    def bytes_after(self, offset: int, *, committed_only: bool = False, limit: int) -> int:
        """How many bytes a read from an offset could give, counted up to a limit."""
        self._check_usable()
        try:
            end = self._limit(committed_only)
            return count_bytes(self._state, offset, end, limit) if offset < end.offset else 0
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def find_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record with this timestamp or a later one."""
        self._check_usable()
        try:
            return find_time(self._state, timestamp_ms, self._limit(committed_only=False))
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def find_max_timestamp(self) -> FoundOffset | None:
        """The first of the records with the largest timestamp."""
        self._check_usable()
        try:
            return find_largest_time(self._state, self._limit(committed_only=False))
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to the given one, and where it ended; -1, -1 if unknown."""
        self._check_usable()
        return self._state.epochs.end_of(epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch an offset was written under; -1 if unknown."""
        return self._state.epochs.epoch_at(offset)

    # Dropping

    def delete_before(self, offset: int) -> int:
        """DeleteRecords: nothing before `offset` can be read any more; returns the new start."""
        self._check_usable()
        if offset == HIGH_WATERMARK:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} is beyond the high watermark {self.high_watermark}.",
            )
        self._state.start_offset = max(self._state.start_offset, offset)
        return self._state.start_offset

    def delete_old_segments(self, now_ms: int) -> int:
        """Take out what retention lets go, and say how many segments. Files are removed later.

        If the active segment is over age too, it is closed now, and goes with the next call after
        a flush: the file that knows the next offset must be safe on disk first.
        """
        self._check_usable()
        if self._unflushed.entries_dirty:
            return 0  # a crash could undo the creation of what would be left
        if self._compaction is not None and not self._compaction.failed:
            return 0  # its segments must stay until it is done
        try:
            expired = expired_segments(
                self._disk, self._state, self.settings, now_ms, self.high_watermark
            )
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error
        closed = [segment for segment in expired if not segment.active]
        if closed:
            due_ms = now_ms + self.settings.file_delete_delay_ms
            take_out(self._disk, self.folder, self._state, closed, due_ms)
        if len(closed) < len(expired):
            self._roll(now_ms)
        return len(closed)

    def plan_compaction(self, now_ms: int) -> Compaction | None:
        """The compaction that is due, if any: `run` it on any thread, then apply it here."""
        self._check_usable()
        if self._is_being_rewritten():
            return None
        if not self.settings.compacted or self._last_marker_offset >= self.flushed_offset:
            return None  # a crash could still undo how the last transaction ended
        try:
            # Not the last stable offset: records may be deleted while their transaction is open.
            first_open = self._state.producers.first_open_offset
            decided = self.high_watermark if first_open is None else first_open
            work = gather_work(self._disk, self._state, self.settings, now_ms, decided)
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error
        if work is None:
            return None
        self._compaction = Compaction(self._disk, self.folder, self._state, work)
        return self._compaction

    def plan_pruning(self, gone: GoneOffsets, now_ms: int) -> Compaction | None:
        """The pruning that is worth the work, if any: `run` it on any thread, then apply it here.

        `gone` is used by that thread: it must not change.
        """
        self._check_usable()
        if self._is_being_rewritten():
            return None
        try:
            groups = gather_garbage(self._disk, self._state, self.settings, gone, self._pruned)
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error
        if not groups:
            return None
        self._compaction = Pruning(
            self._disk, self.folder, self._state, groups, gone, self.settings, now_ms
        )
        return self._compaction

    def _is_being_rewritten(self) -> bool:
        """Whether a compaction or pruning has begun and not ended; one that has is applied."""
        begun = self._compaction
        if begun is None or begun.failed:
            return False
        if begun.finished:
            self.apply_compaction(begun)
        return not begun.finished

    def apply_compaction(self, compaction: Compaction) -> None:
        """Serve from the new segments from now on; nothing to do if its run has failed.

        ApiError for a shortage: the next use of the log tries again, and is refused if it lasts.
        """
        self._check_usable()
        if compaction is self._compaction:
            if not compaction.failed:
                self._swap_in(compaction)
            self._compaction = None

    def _swap_in(self, compaction: Compaction) -> None:
        swap_in(self._disk, self.folder, self._state, compaction)
        if isinstance(compaction, Pruning):
            self._pruned |= compaction.written
            bases = {each.base_offset for each in self._segments}
            self._pruned = {at: n for at, n in self._pruned.items() if at in bases}

    def expire_producers(self, now_ms: int, max_idle_ms: int) -> None:
        """Forget producers that were idle for so long."""
        self._state.producers.expire(now_ms, max_idle_ms)

    # The rest

    def change_settings(self, settings: TopicSettings) -> None:
        """Use other settings from now on."""
        self.settings = settings

    def close(self) -> None:
        """Bring everything to the disk, in a state from which a start needs no recovery."""
        if self.quarantined is not None or self._disk.offline is not None:
            return
        if self._compaction is not None and not self._compaction.failed:
            self.apply_compaction(self._compaction)
        self._close_active()
        flush = self.begin_flush()
        if flush is not None:
            flush.sync()
            self.finish_flush(flush)
        self.release()

    def release(self) -> None:
        """Close the files. Call it before the log is deleted; it cannot be used afterwards."""
        self._state.gone = True
        for segment in self._segments:
            segment.release()

    def _check_usable(self) -> None:
        if self.quarantined is not None:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} is damaged: {self.quarantined}."
            )
        self._disk.check_online()
        if self._compaction is not None and self._compaction.swapping:
            self._swap_in(self._compaction)
            self._compaction = None

    def _unreadable(self, error: CorruptData | OSError) -> ApiError:
        if isinstance(error, OSError) and is_temporary(error):
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot read: {error.strerror}.")
        self.quarantined = str(error)
        logger.error("%s is quarantined: %s", self.partition, error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} is damaged: {error}.")
