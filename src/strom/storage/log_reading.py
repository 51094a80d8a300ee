"""Reading a log by offset and by timestamp.

Bytes that this process neither wrote nor verified have their checksums verified once before they are
served. An index entry is never trusted without reading the batch that it points to.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from strom.model.errors import CorruptData, MalformedRecords
from strom.model.steps import Steps
from strom.storage.log_state import LogState
from strom.storage.region import Region
from strom.storage.replay import rebuild_aborted
from strom.storage.segment import BatchSpan, DamagedSegment, LogSegment
from strom.storage.transaction_index import AbortedTransaction
from strom.storage.validation import RECORDS_PER_STEP, is_long
from strom.wire.kafka.batch import MAGIC, NO_TIMESTAMP, BatchHeader, has_valid_checksum, headers
from strom.wire.kafka.records import body_steps, key_slices, read_body

logger = logging.getLogger(__name__)

T = TypeVar("T")

LAZY_FROM = 64 * 1024
"""Smaller reads go through memory, which is cheaper than sendfile."""
HEADERS_PER_STEP = 500
"""Batches that a search by time looks at before it pauses."""
HEADERS_PER_SEGMENT = 100
"""A segment counts like this many batches: its time index may have to be read and verified first."""
EAGER_AT_MOST = 1024 * 1024
"""The limit of a read that cannot use sendfile because its checksums must be verified first."""


class Chunk(NamedTuple):
    """Batches as on disk; the last one may be truncated, the first never is."""

    data: bytes
    aborted: tuple[AbortedTransaction, ...] = ()


class LazyChunk(NamedTuple):
    """A chunk for sending: the bytes may still be in their file."""

    data: bytes | Region
    aborted: tuple[AbortedTransaction, ...] = ()


class FoundOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class Limit(NamedTuple):
    """The end of a read: an offset, and its position in its segment's file."""

    offset: int
    position: int

    def position_in(self, segment: LogSegment) -> int:
        """The end of the readable bytes of a segment."""
        return segment.size_bytes if segment.next_offset <= self.offset else self.position


NOTHING = Chunk(b"")


def read_chunk(
    state: LogState, offset: int, max_bytes: int, limit: Limit, *, at_least_one: bool
) -> bytes:
    """Batches from the one that holds an offset on, all from one segment."""
    found = _find(state, offset, limit)
    if found is None:
        return b""
    length = _length(*found, max_bytes, limit, at_least_one)
    return _read(state, *found, length) if length else b""


def read_lazily(
    state: LogState, offset: int, max_bytes: int, limit: Limit, *, at_least_one: bool
) -> bytes | Region:
    """The same, but left in the file if that is worthwhile and the checksums are verified."""
    found = _find(state, offset, limit)
    if found is None:
        return b""
    segment, first = found
    length = _length(segment, first, max_bytes, limit, at_least_one)
    if not length:
        return b""
    may_stay = length >= LAZY_FROM and segment.can_be_pinned
    if may_stay and segment.is_checked(first.position, first.position + length):
        return segment.region(first.position, length)
    return _read(state, segment, first, max(first.size_bytes, min(length, EAGER_AT_MOST)))


def headers_from(state: LogState, offset: int, limit: Limit) -> Iterator[BatchHeader]:
    """The headers of the batches that `read_chunk` would read from."""
    found = _find(state, offset, limit)
    if found is not None:
        segment, first = found
        for _, header in segment.headers(first.position, _readable_end(segment, first, limit)):
            yield header


def _find(state: LogState, offset: int, limit: Limit) -> tuple[LogSegment, BatchSpan] | None:
    """The batch that holds an offset, or the next one before the limit."""
    place = state.segments.holding(offset)
    while (segment := state.segments.at(place)) is not None and segment.base_offset < limit.offset:
        span = segment.locate(offset)
        if (span is None or span.base_offset > offset) and not _may_jump(state, segment, offset):
            position = segment.size_bytes if span is None else span.position
            raise DamagedSegment(segment, position, f"does not hold offset {offset}")
        if span is not None and span.base_offset < limit.offset:
            return segment, span
        place += 1
    return None


def _may_jump(state: LogState, segment: LogSegment, offset: int) -> bool:
    """Whether compaction may have removed an offset, here or in the segment before."""
    return state.may_have_gaps(segment.base_offset) or offset < segment.base_offset


