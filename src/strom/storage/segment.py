"""A segment: one file of record batches, named by its base offset, and its indexes.

The last segment of a log is *active*: it is appended to, and its indexes are in memory. The flush after
it is closed saves them; from then on they are loaded on demand and evicted. Indexes are only hints:
the batch that an entry points to is checked, and a wrong index is rebuilt.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.model.settings import INT_MAX
from strom.storage.batch_walk import DamagedBatch, walk_headers
from strom.storage.checksummed import CHECKSUM_BYTES
from strom.storage.damage import DamagedRange, skip_damage
from strom.storage.disk import Disk
from strom.storage.files import File, read_file, write_file
from strom.storage.offset_index import ENTRY_BYTES, OffsetIndex
from strom.storage.region import Region
from strom.storage.time_index import TimeIndex
from strom.storage.transaction_index import TransactionIndex
from strom.wire.kafka.batch import (
    HEADER_BYTES,
    NO_TIMESTAMP,
    SPAN_BYTES,
    BatchHeader,
    Buffer,
    has_valid_checksum,
    read_header,
    read_span,
)

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

_SEARCH_WINDOW = 8 * 1024


class BatchSpan(NamedTuple):
    """The location of a batch: its offsets (`next_offset` is the one after it) and its bytes."""

    base_offset: int
    next_offset: int
    position: int
    size_bytes: int


class DamagedSegment(DamagedBatch):
    """Damage at a position of a segment's file."""

    def __init__(self, segment: "LogSegment", position: int, reason: str) -> None:
        super().__init__(position, f"{segment.log_path} {reason}")
        self.segment = segment


