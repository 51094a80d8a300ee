"""A share partition: the delivery state of its in-flight records.

Every record between `start_offset` and the end of the in-flight window is available, acquired by one
member, or final. A member acquires available records, and must acknowledge them before their lock times
out. Acknowledgements become Changes, which must be durable before the response.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from strom.coordination.groups.share.partitions.ranges import Range, Ranges, RecordState, StateBatch
from strom.model.errors import ApiError, ErrorCode

NOT_BEGUN = -1


class AcknowledgeType(IntEnum):
    """How a record is acknowledged, with Kafka's numbers."""

    GAP = 0
    """There is no such record."""
    ACCEPT = 1
    """Processed."""
    RELEASE = 2
    """Available for redelivery."""
    REJECT = 3
    """Not to be redelivered."""
    RENEW = 4
    """Extends the lock (KIP-1222)."""


_FINAL_STATES: dict[int, RecordState] = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
}
"""The types whose records come to their end at once."""
_Run: TypeAlias = tuple[int, int, int]
"""The first and the last offset of records that are acknowledged with one type."""


class Acknowledgement(NamedTuple):
    """The acknowledgement of a range of offsets, both ends included."""

    first: int
    last: int
    types: Sequence[int]
    """One for all, or one per offset."""

    def runs_from(self, start: int) -> Iterable[_Run]:
        """Runs of equal types at or after an offset."""
        if len(self.types) == 1:
            return ((self.first, self.last, self.types[0]),)
        return self._runs(max(start - self.first, 0))

    def _runs(self, began: int) -> Iterator[_Run]:
        for index in range(began + 1, len(self.types) + 1):
            if index == len(self.types) or self.types[index] != self.types[began]:
                yield self.first + began, self.first + index - 1, self.types[began]
                began = index


def _runs_from(start: int, acknowledgements: Iterable[Acknowledgement]) -> Iterator[_Run]:
    """All runs at or after an offset.

    Adjacent ones of a final type are joined: the state merges their ranges in any case, while others
    are redelivered in the ranges in which they were acknowledged.
    """
    joined: _Run | None = None
    for one in acknowledgements:
        if one.last < start:
            continue
        for run in one.runs_from(start):
            if joined is not None:
                if run[0] == joined[1] + 1 and run[2] == joined[2]:
                    joined = (joined[0], run[1], run[2])
                    continue
                yield joined
                joined = None
            if run[2] in _FINAL_STATES:
                joined = run
            else:
                yield run
    if joined is not None:
        yield joined


class DeadReason(IntEnum):
    """Why a record goes to the dead letter topic."""

    REJECTED = 1
    TOO_OFTEN = 2


class DeadRecords(NamedTuple):
    """Records to write to the dead letter topic before they are archived."""

    first: int
    last: int
    deliveries: int
    reason: DeadReason


@dataclass
class StateChanges:
    """State to write, and records to write to the dead letter topic first."""

    batches: list[StateBatch] = field(default_factory=list)
    dead: list[DeadRecords] = field(default_factory=list)
    start_moved: bool = False

    @property
    def need_writing(self) -> bool:
        return bool(self.batches) or self.start_moved


@dataclass(frozen=True)
class Rules:
    """The delivery settings of a share group."""

    delivery_limit: int
    max_in_flight: int
    lock_ms: int
    buries: bool = False
    """Whether records that are archived go to a dead letter topic."""
    renews: bool = True
    """Whether members may renew locks."""


