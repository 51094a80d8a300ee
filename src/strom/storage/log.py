"""The log of one partition: append at the end, read anywhere, delete at the start.

All methods run on the event loop's thread. Only `close` waits for the disk: an append writes to the page
cache, and a flush, synced on another thread, advances the high watermark when the data is durable.
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
from strom.storage.log_retention import expired_segments, remove_segments
from strom.storage.log_state import LogState
from strom.storage.producer_state import ProducerInfo
from strom.storage.rolling import is_full, is_old
from strom.storage.segment import LogSegment
from strom.storage.snapshots import ProducerSnapshot
from strom.storage.transaction_index import AbortedTransaction
from strom.storage.validation import validate
from strom.wire.kafka.batch import BatchHeader, headers, stamp
from strom.wire.kafka.records import read_marker

logger = logging.getLogger(__name__)

HIGH_WATERMARK = -1
"""The offset in DeleteRecords that stands for the high watermark."""


class Appended(NamedTuple):
    """The offsets of an appended batch; for a duplicate those of its first copy."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    start_offset: int
    duplicate: bool


class Log:
    """The records of one partition. After damage it is `quarantined`, and rejects every request."""

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
        """Why appends are rejected for now, though the log itself is intact."""
        self._disk = disk
        state = state or LogState.nothing(disk.files, folder)
        self._state = state
        self._segments = state.segments
        self._unflushed = Unflushed(disk, folder, state)
        self._compaction: Compaction | None = None
        self._appended_before = -state.segments.active.size_bytes if state.segments else 0
        """What was appended to segments that are closed, since the log was opened."""
        self._pruned: dict[int, int] = {}
        """The number of records that segments had after pruning, by base offset."""
        self._last_marker_offset = -1
        self.end_offset = state.end_offset
        """The next offset to assign."""
        self.flushed_offset = state.end_offset
        """Everything before it is on disk."""
        self.recovery_point = (
            state.end_offset if state.recovery_point is None else state.recovery_point
        )
        """Everything before it needs no check after a crash."""
        self.high_watermark = state.end_offset
        """Consumers see records before it."""
        self._met_aborted: bool | None = None
        self._watermark_position = state.segments.active.size_bytes if state.segments else 0

    # State

    @property
    def start_offset(self) -> int:
        return self._state.start_offset

    @property
    def last_stable_offset(self) -> int:
        """All transactions before it have ended: read_committed consumers see records before it."""
        first_open = self._state.producers.first_open_offset
        if first_open is None or first_open > self.high_watermark:
            return self.high_watermark
        return max(first_open, self._state.start_offset)

    def producers(self) -> list[ProducerInfo]:
        return list(self._state.producers.producers())

    def has_producer(self, producer_id: int) -> bool:
        return producer_id in self._state.producers

    @property
    def has_open_transactions(self) -> bool:
        """Whether a transaction in this partition has not ended."""
        return self._state.producers.first_open_offset is not None

    @property
    def wants_flush(self) -> bool:
        """Whether a closed segment is not flushed: flush it even if the topic does not wait for fsync.

        Until then neither retention nor compaction nor the recovery point can advance.
        """
        return self._unflushed.entries_dirty

    @property
    def offline(self) -> DirectoryOffline | None:
        """Why the data directory is offline, None while it is online."""
        return self._disk.offline

    @property
    def size_bytes(self) -> int:
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
        """Validate one batch, assign offsets and write it; ApiError if it is rejected.

        The caller responds to its client when the high watermark has passed the last offset.
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
            self._disk.shortage.on_write_succeeded()
        if not segment.dirty:
            self._unflushed.note_segment(segment)
        self.end_offset = segment.next_offset
        if self.settings.flush == "os":
            self.high_watermark = self.end_offset
            self._watermark_position = segment.size_bytes

    def _undo_write(self, segment: LogSegment, error: OSError) -> None:
        if is_temporary(error):
            with self._disk.writing():
                segment.truncate(segment.size_bytes)
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
        """Close the active segment if it is larger than that, regardless of `segment.bytes`."""
        self._check_usable()
        if self._segments.active.size_bytes <= size_bytes:
            return False
        self._roll(now_ms)
        return True

    def roll_for_compaction(self, now_ms: int) -> bool:
        """Close the active segment if it holds at least half of the bytes that are not compacted yet.

        With less, something else keeps the closed segments from being compacted.
        """
        self._check_usable()
        size_bytes = self._segments.active.size_bytes
        if not size_bytes or 2 * size_bytes < self.dirty_bytes:
            return False
        self._roll(now_ms)
        return True

    def _roll(self, now_ms: int) -> LogSegment:
        fresh = LogSegment(self._disk, self.folder, self.end_offset, created_ms=now_ms)
        with self._disk.writing():
            self._disk.files.open(fresh.log_path, create=True).close()
        self._close_active()
        self._appended_before += self._segments.active.size_bytes
        self._segments.add(fresh)
        return fresh

    def _close_active(self) -> None:
        old = self._segments.active
        old.close()
        snapshot = ProducerSnapshot(
            self.end_offset, self._state.producers.snapshot(self.end_offset)
        )
        self._unflushed.note_closed(old, snapshot)

    # Flushing

    def begin_flush(self) -> Flush | None:
        """What to sync now, None if everything is on disk. Several flushes may be in flight."""
        self._check_usable()
        return self._unflushed.begin(self.end_offset, self.recovery_point)

    def finish_flush(self, flush: Flush) -> None:
        """Apply a synced flush: the high watermark advances to its end."""
        self._unflushed.finish(flush)
        self.flushed_offset = max(self.flushed_offset, flush.end_offset)
        if flush.complete:
            self.recovery_point = max(self.recovery_point, flush.end_offset)
        if flush.end_offset > self.high_watermark:
            self.high_watermark = flush.end_offset
            self._watermark_position = flush.segments[-1].size_bytes

    def abandon_flush(self, flush: Flush) -> None:
        """Give up a flush that could not be synced: its data stays unflushed."""
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
        """Batches from the one that holds `offset` on, up to the high watermark or last stable offset.

        At the end the chunk is empty; beyond it, or before the start: OFFSET_OUT_OF_RANGE. With
        `at_least_one` the first batch is complete even if it exceeds `max_bytes` (KIP-74).
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
        """The same for sending to a client: large ranges stay in their file, for sendfile."""
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
        """The headers of the batches that a read from an offset can return, all of one segment."""
        self._check_readable(offset)
        try:
            limit = self._limit(committed_only)
            if offset < limit.offset:
                yield from headers_from(self._state, offset, limit)
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
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
        """Whether any transaction was ever aborted here; cached, because mostly none was."""
        if self._met_aborted is None:
            try:
                self._met_aborted = any(segment.aborted for segment in self._segments)
            except CorruptData:
                self._met_aborted = True  # the read of that segment reports the damage
            except OSError:
                return True  # the read fails in the same way, and reports it
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
        """How many bytes a read from an offset can return, counted up to a limit."""
        self._check_usable()
        try:
            end = self._limit(committed_only)
            return count_bytes(self._state, offset, end, limit) if offset < end.offset else 0
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def find_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record with this or a later timestamp."""
        self._check_usable()
        try:
            return find_time(self._state, timestamp_ms, self._limit(committed_only=False))
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def find_max_timestamp(self) -> FoundOffset | None:
        """The first record with the largest timestamp."""
        self._check_usable()
        try:
            return find_largest_time(self._state, self._limit(committed_only=False))
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to the given one, and its end offset; -1, -1 if unknown."""
        self._check_usable()
        return self._state.epochs.end_of(epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of an offset; -1 if unknown."""
        return self._state.epochs.epoch_at(offset)

    # Deleting

    def delete_before(self, offset: int) -> int:
        """DeleteRecords: advance the log start offset; returns the new one."""
        self._check_usable()
        if offset == HIGH_WATERMARK:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} is not between 0 and the high watermark {self.high_watermark}.",
            )
        self._state.start_offset = max(self._state.start_offset, offset)
        return self._state.start_offset

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete expired segments; returns how many. Their files are removed later.

        If the active segment is expired too, it is closed now, and deleted by the next call after
        a flush: the new segment file, which holds the next offset in its name, must be durable first.
        """
        self._check_usable()
        if self._unflushed.entries_dirty:
            return 0  # a crash could undo the creation of the remaining segment
        if self._compaction is not None and not self._compaction.failed:
            return 0  # it reads these segments
        try:
            expired = expired_segments(
                self._disk, self._state, self.settings, now_ms, self.high_watermark
            )
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error
        closed = [segment for segment in expired if not segment.active]
        if closed:
            due_ms = now_ms + self.settings.file_delete_delay_ms
            remove_segments(self._disk, self.folder, self._state, closed, due_ms)
        if len(closed) < len(expired):
            self._roll(now_ms)
        return len(closed)

    def plan_compaction(self, now_ms: int) -> Compaction | None:
        """The compaction that is due, if any: `run` it on any thread, then call `apply_compaction`."""
        self._check_usable()
        if self._is_being_rewritten():
            return None
        if not self.settings.compacted or self._last_marker_offset >= self.flushed_offset:
            return None  # a crash could still undo the last marker
        try:
            # Not the last stable offset, which DeleteRecords moves while a transaction is open.
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
        """The pruning that is worthwhile, if any: `run` it on any thread, then call `apply_compaction`.

        `gone` is used by that thread and must not change.
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
        """Whether a compaction or pruning is running; a finished one is applied first."""
        begun = self._compaction
        if begun is None or begun.failed:
            return False
        if begun.finished:
            self.apply_compaction(begun)
        return not begun.finished

    def apply_compaction(self, compaction: Compaction) -> None:
        """Replace the old segments by the compacted ones; does nothing if the run failed.

        ApiError for a shortage: the next use of the log retries, and is rejected while it lasts.
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
        self._state.producers.expire(now_ms, max_idle_ms)

    # Settings and closing

    def change_settings(self, settings: TopicSettings) -> None:
        self.settings = settings

    def close(self) -> None:
        """Flush everything, so that the next start needs no recovery."""
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
        """Close the files, without flushing. The log cannot be used afterwards."""
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