class LogSegment:
    """A file of batches with ascending offsets, and its indexes."""

    def __init__(self, disk: Disk, folder: str, base_offset: int, *, created_ms: int) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size_bytes = 0
        self.created_ms = created_ms
        self.first_timestamp = NO_TIMESTAMP
        self.active = True
        self.dirty = False
        """Whether it holds unflushed data."""
        self.indexes_saved = False
        self.trusted_from = 0
        """Bytes from here on were written or verified by this process."""
        self.stem = f"{folder}/{base_offset:020d}"
        self.log_path = self.stem + LOG_SUFFIX
        self._disk = disk
        self._offsets: OffsetIndex | None = OffsetIndex()
        self._times: TimeIndex | None = TimeIndex()
        self.transactions = TransactionIndex(
            disk.files, self.stem + TRANSACTION_INDEX_SUFFIX, base_offset
        )
        self._last_base = self._last_next = -1
        self._last_position = 0
        self._unindexed_bytes = 0
        self._largest_timestamp: int | None = NO_TIMESTAMP
        self._largest_timestamp_base = base_offset
        self._checked_from = self._checked_to = 0
        self.damage: list[DamagedRange] = []
        """The damage that was found so far, ascending; readers skip it."""

    @classmethod
    def closed(
        cls,
        disk: Disk,
        folder: str,
        base_offset: int,
        next_offset: int,
        *,
        created_ms: int,
        has_transaction_index: bool = True,
    ) -> "LogSegment":
        """A segment that an earlier run has closed; its indexes are loaded on demand."""
        segment = cls(disk, folder, base_offset, created_ms=created_ms)
        segment.size_bytes = segment.trusted_from = disk.files.size(segment.log_path)
        segment.next_offset = next_offset
        segment.active = False
        segment.indexes_saved = True
        segment._largest_timestamp = None
        segment.transactions.use_saved(must_exist=has_transaction_index)
        segment.transactions.next_offset = next_offset
        segment.unload()
        return segment

    @classmethod
    def resumed(
        cls,
        disk: Disk,
        folder: str,
        base_offset: int,
        index_interval: int,
        *,
        created_ms: int,
        has_transaction_index: bool,
    ) -> "LogSegment":
        """The active segment of a clean stop; CorruptData if its files are inconsistent."""
        segment = cls.closed(
            disk,
            folder,
            base_offset,
            base_offset,
            created_ms=created_ms,
            has_transaction_index=has_transaction_index,
        )
        segment._offsets = OffsetIndex.decode(
            read_file(disk.files, segment.stem + OFFSET_INDEX_SUFFIX), segment.size_bytes
        )
        segment._times = TimeIndex.decode(read_file(disk.files, segment.stem + TIME_INDEX_SUFFIX))
        segment.transactions.next_offset = None
        segment.transactions.replace(segment.transactions.read())
        segment.active = True
        segment._resume(index_interval)
        segment.indexes_saved = False
        return segment

    def _resume(self, index_interval: int) -> None:
        end = self.size_bytes
        entry, largest = self.offset_index.last(), self.time_index.last()
        if largest is not None:
            self._largest_timestamp = largest.timestamp
            self._largest_timestamp_base = self.base_offset + largest.relative_offset
        else:
            self._largest_timestamp = NO_TIMESTAMP
        self.size_bytes = entry.position if entry else 0
        for _, header in self.headers(self.size_bytes, end):
            self.note(header, header.size_bytes, index_interval)
        if end:
            self.first_timestamp = next(self.headers(0, end))[1].max_timestamp

    # Writing

    def append(self, data: Buffer, header: BatchHeader, index_interval: int) -> None:
        """Append one batch that has its offsets, and index it."""
        self._disk.open_files.get(self, self.log_path).append(data)
        self.note(header, len(data), index_interval)

    def note(self, header: BatchHeader, size_bytes: int, index_interval: int) -> None:
        """Index a batch at the end of the file."""
        position = self.size_bytes
        base_offset = header.base_offset
        if not position:
            self.first_timestamp = header.max_timestamp
        if header.max_timestamp > self._largest_timestamp:  # type: ignore[operator]
            self._largest_timestamp = header.max_timestamp
            self._largest_timestamp_base = base_offset
        if self._unindexed_bytes > index_interval:
            self.offset_index.add(base_offset - self.base_offset, position)
            self._note_largest_timestamp()
            self._unindexed_bytes = 0
        self._unindexed_bytes += size_bytes
        self._last_base = base_offset
        self._last_position = position
        self.next_offset = self._last_next = base_offset + header.last_offset_delta + 1
        self.size_bytes = position + size_bytes

    def note_damage(self, damage: DamagedRange) -> None:
        """Skip damage at the end of what is indexed so far."""
        self.damage.append(damage)
        self.size_bytes, self.next_offset = damage.end, damage.next_offset
        self._last_base = -1

    def _note_largest_timestamp(self) -> None:
        largest = self._largest_timestamp
        if largest is not None and largest != NO_TIMESTAMP:
            self.time_index.add(largest, self._largest_timestamp_base - self.base_offset)

    def close(self) -> None:
        """Close the segment for appends; the next flush saves the indexes."""
        self._note_largest_timestamp()
        self.active = False
        self.indexes_saved = False
        self.transactions.next_offset = self.next_offset

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file, to remove what a failed write has left."""
        self._disk.open_files.get(self, self.log_path).truncate(size_bytes)

    def save_indexes(self, suffix: str = "") -> None:
        """Write the indexes to the disk; any thread, once the segment is closed."""
        files = self._disk.files
        write_file(files, self.stem + OFFSET_INDEX_SUFFIX + suffix, self.offset_index.encode())
        write_file(files, self.stem + TIME_INDEX_SUFFIX + suffix, self.time_index.encode())
        self.transactions.save(suffix)

    # Indexes

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offsets is None:
            try:
                data = read_file(self._disk.files, self.stem + OFFSET_INDEX_SUFFIX)
                self._offsets = OffsetIndex.decode(data, self.size_bytes)
                self._disk.note_loaded(self)
            except (CorruptData, FileNotFoundError):
                self.rebuild_indexes()
        return self._offsets  # type: ignore[return-value]

    @property
    def time_index(self) -> TimeIndex:
        if self._times is None:
            try:
                self._times = TimeIndex.decode(
                    read_file(self._disk.files, self.stem + TIME_INDEX_SUFFIX)
                )
                self._disk.note_loaded(self)
            except (CorruptData, FileNotFoundError):
                self.rebuild_indexes()
        return self._times  # type: ignore[return-value]

    def release(self) -> None:
        """Close the file and unload the indexes: the segment leaves the log."""
        self._disk.open_files.forget(self)
        self._disk.note_unloaded(self)

    def unload(self) -> None:
        """Evict what can be read or rebuilt from the disk."""
        self._offsets = self._times = None
        if not self.active:
            self.transactions.unload()

    def rebuild_indexes(self) -> None:
        """Rebuild the offset and time index from the batches, in memory."""
        fresh = LogSegment(self._disk, self.stem.rpartition("/")[0], self.base_offset, created_ms=0)
        interval = 4096
        for at, header in self.headers():
            fresh.size_bytes = at
            fresh.note(header, header.size_bytes, interval)
        fresh._note_largest_timestamp()
        self._offsets, self._times = fresh._offsets, fresh._times
        self._largest_timestamp = fresh._largest_timestamp
        self._disk.note_loaded(self)

    # Reading

    def file(self) -> File:
        return self._disk.open_files.get(self, self.log_path)

    def headers(
        self, position: int = 0, end: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        """The positions and headers of the batches from a position on, without known damage."""
        end = self.size_bytes if end is None else end
        expected = self.base_offset
        bound = self.base_offset + INT_MAX + 1 if self.active else self.next_offset
        try:
            for at, header in walk_headers(self.file(), position, end, self.damage):
                if not expected <= header.base_offset < header.next_offset <= bound:
                    raise DamagedBatch(at, "the offsets are not in order")
                expected = header.next_offset
                yield at, header
        except DamagedBatch as damage:
            raise DamagedSegment(self, damage.position, f"is damaged: {damage.reason}") from damage

    def read(self, position: int, length: int) -> bytes:
        """Bytes of the log file; CorruptData if it was truncated."""
        data = self.file().pread(length, position)
        if len(data) != length:
            raise DamagedSegment(self, position, "was truncated")
        return data

    @property
    def can_be_pinned(self) -> bool:
        """Whether its file may be pinned for a client: all clients together get half of the pool."""
        return not self._disk.open_files.is_crowded

    def region(self, position: int, length: int) -> Region:
        """A range of the log file, for sendfile."""
        return Region(self._disk.open_files, self, position, length)

    def locate(self, offset: int) -> BatchSpan | None:
        """The batch that holds an offset, else the first one after it, else None."""
        for each in self.damage:
            if offset in each:
                reason = f"has a damaged batch at offset {each.first_offset}"
                raise DamagedSegment(self, each.position, reason)
        if 0 <= self._last_base <= offset:
            if offset >= self._last_next:
                return None  # compaction may have left a gap before the next segment
            size = self.size_bytes - self._last_position
            return BatchSpan(self._last_base, self._last_next, self._last_position, size)
        entry = self.offset_index.floor(offset - self.base_offset)
        if entry is None:
            return self._search(0, self.base_offset, offset)
        expected = self.base_offset + entry.relative_offset
        try:
            if read_span(self.read(entry.position, SPAN_BYTES))[0] == expected:
                return self._search(entry.position, expected, offset)
        except CorruptData:
            pass  # a wrong index or damaged data: the search from the start of the file decides
        self.rebuild_indexes()
        return self._search(0, self.base_offset, offset)

    def position_from(self, offset: int) -> int:
        """The end of all batches before an offset."""
        for each in self.damage:
            if offset in each:
                return each.position
        span = self.locate(offset)
        return self.size_bytes if span is None else span.position

    def _search(self, position: int, expected: int, offset: int) -> BatchSpan | None:
        window, at = b"", 0
        while position < self.size_bytes:
            if self.damage and (after := skip_damage(self.damage, position)) != position:
                window, at, position = b"", 0, after
                continue
            if at + SPAN_BYTES > len(window):
                length = min(_SEARCH_WINDOW, self.size_bytes - position)
                window, at = self.read(position, length), 0
                if length < SPAN_BYTES:
                    raise DamagedSegment(self, position, "ends within a batch")
            base_offset, next_offset, size_bytes = read_span(window, at)
            ordered = expected <= base_offset < next_offset <= self.next_offset
            if not ordered or size_bytes < HEADER_BYTES:
                raise DamagedSegment(self, position, "has no batch")
            if next_offset > offset:
                return BatchSpan(base_offset, next_offset, position, size_bytes)
            position += size_bytes
            at += size_bytes
            expected = next_offset
        return None

    def stored_end(self, *, verify: bool = False) -> int:
        """The offset after the last batch of a closed segment, read from the end of its file.

        CorruptData if the last batch does not end at the end of the file, or with `verify` if its
        checksum is invalid.
        """
        start, next_offset = self._last_indexed(), self.base_offset
        for at, header in self.headers(start):
            next_offset = header.next_offset
            if verify and at + header.size_bytes == self.size_bytes:
                self.verify(at, header, self.read(at, header.size_bytes))
        return max([next_offset, *(each.next_offset for each in self.damage)])

    def _last_indexed(self) -> int:
        """Position of the last entry of the saved offset index, 0 unless it points to its batch."""
        path = self.stem + OFFSET_INDEX_SUFFIX
        try:
            file = self._disk.files.open(path)
        except FileNotFoundError:
            return 0
        try:
            at = file.size() - ENTRY_BYTES - CHECKSUM_BYTES
            data = file.pread(ENTRY_BYTES, at) if at >= 0 else b""
        finally:
            file.close()
        if len(data) != ENTRY_BYTES:
            return 0
        relative_offset, position = struct.unpack(">II", data)
        if position + SPAN_BYTES > self.size_bytes:
            return 0
        found = read_span(self.read(position, SPAN_BYTES))[0]
        return position if found == self.base_offset + relative_offset else 0

    def position_bounds(self, offset: int) -> tuple[int, int]:
        """The range of positions in which the batch with an offset begins, by the index."""
        if 0 <= self._last_base <= offset:
            position = self._last_position if offset < self._last_next else self.size_bytes
            return position, position
        relative = offset - self.base_offset
        entry = self.offset_index.floor(relative)
        above = self.offset_index.position_after(relative)
        return (entry.position if entry else 0, self.size_bytes if above is None else above)

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp, -1 without one; verified, because retention deletes by it."""
        if self._largest_timestamp is None:
            self._largest_timestamp = self._verify_largest_timestamp()
        return self._largest_timestamp

    def _verify_largest_timestamp(self) -> int:
        entry = self.time_index.last()
        if entry is not None and self.is_damaged(self.base_offset + entry.relative_offset):
            return entry.timestamp  # the index has a checksum of its own
        if entry is not None:
            span = self.locate(self.base_offset + entry.relative_offset)
            if span is not None and span.position + span.size_bytes <= self.size_bytes:
                data = self.read(span.position, span.size_bytes)
                header = read_header(data)
                if not has_valid_checksum(data, 0, header):
                    raise DamagedSegment(
                        self, span.position, "has a batch with an invalid checksum"
                    )
                if header.max_timestamp == entry.timestamp:
                    return entry.timestamp
        self.rebuild_indexes()
        last = self.time_index.last()
        return last.timestamp if last else NO_TIMESTAMP

    # Damage

    def verify(self, position: int, header: BatchHeader, data: Buffer) -> None:
        """CorruptData if the checksum of a batch does not match."""
        if not has_valid_checksum(data, 0, header):
            raise DamagedSegment(self, position, "has a batch with an invalid checksum")

    def damage_after(self, position: int) -> list[int]:
        """Where known damage after a position begins."""
        return [each.position for each in self.damage if each.position > position]

    def is_damaged(self, offset: int) -> bool:
        """Whether an offset is in known damage."""
        return any(offset in each for each in self.damage)

    def add_damage(self, damage: DamagedRange) -> None:
        """Have readers skip damage from now on."""
        self.damage = sorted([*self.damage, damage])
        self._last_base = -1

    # Verified ranges

    def is_checked(self, position: int, end: int) -> bool:
        """Whether the checksums of all batches between two positions are verified."""
        if position >= self.trusted_from:
            return True
        end = min(end, self.trusted_from)
        return self._checked_from <= position and end <= self._checked_to

    def note_checked(self, position: int, end: int) -> None:
        """Record a verified range, merged with the previous one if they touch."""
        if self._checked_from <= position <= self._checked_to:
            self._checked_to = max(self._checked_to, end)
        else:
            self._checked_from, self._checked_to = position, end
