"""The log of one partition: append at the end, read anywhere, delete at the start.

All methods run on the event loop's thread, and none waits for the disk: an append writes to the page
cache, and a flush, synced on another thread, advances the high watermark when the data is durable.
"""

import uuid
from typing import NamedTuple

from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.model.topic_settings import TopicSettings
from strom.model.topics import TopicPartition
from strom.storage.disk import Disk
from strom.storage.files import is_temporary
from strom.storage.flush import Flush, Unflushed
from strom.storage.log_compaction import Compaction
from strom.storage.log_guard import LogGuard
from strom.storage.log_pruning import GoneOffsets
from strom.storage.log_reader import LogReader
from strom.storage.log_retention import expired_segments, remove_segments
from strom.storage.log_rewriting import Rewriting
from strom.storage.log_state import LogState
from strom.storage.producer_state import ProducerInfo
from strom.storage.rolling import is_full, is_old
from strom.storage.segment import LogSegment
from strom.storage.snapshots import ProducerSnapshot
from strom.storage.transaction_index import AbortedTransaction
from strom.storage.validation import Validated, complete, validate
from strom.wire.kafka.batch import BatchHeader, stamp
from strom.wire.kafka.records import read_marker

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
    """The records of one partition.

    A damaged batch cannot be read; damage that concerns more than a batch, or a log with state of the
    broker, makes it `quarantined`: it then rejects every request.
    """

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
        self.read_only: str | None = None
        """Why appends are rejected for now, though the log itself is intact."""
        self._disk = disk
        state = state or LogState.nothing(disk.files, folder)
        self._state = state
        self._segments = state.segments
        self._unflushed = Unflushed(disk, folder, state)
        self._rewriting = Rewriting(disk, folder, state)
        self._guard = LogGuard(disk, partition, self._rewriting, state, quarantined)
        self.reader = LogReader(state, self._guard)
        self._appended_before = -state.segments.active.size_bytes if state.segments else 0
        """What was appended to segments that are closed, since the log was opened."""
        self._last_marker_offset = -1
        self.flushed_offset = state.end_offset
        """Everything before it is on disk."""
        self.recovery_point = (
            state.end_offset if state.recovery_point is None else state.recovery_point
        )
        """Everything before it needs no check after a crash."""

    # State

    @property
    def start_offset(self) -> int:
        return self._state.start_offset

    @property
    def end_offset(self) -> int:
        """The next offset to assign."""
        return self._state.end_offset

    @property
    def high_watermark(self) -> int:
        """Consumers see records before it."""
        return self._state.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """All transactions before it have ended: read_committed consumers see records before it."""
        return self._state.last_stable_offset

    @property
    def quarantined(self) -> str | None:
        """The damage for which every request is rejected, None while the log is in use."""
        return self._guard.quarantined

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
    def damaged_offsets(self) -> int:
        """How many offsets are in the damage that was found so far."""
        return sum(
            each.next_offset - each.first_offset
            for segment in self._segments
            for each in segment.damage
        )

    @property
    def segment_count(self) -> int:
        """How many segments there are, the active one included."""
        return len(self._segments)

    @property
    def base_offsets(self) -> list[int]:
        """The base offsets of all segments; none if the log is quarantined."""
        return [] if self.quarantined else [each.base_offset for each in self._segments]

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
        at_once: bool = True,
        validated: Validated | None = None,
    ) -> Appended:
        """Validate one batch, assign offsets and write it; ApiError if it is rejected.

        `at_once=False` raises LongValidation if that takes long; then append the result of
        `validation_steps` as `validated`. The caller responds to its client when the high watermark has
        passed the last offset.
        """
        self._guard.check()
        if self.read_only is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self.read_only)
        if validated is None:
            validated = validate(
                batches, self.settings, now_ms=now_ms, from_client=from_client, at_once=at_once
            )
        else:
            validated = complete(validated, self.settings, now_ms)
        header, data = validated
        marker = read_marker(data, 0, header) if header.is_control else None
        if header.has_producer:
            seen = self._state.producers.check(header, marker, from_client=from_client)
            if seen is not None:
                return Appended(
                    seen.base_offset, seen.last_offset, seen.timestamp, self.start_offset, True
                )
        base_offset = self._state.end_offset
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
        state = self._state
        state.end_offset = segment.next_offset
        if self.settings.flush == "os":
            state.high_watermark = segment.next_offset
            state.watermark_position = segment.size_bytes

    def _undo_write(self, segment: LogSegment, error: OSError) -> None:
        if is_temporary(error):
            with self._disk.writing():
                segment.truncate(segment.size_bytes)
        raise self._disk.write_error(error) from error

    def _note_aborted(self, producer_id: int, first_offset: int, marker: BatchHeader) -> None:
        first_open = self._state.producers.first_open_offset
        stable = marker.next_offset if first_open is None else first_open
        self._state.met_aborted = True
        self._segments.active.transactions.add(
            AbortedTransaction(producer_id, first_offset, marker.last_offset, stable)
        )

    def roll_if_due(self, now_ms: int) -> bool:
        """Close the active segment if it holds records and is older than `segment.ms`."""
        self._guard.check()
        if not is_old(self._segments.active, self.settings, now_ms):
            return False
        self._roll(now_ms)
        return True

    def roll_if_larger(self, size_bytes: int, now_ms: int) -> bool:
        """Close the active segment if it is larger than that, regardless of `segment.bytes`."""
        self._guard.check()
        if self._segments.active.size_bytes <= size_bytes:
            return False
        self._roll(now_ms)
        return True

    def roll_for_compaction(self, now_ms: int) -> bool:
        """Close the active segment if it holds at least half of the bytes that are not compacted yet.

        With less, something else keeps the closed segments from being compacted.
        """
        self._guard.check()
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
        self._guard.check()
        return self._unflushed.begin(self.end_offset, self.recovery_point)

    def finish_flush(self, flush: Flush) -> None:
        """Apply a synced flush: the high watermark advances to its end."""
        self._unflushed.finish(flush)
        self.flushed_offset = max(self.flushed_offset, flush.end_offset)
        if flush.complete:
            self.recovery_point = max(self.recovery_point, flush.end_offset)
        if flush.end_offset > self.high_watermark:
            self._state.high_watermark = flush.end_offset
            self._state.watermark_position = flush.segments[-1].size_bytes

    def abandon_flush(self, flush: Flush) -> None:
        """Give up a flush that could not be synced: its data stays unflushed."""
        self._unflushed.abandon(flush)

    # Leader epochs

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to the given one, and its end offset; -1, -1 if unknown."""
        self._guard.check()
        return self._state.epochs.end_of(epoch, self.end_offset)

    def epoch_of(self, offset: int) -> int:
        """The leader epoch of an offset; -1 if unknown."""
        return self._state.epochs.epoch_at(offset)

    # Deleting

    def delete_before(self, offset: int) -> int:
        """DeleteRecords: advance the log start offset; returns the new one."""
        self._guard.check()
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
        self._guard.check()
        if self._unflushed.entries_dirty:
            return 0  # a crash could undo the creation of the remaining segment
        if self._rewriting.is_reading:
            return 0  # it reads these segments
        expired = self._guard.run(
            lambda: expired_segments(
                self._disk, self._state, self.settings, now_ms, self.high_watermark
            )
        )
        closed = [segment for segment in expired if not segment.active]
        if closed:
            due_ms = now_ms + self.settings.file_delete_delay_ms
            remove_segments(self._disk, self.folder, self._state, closed, due_ms)
        if len(closed) < len(expired):
            self._roll(now_ms)
        return len(closed)

    def plan_compaction(self, now_ms: int) -> Compaction | None:
        """The compaction that is due, if any: `run` it on any thread, then call `apply_compaction`."""
        self._guard.check()
        if self._rewriting.is_running():
            return None
        if not self.settings.compacted or self._last_marker_offset >= self.flushed_offset:
            return None  # a crash could still undo the last marker
        # Not the last stable offset, which DeleteRecords moves while a transaction is open.
        first_open = self._state.producers.first_open_offset
        decided = self.high_watermark if first_open is None else first_open
        return self._guard.run(
            lambda: self._rewriting.plan_compaction(self.settings, now_ms, decided)
        )

    def plan_pruning(self, gone: GoneOffsets, now_ms: int) -> Compaction | None:
        """The pruning that is worthwhile, if any: `run` it on any thread, then call `apply_compaction`.

        `gone` is used by that thread and must not change.
        """
        self._guard.check()
        if self._rewriting.is_running():
            return None
        with self._guard:
            return self._rewriting.plan_pruning(self.settings, gone, now_ms)

    def apply_compaction(self, compaction: Compaction) -> None:
        """Replace the old segments by the compacted ones; does nothing if the run failed.

        ApiError for a shortage: the next use of the log retries, and is rejected while it lasts.
        """
        self._guard.check()
        self._rewriting.apply(compaction)

    def expire_producers(self, now_ms: int, max_idle_ms: int) -> None:
        self._state.producers.expire(now_ms, max_idle_ms)

    # Settings and closing

    def change_settings(self, settings: TopicSettings) -> None:
        self.settings = settings

    def begin_close(self) -> Flush | None:
        """The flush after which the next start needs no recovery; None if the log cannot be flushed.

        Sync it on any thread, then call `finish_close`, or `abandon_flush` if it failed.
        """
        if self.quarantined is not None or self._disk.offline is not None:
            return None
        self._rewriting.apply_begun()
        self._close_active()
        return self.begin_flush()

    def finish_close(self, flush: Flush) -> None:
        """Apply the synced flush, and close the files."""
        self.finish_flush(flush)
        self.release()

    def release(self) -> None:
        """Close the files, without flushing. The log cannot be used afterwards."""
        self._state.gone = True
        for segment in self._segments:
            segment.release()