class SharePartition:
    """The in-flight window of one partition."""

    def __init__(self, start_offset: int = NOT_BEGUN) -> None:
        self._ranges = Ranges(max(start_offset, 0))
        self._has_begun = start_offset != NOT_BEGUN

    # --- queries ------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """Records before it are final; NOT_BEGUN if the group has no start offset yet."""
        return self._ranges.start if self._has_begun else NOT_BEGUN

    @property
    def end_offset(self) -> int:
        """The offset after the last one in flight."""
        return self._ranges.end

    @property
    def finished_count(self) -> int:
        """How many offsets after the start are final."""
        return self._ranges.end - self._ranges.start - self._ranges.unfinished

    @property
    def ranges(self) -> Ranges:
        return self._ranges

    def next_fetch_offset(self, max_in_flight: int) -> int | None:
        """Where the next acquisition reads; None while the in-flight window is full."""
        again = self._ranges.first_available()
        if again is not None:
            return again
        return self._ranges.end if self._ranges.unfinished < max_in_flight else None

    def next_deadline_ms(self) -> int | None:
        """When the first lock times out."""
        deadlines = [one.deadline_ms for one in self._ranges if one.state is RecordState.ACQUIRED]
        return min(deadlines, default=None)

    def state_batches(self) -> list[StateBatch]:
        """The state to store; first deliveries without acknowledgement are omitted."""
        batches = [one.as_batch() for one in self._ranges]
        return _merge([one for one in batches if one.state.is_final or one.deliveries])

    # --- the log -------------------------------------------------------------------------------

    def begin_at(self, offset: int) -> None:
        """Start at an offset, without any deliveries."""
        self._ranges = Ranges(offset)
        self._has_begun = True

    def replay(self, start_offset: int, batches: Iterable[StateBatch]) -> None:
        """Apply stored state; NOT_BEGUN keeps the start offset."""
        if start_offset != NOT_BEGUN and not self._has_begun:
            self.begin_at(start_offset)
        for batch in batches:
            self._overlay(batch)
        if start_offset != NOT_BEGUN:
            self._ranges.drop_before(start_offset)
        self._ranges.tidy()

    def _overlay(self, batch: StateBatch) -> None:
        ranges = self._ranges
        if batch.last < ranges.start:
            return
        if batch.last >= ranges.end:
            if batch.first > ranges.end:
                # These were acquired, but not acknowledged, when the state was written.
                ranges.append(Range(ranges.end, batch.first - 1, RecordState.AVAILABLE))
            ranges.append(Range(ranges.end, batch.last, batch.state, batch.deliveries))
        for one in ranges.split_out(batch.first, batch.last):
            ranges.change(one, batch.state, deliveries=batch.deliveries)

    def on_log_changed(self, start_offset: int, end_offset: int) -> bool:
        """Apply new log offsets after retention or a crash; returns whether the window has changed."""
        ranges = self._ranges
        if start_offset <= ranges.start and end_offset >= ranges.end:
            return False
        if end_offset < ranges.end:
            ranges.drop_from(end_offset)
            if end_offset < ranges.start:
                self.begin_at(end_offset)
        if start_offset > self._ranges.start:
            self._ranges.drop_before(start_offset)
        self._ranges.tidy()
        return True

    # --- members -------------------------------------------------------------------------------

    def acknowledge(
        self,
        member: str,
        acknowledgements: Sequence[Acknowledgement],
        rules: Rules,
        now_ms: int,
    ) -> StateChanges:
        """Apply acknowledgements of a member: all of them, or (ApiError) none."""
        # Overlaps first: otherwise thousands of them would each look at the same ranges.
        self._check_overlaps(acknowledgements)
        start = self._ranges.start
        for one in acknowledgements:
            if one.last >= start:  # others are final meanwhile: acknowledged before, or deleted
                self._check(member, one)
            if not rules.renews and AcknowledgeType.RENEW in one.types:
                raise ApiError(
                    ErrorCode.INVALID_RECORD_STATE,
                    "The group does not allow lock renewal (share.renew.acknowledge.enable).",
                )
        changes = StateChanges()
        for first, last, type_ in _runs_from(self._ranges.start, acknowledgements):
            parts = self._ranges.split_out(first, last)
            final = _FINAL_STATES.get(type_)
            if final is None:
                for part in parts:
                    self._apply_acknowledgement(part, type_, rules, now_ms, changes)
            else:
                for part in parts:
                    self._ranges.change(part, final)
                    changes.batches.append(
                        StateBatch(part.first, part.last, final, part.deliveries)
                    )
        return self._finish(changes)

    def _check(self, member: str, one: Acknowledgement) -> None:
        ranges = self._ranges
        if one.last >= ranges.end:
            raise ApiError(
                ErrorCode.INVALID_REQUEST if len(ranges) else ErrorCode.INVALID_RECORD_STATE,
                f"Offset {one.last} is beyond the last delivered offset.",
            )
        for part in ranges.over(one.first, one.last):
            if part.state is not RecordState.ACQUIRED:
                raise ApiError(
                    ErrorCode.INVALID_RECORD_STATE, f"Offset {part.first} is not acquired."
                )
            if part.member != member:
                raise ApiError(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"Offset {part.first} is acquired by another member.",
                )

    @staticmethod
    def _check_overlaps(acknowledgements: Sequence[Acknowledgement]) -> None:
        """Reject acknowledgements that overlap: a record can be acknowledged once."""
        if len(acknowledgements) > 1:
            ordered = sorted(acknowledgements, key=itemgetter(0))
            for before, after in pairwise(ordered):
                if after[0] <= before[1]:  # by index, and above: there may be tens of thousands
                    raise ApiError(
                        ErrorCode.INVALID_RECORD_STATE,
                        f"Offset {after.first} is acknowledged twice.",
                    )

    def _apply_acknowledgement(
        self, part: Range, type_: int, rules: Rules, now_ms: int, changes: StateChanges
    ) -> None:
        match type_:
            case AcknowledgeType.RELEASE:
                self._release_range(part, rules, changes)
            case AcknowledgeType.RENEW:
                part.deadline_ms = now_ms + rules.lock_ms
            case AcknowledgeType.REJECT:
                self._archive(part, DeadReason.REJECTED, rules, changes)

    def release(self, member: str, rules: Rules) -> StateChanges:
        """Release the records of a member that has left."""
        return self._release(
            [
                one
                for one in self._ranges
                if one.state is RecordState.ACQUIRED and one.member == member
            ],
            rules,
        )

    def on_lock_timeout(self, now_ms: int, rules: Rules) -> StateChanges:
        """Release records whose lock has timed out."""
        return self._release(
            [
                one
                for one in self._ranges
                if one.state is RecordState.ACQUIRED and one.deadline_ms <= now_ms
            ],
            rules,
        )

    def _release(self, ranges: list[Range], rules: Rules) -> StateChanges:
        changes = StateChanges()
        for one in ranges:
            self._release_range(one, rules, changes)
        return self._finish(changes)

    def _release_range(self, part: Range, rules: Rules, changes: StateChanges) -> None:
        if part.deliveries >= rules.delivery_limit:
            self._archive(part, DeadReason.TOO_OFTEN, rules, changes)
            return
        self._ranges.change(part, RecordState.AVAILABLE)
        changes.batches.append(
            StateBatch(part.first, part.last, RecordState.AVAILABLE, part.deliveries)
        )

    def _archive(
        self, part: Range, reason: DeadReason, rules: Rules, changes: StateChanges
    ) -> None:
        if rules.buries:
            self._ranges.change(part, RecordState.ARCHIVING)
            changes.dead.append(DeadRecords(part.first, part.last, part.deliveries, reason))
        else:
            self._ranges.change(part, RecordState.ARCHIVED)
            changes.batches.append(part.as_batch())

    def on_dead_letters_written(self, first: int, last: int) -> StateChanges:
        """Archive records that are now in the dead letter topic."""
        changes = StateChanges()
        for part in self._ranges.split_out(first, last):
            if part.state is RecordState.ARCHIVING:
                self._ranges.change(part, RecordState.ARCHIVED)
                changes.batches.append(part.as_batch())
        return self._finish(changes)

    def archive_damaged(self, first: int, last: int) -> StateChanges:
        """Archive the records of a damaged batch, which can be delivered to no member.

        There is nothing to write to a dead letter topic. Records that were acquired before stay so.
        """
        ranges, changes = self._ranges, StateChanges()
        for part in ranges.split_out(max(first, ranges.start), last):
            if part.state is RecordState.AVAILABLE:
                ranges.change(part, RecordState.ARCHIVED)
                changes.batches.append(part.as_batch())
        if last >= ranges.end:
            fresh = Range(ranges.end, last, RecordState.ARCHIVED)
            ranges.append(fresh)
            changes.batches.append(fresh.as_batch())
        return self._finish(changes)

    def finish_acquiring(self) -> None:
        """Drop archived ranges at the front after an acquisition."""
        self._ranges.tidy()

    def _finish(self, changes: StateChanges) -> StateChanges:
        before = self._ranges.start
        self._ranges.tidy()
        start = self._ranges.start
        changes.start_moved = start != before
        changes.batches = _merge([one for one in changes.batches if one.last >= start])
        return changes


def _merge(batches: list[StateBatch]) -> list[StateBatch]:
    """Merge adjacent batches with the same state."""
    joined: list[StateBatch] = []
    for batch in sorted(batches):
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.last + 1 == batch.first
            and before.state is batch.state
            and (before.deliveries == batch.deliveries or batch.state.is_final)
        ):
            joined[-1] = before._replace(last=batch.last)
        else:
            joined.append(batch)
    return joined
