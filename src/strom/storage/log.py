"""The log of one partition: written at its end, read from anywhere, dropped at its start.

All methods belong to the event loop's thread, but for those that say: any thread. Nothing here
waits for the disk except `close`: an append hands its bytes to the operating system, and a flush,
synced on another thread, moves the high watermark up to where they are safe.
"""

import logging
import uuid
from typing import NamedTuple

from crc32c import crc32c

from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.model.settings import INT_MAX
from strom.model.topic_settings import TopicSettings
from strom.model.topics import TopicPartition
from strom.storage.disk import Disk, Garbage
from strom.storage.files import is_temporary
from strom.storage.flush import DirtySegment, Flush
from strom.storage.folder import delete_segment_files
from strom.storage.log_reading import (
    NOTHING,
    Chunk,
    FoundOffset,
    Limit,
    aborted_between,
    count_bytes,
    find_largest_time,
    find_time,
    read_chunk,
)
from strom.storage.log_state import LogState
from strom.storage.retention import SegmentFacts, segments_to_delete
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
        self._disk = disk
        if state is None:
            state = LogState.nothing(disk.files, folder)
        self._state = state
        self._segments = state.segments
        self.end_offset = state.end_offset
        self.flushed_offset = state.end_offset
        self.high_watermark = state.end_offset
        self._watermark_position = 0 if quarantined else state.segments.active.size_bytes
        self._dirty: list[Segment] = []
        self._entries_version = self._entries_synced = 0
        self._epochs_saved = state.epochs.version
        self._pending_snapshots: list[Snapshot] = []

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

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return sum(segment.size_bytes for segment in self._segments)

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
        header, data = validate(batches, self.settings, now_ms=now_ms, from_client=from_client)
        marker = read_marker(data, 0, header) if header.is_control else None
        if header.has_producer:
            seen = self._state.producers.check(header, marker, from_client=from_client)
            if seen is not None:
                return Appended(
                    seen.base_offset, seen.last_offset, seen.timestamp, self.start_offset, True
                )
        base_offset = self.end_offset
        header = header._replace(base_offset=base_offset, leader_epoch=leader_epoch)
        stamp(data, 0, base_offset, leader_epoch)
        self._write(data, header, now_ms)
        state = self._state
        if leader_epoch != state.epochs.latest:
            state.epochs.assign(leader_epoch, base_offset)
        if header.has_producer:
            completed = state.producers.update(header, marker)
            if completed is not None and completed.aborted:
                self._note_aborted(completed.producer_id, completed.first_offset, header)
        append_time_ms = now_ms if header.has_append_time else -1
        return Appended(base_offset, header.last_offset, append_time_ms, state.start_offset, False)

    def _write(self, data: bytearray | memoryview, header: BatchHeader, now_ms: int) -> None:
        segment = self._segments.active
        if self._is_full(segment, header, len(data), now_ms):
            segment = self._roll(now_ms)
        elif not segment.size_bytes:
            segment.created_ms = now_ms
        try:
            segment.append(data, header, self.settings.index_interval_bytes)
        except OSError as error:
            self._undo_write(segment, error)
        if not segment.dirty:
            segment.dirty = True
            self._dirty.append(segment)
        self.end_offset = segment.next_offset
        if not self.settings.durable:
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
        self._segments.active.note_aborted(
            AbortedTransaction(producer_id, first_offset, marker.last_offset, stable)
        )

    def _is_full(self, segment: Segment, header: BatchHeader, size: int, now_ms: int) -> bool:
        if not segment.size_bytes:
            return False
        settings = self.settings
        if segment.size_bytes + size > settings.segment_bytes:
            return True
        if header.last_offset - segment.base_offset > INT_MAX:
            return True
        if segment.offset_index.size_bytes >= settings.segment_index_bytes:
            return True
        if segment.first_timestamp >= 0:
            waited_ms = header.max_timestamp - segment.first_timestamp
        else:
            waited_ms = now_ms - segment.created_ms
        return waited_ms > settings.segment_ms - self._jitter_ms(segment)

    def _jitter_ms(self, segment: Segment) -> int:
        most = self.settings.segment_jitter_ms
        return crc32c(segment.log_path.encode()) % (most + 1) if most else 0

    def roll_if_due(self, now_ms: int) -> bool:
        """Close the active segment if it holds records and is older than `segment.ms`."""
        self._check_usable()
        segment = self._segments.active
        due_ms = segment.created_ms + self.settings.segment_ms - self._jitter_ms(segment)
        if not segment.size_bytes or now_ms <= due_ms:
            return False
        self._roll(now_ms)
        return True

    def _roll(self, now_ms: int) -> Segment:
        state = self._state
        fresh = Segment(self._disk, self.folder, self.end_offset, created_ms=now_ms)
        with self._disk.writing():
            self._disk.open_files.create(fresh.log_path)
        old = self._segments.active
        old.close()
        if not old.dirty:
            old.dirty = True  # its indexes are yet to be saved
            self._dirty.append(old)
        self._entries_version += 1
        snapshot = state.producers.snapshot(self.end_offset)
        self._pending_snapshots.append(Snapshot(self.end_offset, snapshot))
        self._segments.add(fresh)
        return fresh

    # Flushing

    def begin_flush(self) -> Flush | None:
        """What is to be synced now, None if all is on disk. Several may be under way."""
        self._check_usable()
        epochs = self._state.epochs
        entries_dirty = self._entries_version != self._entries_synced
        if not self._dirty and not entries_dirty and epochs.version == self._epochs_saved:
            return None
        open_files = self._disk.open_files
        try:
            dirty = [
                DirtySegment(
                    segment,
                    segment.size_bytes,
                    not segment.active,
                    open_files.pin(segment.log_path),
                )
                for segment in self._dirty
            ]
        except OSError as error:
            raise self._disk.write_error(error) from error
        changed = epochs.version != self._epochs_saved
        return Flush(
            self._disk,
            self.folder,
            self.end_offset,
            dirty,
            entries_version=self._entries_version if entries_dirty or changed else None,
            epochs=(epochs.version, epochs.encode()) if changed else None,
            snapshots=(self._state.snapshots, self._pending_snapshots[:]),
        )

    def finish_flush(self, flush: Flush) -> None:
        """Everything in a flush is on disk: the high watermark moves up to it."""
        for dirty in flush.segments:
            self._disk.open_files.unpin(dirty.open_file)
            segment = dirty.segment
            if dirty.closed:
                segment.indexes_saved = True
                self._disk.note_loaded(segment)
            if segment.dirty and dirty.size_bytes == segment.size_bytes:
                segment.dirty = segment.active == dirty.closed
        self._dirty = [segment for segment in self._dirty if segment.dirty]
        if flush.entries_version is not None:
            self._entries_synced = max(self._entries_synced, flush.entries_version)
        if flush.epochs is not None:
            self._epochs_saved = max(self._epochs_saved, flush.epochs[0])
        self._pending_snapshots = [
            snapshot for snapshot in self._pending_snapshots if snapshot.offset > flush.end_offset
        ]
        self.flushed_offset = max(self.flushed_offset, flush.end_offset)
        if flush.end_offset > self.high_watermark:
            self.high_watermark = flush.end_offset
            if flush.segments:
                self._watermark_position = flush.segments[-1].size_bytes

    def abandon_flush(self, flush: Flush) -> None:
        """A flush could not be synced: all that it held is still to be flushed."""
        for dirty in flush.segments:
            self._disk.open_files.unpin(dirty.open_file)

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
        self._check_usable()
        if not self.start_offset <= offset <= self.end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} is not within {self.start_offset} and {self.end_offset}.",
            )
        try:
            limit = self._limit(committed_only)
            if offset >= limit.offset:
                return NOTHING
            data = read_chunk(self._state, offset, max_bytes, limit, at_least_one=at_least_one)
            if not committed_only or not data:
                return Chunk(data)
            return Chunk(data, self._aborted_in(data, offset))
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error

    def _aborted_in(self, data: bytes, offset: int) -> tuple[AbortedTransaction, ...]:
        end = offset + 1
        for _, header in headers(data):
            end = header.next_offset
        return tuple(aborted_between(self._state, offset, end))

    def _limit(self, committed_only: bool) -> Limit:
        watermark = Limit(self.high_watermark, self._watermark_position)
        if not committed_only:
            return watermark
        stable = self.last_stable_offset
        if stable == watermark.offset:
            return watermark
        segment = self._segments.at(self._segments.holding(stable))
        span = segment.locate(stable) if segment else None
        return Limit(stable, span.position if span else 0)

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
        try:
            doomed = self._doomed(now_ms)
        except (CorruptData, OSError) as error:
            raise self._unreadable(error) from error
        if doomed and doomed[-1].active:
            self._roll(now_ms)
        if self._entries_version != self._entries_synced or not doomed:
            return 0
        paths = []
        with self._disk.writing():
            for segment in doomed:
                self._disk.open_files.forget(segment.log_path)
                self._disk.note_unloaded(segment)
                paths.extend(delete_segment_files(self._disk.files, segment.stem))
                self._segments.remove(segment)
                self._state.start_offset = max(self._state.start_offset, segment.next_offset)
        due_ms = now_ms + self.settings.file_delete_delay_ms
        self._disk.remove_later(Garbage(self.folder, paths, due_ms))
        return len(doomed)

    def _doomed(self, now_ms: int) -> list[Segment]:
        facts = [
            SegmentFacts(
                segment.base_offset,
                segment.next_offset,
                segment.size_bytes,
                segment.largest_timestamp,
                self._disk.files.modified_ms(segment.log_path),
                segment.active,
            )
            for segment in self._segments
        ]
        chosen = segments_to_delete(
            facts,
            now_ms=now_ms,
            settings=self.settings,
            high_watermark=self.high_watermark,
            log_start_offset=self.start_offset,
        )
        return list(self._segments)[: len(chosen)]

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
        active = self._segments.active
        active.close()
        if not active.dirty:
            active.dirty = True
            self._dirty.append(active)
        self._entries_version += 1
        snapshot = self._state.producers.snapshot(self.end_offset)
        self._pending_snapshots.append(Snapshot(self.end_offset, snapshot))
        flush = self.begin_flush()
        if flush is not None:
            flush.sync()
            self.finish_flush(flush)
        self.release_files()

    def release_files(self) -> None:
        """Close the files; the log cannot be used afterwards."""
        for segment in self._segments:
            self._disk.open_files.forget(segment.log_path)
            self._disk.note_unloaded(segment)

    def _check_usable(self) -> None:
        if self.quarantined is not None:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} is damaged: {self.quarantined}."
            )
        self._disk.check_online()

    def _unreadable(self, error: CorruptData | OSError) -> ApiError:
        if isinstance(error, OSError) and is_temporary(error):
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot read: {error.strerror}.")
        self.quarantined = str(error)
        logger.error("%s is quarantined: %s", self.partition, error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} is damaged: {error}.")
