"""Reading the log of one partition: what consumers may see, by offset and by timestamp."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from strom.model.errors import ApiError, CorruptData, ErrorCode
from strom.model.steps import Steps
from strom.storage.damage import DamagedRange
from strom.storage.log_guard import LogGuard
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
from strom.storage.log_state import LogState
from strom.storage.transaction_index import AbortedTransaction
from strom.wire.kafka.batch import BatchHeader, headers

T = TypeVar("T")


class LogReader:
    """Reads up to the high watermark, or the last stable offset with `committed_only`."""

    def __init__(self, state: LogState, guard: LogGuard) -> None:
        self._state = state
        self._guard = guard

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

        def read() -> Chunk:
            limit = self._limit(committed_only)
            if offset >= limit.offset:
                return NOTHING
            data = read_chunk(self._state, offset, max_bytes, limit, at_least_one=at_least_one)
            if not committed_only or not data or not self._has_aborted():
                return Chunk(data)
            return Chunk(data, self._aborted_in(data, offset))

        return self._guard.run(read)

    def read_lazily(
        self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool
    ) -> LazyChunk:
        """The same for sending to a client: large ranges stay in their file, for sendfile."""
        self._check_readable(offset)
        if committed_only and self._has_aborted():
            most = min(max_bytes, EAGER_AT_MOST)
            return LazyChunk(
                *self.read(offset, most, committed_only=True, at_least_one=at_least_one)
            )

        def read() -> LazyChunk:
            limit = self._limit(committed_only)
            if offset >= limit.offset:
                return LazyChunk(b"")
            return LazyChunk(
                read_lazily(self._state, offset, max_bytes, limit, at_least_one=at_least_one)
            )

        return self._guard.run(read)

    def headers_from(self, offset: int, *, committed_only: bool = False) -> Iterator[BatchHeader]:
        """The headers of the batches that a read from an offset can return, all of one segment."""
        self._check_readable(offset)
        with self._guard:
            limit = self._limit(committed_only)
            if offset < limit.offset:
                yield from headers_from(self._state, offset, limit)

    def damage_at(self, offset: int) -> DamagedRange | None:
        """The damage that is known to hold an offset."""
        segment = self._state.segments.at(self._state.segments.holding(offset))
        damage = segment.damage if segment is not None else []
        return next((each for each in damage if offset in each), None)

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        self._guard.check()
        return self._guard.run(
            lambda: list(aborted_between(self._state, start, end)) if self._has_aborted() else []
        )

    def bytes_after(self, offset: int, *, committed_only: bool = False, limit: int) -> int:
        """How many bytes a read from an offset can return, counted up to a limit."""
        self._guard.check()

        def count() -> int:
            end = self._limit(committed_only)
            return count_bytes(self._state, offset, end, limit) if offset < end.offset else 0

        return self._guard.run(count)

    def find_timestamp(self, timestamp_ms: int) -> Steps[FoundOffset | None]:
        """The first record with this or a later timestamp."""
        with self._guard:
            return (yield from find_time(self._state, timestamp_ms, self._search))

    def find_max_timestamp(self) -> Steps[FoundOffset | None]:
        """The first record with the largest timestamp."""
        self._guard.check()
        with self._guard:
            return (yield from find_largest_time(self._state, self._search))

    def _search(self, look: Callable[[Limit], T]) -> T:
        """One step of a search, up to the current limit: the log may have changed since the last one."""
        self._guard.check()
        if self._state.gone:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self._guard.run(lambda: look(self._limit(committed_only=False)))

    def _check_readable(self, offset: int) -> None:
        self._guard.check()
        start, end = self._state.start_offset, self._state.end_offset
        if not start <= offset <= end:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"Offset {offset} is not within {start} and {end}."
            )

    def _aborted_in(self, data: bytes, offset: int) -> tuple[AbortedTransaction, ...]:
        end = offset + 1
        for _, header in headers(data):
            end = header.next_offset
        return tuple(aborted_between(self._state, offset, end))

    def _has_aborted(self) -> bool:
        """Whether any transaction was ever aborted here; cached, because mostly none was."""
        state = self._state
        if state.met_aborted is None:
            try:
                state.met_aborted = any(segment.transactions.aborted for segment in state.segments)
            except CorruptData:
                state.met_aborted = True  # the read of that segment reports the damage
            except OSError:
                return True  # the read fails in the same way, and reports it
        return state.met_aborted

    def _limit(self, committed_only: bool) -> Limit:
        state = self._state
        watermark = Limit(state.high_watermark, state.watermark_position)
        if not committed_only:
            return watermark
        stable = state.last_stable_offset
        if stable == watermark.offset:
            return watermark
        segment = state.segments.since(stable)[0]
        return Limit(stable, segment.position_from(stable))
