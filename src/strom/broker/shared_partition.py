"""A share partition with its log, acquisition locks, stored state and waiting fetches."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from strom.broker.partition import Partition, RecordsWaiter
from strom.broker.share_context import OnDone, SharePartitionContext, ignore_result
from strom.coordination.groups.share.partitions.acquisition import (
    Acquired,
    AcquireLimits,
    Acquisition,
)
from strom.coordination.groups.share.partitions.records import ShareSnapshot, ShareUpdate
from strom.coordination.groups.share.partitions.share_partition import (
    NOT_BEGUN,
    Acknowledgement,
    Rules,
    StateChanges,
)
from strom.coordination.groups.share.partitions.share_states import SharedState
from strom.model.errors import ApiError, ErrorCode
from strom.model.group_settings import GroupSettings
from strom.model.share_settings import EARLIEST, READ_COMMITTED
from strom.model.steps import Steps, run_at_once
from strom.storage.log import Log
from strom.storage.region import Region
from strom.wire.kafka.batch import BatchHeader

logger = logging.getLogger(__name__)

MOST_BYTES = 1024 * 1024
"""The limit of bytes of one partition in one response, unless its first batch is larger."""
MOST_JUNK_BYTES = 64 * 1024
"""The limit of bytes between acquired batches that are sent along."""
MOST_SEGMENTS = 16
"""The limit of bytes scanned for one response, among markers and aborted records."""


class AcquiredBatches(NamedTuple):
    """The batches that a member gets from one partition."""

    acquired: list[Acquired]
    records: bytes | Region = b""


NOTHING = AcquiredBatches([])


class SharedPartition:
    def __init__(
        self, around: SharePartitionContext, shared: SharedState, source: Partition
    ) -> None:
        self.shared = shared
        self.source = source
        self._context = around
        self._waiting: dict[RecordsWaiter, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def log(self) -> Log:
        return self.source.log

    @property
    def lag(self) -> int:
        """How many records have not come to their end."""
        state = self.shared.partition
        return self.log.high_watermark - state.start_offset - state.finished_count

    def settings(self) -> GroupSettings:
        return self._context.settings_of(self.shared.key.group)

    def rules(self) -> Rules:
        return self._context.rules_of(self.shared.key.group)

    # --- fetching ------------------------------------------------------------------------------

    @property
    def must_search(self) -> bool:
        """Whether it begins at a time, and the offset is not known yet: `begin_steps` may take long."""
        return (
            self.shared.partition.start_offset == NOT_BEGUN
            and self.settings().reset_age_ms is not None
        )

    def begin_steps(self) -> Steps[None]:
        """Set the start offset by the group's settings, unless it is set."""
        state = self.shared.partition
        first = yield from _first_offset(self.log, self.settings(), self._context.clock.now_ms())
        if state.start_offset == NOT_BEGUN:  # another member's search may have ended first
            state.begin_at(first)
            self._append(StateChanges())  # otherwise the group could start elsewhere after a crash

    def has_records(self) -> bool:
        """Whether there may be records to acquire: a cheap check for many waiting fetches."""
        state = self.shared.partition
        return bool(
            state.ranges.available
            or state.end_offset < self.log.high_watermark
            or state.start_offset == NOT_BEGUN
            or self.source.deleted
            or self.log.quarantined
        )

    def bytes_waiting(self, limit: int) -> int:
        """An upper bound of the bytes that a member can get now, up to a limit."""
        self._follow_log()
        offset = self.shared.partition.next_fetch_offset(self.rules().max_in_flight)
        if offset is None:
            return 0
        return self.log.reader.bytes_after(
            offset, committed_only=self._committed_only(), limit=limit
        )

    def acquire(
        self, member: str, limits: AcquireLimits, max_bytes: int, *, at_least_one: bool
    ) -> AcquiredBatches:
        """Acquire available records for a member, within its limits."""
        self._follow_log()
        rules = self.rules()
        state = self.shared.partition
        for _ in range(MOST_SEGMENTS):
            offset = state.next_fetch_offset(rules.max_in_flight)
            if offset is None:
                break
            taking = Acquisition(state, member, limits, rules, self._now_ms())
            try:
                found = self._take(
                    taking, offset, min(max_bytes, MOST_BYTES), at_least_one=at_least_one
                )
            except ApiError as error:
                taking.cancel()
                if error.code is not ErrorCode.CORRUPT_MESSAGE:
                    raise
                # If the damage is farther on, what is before it can be acquired from now on.
                self._archive_damaged(offset)
                continue
            if found is not None:
                self._watch_locks(rules.lock_ms)
                self.source.bytes_out += len(found.records)
                return found
            if state.next_fetch_offset(rules.max_in_flight) == offset:
                break
        return NOTHING

    def _take(
        self, taking: Acquisition, offset: int, max_bytes: int, *, at_least_one: bool
    ) -> AcquiredBatches | None:
        """Acquire from an offset on, and read what was acquired; None if there was nothing."""
        first, length = _offer_batches(
            self.log,
            taking,
            offset,
            max_bytes,
            at_least_one=at_least_one,
            committed_only=self._committed_only(),
        )
        acquired = taking.finish()
        if first is None:
            return None
        begin = max(first.base_offset, self.log.start_offset)
        chunk = self.log.reader.read_lazily(begin, length, committed_only=False, at_least_one=True)
        if len(chunk.data) < length:  # it ends before damage, which the read has just found
            raise ApiError(ErrorCode.CORRUPT_MESSAGE)
        return AcquiredBatches(acquired, chunk.data)

    def _archive_damaged(self, offset: int) -> None:
        """Archive the damaged batch that holds an offset, if any, as Kafka's consumers reject it."""
        damage = self.log.reader.damage_at(offset)
        if damage is None:
            return
        last = min(damage.next_offset, self.log.end_offset) - 1
        logger.error(
            "Share group %r gets no records of the damaged batch at offsets %d to %d of %s: archived.",
            self.shared.key.group,
            damage.first_offset,
            last,
            self.log.partition,
        )
        changes = self.shared.partition.archive_damaged(damage.first_offset, last)
        if changes.need_writing:
            self._append(changes)

    def _committed_only(self) -> bool:
        return self.settings().share_isolation_level == READ_COMMITTED

    def _follow_log(self) -> None:
        """Follow the log's start and end; the start offset is set if it is not yet."""
        if self.source.deleted:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state = self.shared.partition
        if state.start_offset == NOT_BEGUN:
            run_at_once(self.begin_steps())
        state.on_log_changed(self.log.start_offset, self.log.end_offset)

    # --- acknowledging -------------------------------------------------------------------------

    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], done: OnDone
    ) -> None:
        """Apply acknowledgements of a member; ApiError if they are invalid.

        `done` is called when they are durable.
        """
        rules = self.rules()
        changes = self.shared.partition.acknowledge(member, acknowledgements, rules, self._now_ms())
        self.write(changes, done)

    def release(self, member: str) -> None:
        """Release all records of a member."""
        self.write(self.shared.partition.release(member, self.rules()), ignore_result)

    def write(self, changes: StateChanges, done: OnDone) -> None:
        """Write the changes and dead letters, then call `done`."""
        try:
            if changes.need_writing:
                self._append(changes)
            if changes.dead:
                self._context.bury(self, changes.dead, done)
            elif changes.need_writing:
                self._context.state_log.on_durable(self.shared.key, done)
            else:
                done(ErrorCode.NONE)
        except ApiError as error:
            done(error.code)
        self.wake()

    def _append(self, changes: StateChanges) -> None:
        self._append_record(
            self.shared.record_of(
                changes,
                now_ms=self._context.clock.now_ms(),
                leader_epoch=self.source.leader_epoch,
                most_updates=self._context.most_updates(),
            )
        )

    def append_snapshot(self) -> None:
        self._append_record(
            self.shared.snapshot(
                now_ms=self._context.clock.now_ms(), leader_epoch=self.source.leader_epoch
            )
        )

    def _append_record(self, record: ShareSnapshot | ShareUpdate) -> None:
        self.shared.on_written(record, self._context.state_log.append(self.shared.key, record))

    # --- locks ---------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._context.loop.time() * 1000)

    def _watch_locks(self, after_ms: int) -> None:
        if self._timer is None:
            self._timer = self._context.loop.call_later(after_ms / 1000, self._on_lock_timeout)

    def _on_lock_timeout(self) -> None:
        self._timer = None
        if self.source.deleted:
            return
        now_ms = self._now_ms()
        self.write(self.shared.partition.on_lock_timeout(now_ms, self.rules()), ignore_result)
        deadline_ms = self.shared.partition.next_deadline_ms()
        if deadline_ms is not None:
            self._watch_locks(max(1, deadline_ms - now_ms))

    def close(self) -> None:
        """Cancel the timer and wake waiting fetches."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.wake()

    # --- waiting -------------------------------------------------------------------------------

    def wait_for_records(self, waiter: RecordsWaiter) -> None:
        """Notify the waiter when there may be records to acquire."""
        self._waiting[waiter] = None
        self.source.wait_for_records(waiter)

    def stop_waiting(self, waiter: RecordsWaiter) -> None:
        self._waiting.pop(waiter, None)
        self.source.stop_waiting(waiter)

    def wake(self) -> None:
        for waiter in tuple(self._waiting):
            waiter.partition_changed()


def _offer_batches(
    log: Log,
    taking: Acquisition,
    offset: int,
    max_bytes: int,
    *,
    at_least_one: bool,
    committed_only: bool,
) -> tuple[BatchHeader | None, int]:
    """Offer batches until enough is acquired; returns the first one and the bytes up to the last."""
    first, length, junk = None, 0, 0
    following = offset
    is_aborted = _aborted_from(log, offset) if committed_only else None
    for header in _in_order(log.reader.headers_from(offset, committed_only=committed_only)):
        if header.base_offset > following and log.reader.damage_at(following) is not None:
            break  # the next acquisition archives it
        following = header.next_offset
        if following > log.end_offset or header.record_count == 0:
            # Raises if the header is damaged. DeleteRecords may have moved the start into the batch.
            log.reader.read(max(header.base_offset, log.start_offset), 1)
        size = header.size_bytes
        if length + junk + size > max_bytes and (first is not None or not at_least_one):
            break
        holds_records = header.record_count > 0 and not header.is_control
        if is_aborted is not None and header.is_transactional:
            holds_records = holds_records and not is_aborted(header)
        taken = taking.offer(header.base_offset, header.last_offset, holds_records=holds_records)
        if taken:
            first = first or header
            length += junk + size
            junk = 0
        elif first is not None:
            junk += size
        if taking.is_full or junk > MOST_JUNK_BYTES:
            break
    return first, length


def _in_order(headers: Iterable[BatchHeader]) -> Iterator[BatchHeader]:
    """The headers, each once the next one was read: a damaged one could claim the offsets after it."""
    before: BatchHeader | None = None
    for header in headers:
        if before is not None:
            yield before
        before = header
    if before is not None:
        yield before


def _aborted_from(log: Log, offset: int) -> Callable[[BatchHeader], bool]:
    """Whether a batch belongs to an aborted transaction."""
    aborted = log.reader.aborted_between(offset, log.last_stable_offset)
    return lambda batch: any(
        one.producer_id == batch.producer_id
        and one.first_offset <= batch.base_offset <= one.last_offset
        for one in aborted
    )


def _first_offset(log: Log, settings: GroupSettings, now_ms: int) -> Steps[int]:
    """Where a group begins that has no start offset yet."""
    if settings.share_auto_offset_reset == EARLIEST:
        return log.start_offset
    age_ms = settings.reset_age_ms
    if age_ms is not None:
        found = yield from log.reader.find_timestamp(now_ms - age_ms)
        if found is not None:
            return found.offset
    return log.high_watermark