def _length(
    segment: LogSegment, first: BatchSpan, max_bytes: int, limit: Limit, at_least_one: bool
) -> int:
    """How many bytes to read from a batch on; 0 if the batch itself exceeds `max_bytes`."""
    available = _readable_end(segment, first, limit) - first.position
    if first.size_bytes > available:
        raise DamagedSegment(segment, first.position, "has a batch that exceeds the segment")
    if first.size_bytes > max_bytes and not at_least_one:
        return 0
    return min(available, max(max_bytes, first.size_bytes))


def _readable_end(segment: LogSegment, first: BatchSpan, limit: Limit) -> int:
    """The end of the readable bytes from a batch on; a chunk must not extend into damage."""
    return min([limit.position_in(segment), *segment.damage_after(first.position)])


def _read(state: LogState, segment: LogSegment, first: BatchSpan, length: int) -> bytes:
    data = segment.read(first.position, length)
    if not segment.is_checked(first.position, first.position + length):
        _check(state, segment, first, data)
    return data


def _check(state: LogState, segment: LogSegment, first: BatchSpan, data: bytes) -> None:
    expected = first.base_offset
    end = 0
    try:
        for at, header in headers(data):
            problem = _problem(state, segment, expected, data, at, header)
            if problem is not None:
                raise DamagedSegment(segment, first.position + at, f"has a batch with {problem}")
            expected = header.next_offset
            end = at + header.size_bytes
    except DamagedSegment:
        raise
    except CorruptData as damage:
        raise DamagedSegment(segment, first.position + end, f"is damaged: {damage}") from damage
    segment.note_checked(first.position, first.position + end)


def _problem(
    state: LogState,
    segment: LogSegment,
    expected: int,
    data: bytes,
    at: int,
    header: BatchHeader,
) -> str | None:
    gap = header.base_offset - expected
    if gap < 0 or (gap and not state.may_have_gaps(segment.base_offset)):
        return "an invalid offset"
    if header.magic != MAGIC or not has_valid_checksum(data, at, header):
        return "an invalid checksum"
    if header.leader_epoch != state.epochs.epoch_at(header.base_offset):
        return "an invalid leader epoch"
    return None


def count_bytes(state: LogState, offset: int, limit: Limit, at_most: int) -> int:
    """How many bytes are between an offset and the limit; stops counting at `at_most`."""
    count = 0
    for segment in state.segments.since(offset):
        if count >= at_most or segment.base_offset >= limit.offset:
            break
        end = limit.position_in(segment)
        if segment.base_offset >= offset:
            count += end
            continue
        _, surely_after = segment.position_bounds(offset)
        if end - surely_after >= at_most:
            return at_most
        span = segment.locate(offset)
        if span is not None:
            count += max(0, end - span.position)
    return min(count, at_most)


def aborted_between(state: LogState, start: int, end: int) -> Iterator[AbortedTransaction]:
    for segment in state.segments.since(start):
        for transaction in _aborted_in(state, segment):
            if transaction.last_offset >= start and transaction.first_offset < end:
                yield transaction
            if transaction.last_stable_offset >= end:
                return


def _aborted_in(state: LogState, segment: LogSegment) -> list[AbortedTransaction]:
    try:
        return segment.transactions.aborted
    except CorruptData as damage:
        logger.warning("%s: rebuilding it from the log", damage)
        rebuild_aborted(state, [segment])
        try:
            segment.transactions.save()
        except OSError as error:
            logger.warning("%s cannot be saved: %s", segment.transactions.path, error)
        return segment.transactions.aborted


class Search(Protocol):
    """Runs one step of a search, with the limit that readers have now."""

    def __call__(self, look: Callable[[Limit], T]) -> T: ...


def find_time(state: LogState, timestamp: int, search: Search) -> Steps[FoundOffset | None]:
    """The first record with this or a later timestamp.

    Segments may be deleted or replaced between two steps, so each step looks them up again.
    """
    offset = state.start_offset
    while True:
        offset = max(offset, state.start_offset)
        candidate = search(partial(_next_candidate, state, timestamp, offset))
        if candidate is None:
            return None
        if isinstance(candidate, _Candidate):
            found = yield from _find_in_batch(state, candidate.header, candidate.data, timestamp)
            if found is not None:
                return found
        offset = candidate.next_offset
        yield None


def find_largest_time(state: LogState, search: Search) -> Steps[FoundOffset | None]:
    """The first record with the largest timestamp."""
    largest = yield from _largest_time(state, search)
    while largest != NO_TIMESTAMP:
        found = yield from find_time(state, largest, search)
        if found is not None:
            return found
        before, largest = largest, (yield from _largest_time(state, search))
        if largest >= before:
            return None  # it is beyond the limit; otherwise it was deleted between two steps
    return None


def _largest_time(state: LogState, search: Search) -> Steps[int]:
    largest = NO_TIMESTAMP
    offset: int | None = state.start_offset
    while offset is not None:
        seen, offset = search(partial(_largest_from, state, max(offset, state.start_offset)))
        largest = max(largest, seen)
        yield None
    return largest


def _largest_from(state: LogState, offset: int, _: Limit) -> tuple[int, int | None]:
    """The largest timestamp of the next segments, and where the others begin."""
    largest = NO_TIMESTAMP
    place = state.segments.holding(offset)
    following = place + HEADERS_PER_STEP // HEADERS_PER_SEGMENT
    while place < following and (segment := state.segments.at(place)) is not None:
        largest = max(largest, _largest_intact(segment))
        place += 1
    rest = state.segments.at(following)
    return largest, None if rest is None else rest.base_offset


def _largest_intact(segment: LogSegment) -> int:
    if not segment.damage:
        return segment.largest_timestamp
    return max((header.max_timestamp for _, header in segment.headers()), default=NO_TIMESTAMP)


class _Candidate(NamedTuple):
    """A batch that may hold the wanted record."""

    header: BatchHeader
    data: bytes

    @property
    def next_offset(self) -> int:
        return self.header.next_offset


class _Pause(NamedTuple):
    """Where the next step of a search begins."""

    next_offset: int


def _next_candidate(
    state: LogState, timestamp: int, offset: int, limit: Limit
) -> _Candidate | _Pause | None:
    """The first batch from an offset on whose header has this or a later timestamp."""
    left = HEADERS_PER_STEP
    place = state.segments.holding(offset)
    while (segment := state.segments.at(place)) is not None and segment.base_offset < limit.offset:
        if left <= 0:
            return _Pause(segment.base_offset)
        left -= HEADERS_PER_SEGMENT
        place += 1
        if segment.largest_timestamp < timestamp:
            continue
        position = max(_position_before(segment, timestamp), _position_of(segment, offset))
        walk = segment.headers(position, limit.position_in(segment))
        for at, header in walk:
            if header.max_timestamp >= timestamp:
                return _Candidate(header, _read_batch(segment, at, header))
            left -= 1
            if left <= 0:
                return _Pause(header.next_offset)
    return None


def _read_batch(segment: LogSegment, position: int, header: BatchHeader) -> bytes:
    data = segment.read(position, header.size_bytes)
    segment.verify(position, header, data)
    return data


def _position_before(segment: LogSegment, timestamp: int) -> int:
    """A position before which all batches are older than a timestamp."""
    entry = segment.time_index.before(timestamp)
    if entry is None:
        return 0
    offset = segment.base_offset + entry.relative_offset
    if segment.is_damaged(offset):
        return segment.position_from(offset)
    span = segment.locate(offset)
    if span is not None and span.base_offset == offset:
        _, header = next(segment.headers(span.position))
        if header.max_timestamp == entry.timestamp:
            return span.position
    segment.rebuild_indexes()
    return 0


def _position_of(segment: LogSegment, offset: int) -> int:
    if offset <= segment.base_offset:
        return 0
    return segment.position_from(offset)


def _find_in_batch(
    state: LogState, header: BatchHeader, data: bytes, timestamp: int
) -> Steps[FoundOffset | None]:
    append_time = header.max_timestamp if header.has_append_time else None
    try:
        if is_long(header):
            body = yield from body_steps(data, 0, header)
        else:
            body = read_body(data, 0, header)
        for keys in key_slices(body, header, RECORDS_PER_STEP):
            for key in keys:
                time = key.timestamp if append_time is None else append_time
                if time >= timestamp and key.offset >= state.start_offset:
                    return FoundOffset(key.offset, time, header.leader_epoch)
            yield None
    except MalformedRecords:
        # A consumer that starts at this batch misses no record.
        offset = max(header.base_offset, state.start_offset)
        return FoundOffset(offset, header.max_timestamp, header.leader_epoch)
    return None
