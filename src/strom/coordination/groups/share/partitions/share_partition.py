"""One partition as a share group reads it: which records are with which member.

Every record between `start_offset` and the end of what is in flight is available, with one member, or at
its end. Whoever asks may acquire what is available; it then has a while to say what became of it. What
members say comes out as Changes: to be written down before they are answered.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from strom.coordination.groups.share.partitions.ranges import Range, Ranges, RecordState, StateBatch
from strom.model.errors import ApiError, ErrorCode

NOT_BEGUN = -1


class Verdict(IntEnum):
    """What a member says of a record, with Kafka's numbers."""

    GAP = 0
    """There is no such record."""
    ACCEPT = 1
    """It was processed."""
    RELEASE = 2
    """Somebody else shall try."""
    REJECT = 3
    """Nobody shall try any more."""
    RENEW = 4
    """It takes longer: the lock begins anew."""


class Acknowledgement(NamedTuple):
    """What a member says of a range of offsets, both ends included."""

    first: int
    last: int
    verdicts: Sequence[int]
    """One for all, or one for each."""

    def runs(self) -> Iterable[tuple[int, int, int]]:
        """The same as (first, last, verdict) for each stretch of equal verdicts."""
        if len(self.verdicts) == 1:
            yield self.first, self.last, self.verdicts[0]
            return
        began = 0
        for index in range(1, len(self.verdicts) + 1):
            if index == len(self.verdicts) or self.verdicts[index] != self.verdicts[began]:
                yield self.first + began, self.first + index - 1, self.verdicts[began]
                began = index


class DeadReason(IntEnum):
    """Why a record is given up."""

    REJECTED = 1
    TOO_OFTEN = 2


class DeadRecords(NamedTuple):
    """Records that are given up, and are first to be written to the dead letter topic."""

    first: int
    last: int
    deliveries: int
    reason: DeadReason


@dataclass
class Changes:
    """What has to be written down, and which records have to be buried first."""

    batches: list[StateBatch] = field(default_factory=list)
    dead: list[DeadRecords] = field(default_factory=list)
    start_moved: bool = False

    @property
    def need_writing(self) -> bool:
        """Whether anything is to be written down."""
        return bool(self.batches) or self.start_moved


@dataclass(frozen=True)
class Rules:
    """How a group treats its records."""

    delivery_limit: int
    max_in_flight: int
    lock_ms: int
    buries: bool = False
    """Whether what is given up goes to a dead letter topic."""
    renews: bool = True
    """Whether members may ask for more time."""


class SharePartition:
    """The records of one partition between the group's start and the end of what is in flight."""

    def __init__(self, start_offset: int = NOT_BEGUN) -> None:
        self._ranges = Ranges(max(start_offset, 0))
        self._has_begun = start_offset != NOT_BEGUN

    # --- looking -------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """Everything before it is dealt with; NOT_BEGUN if it is not known yet."""
        return self._ranges.start if self._has_begun else NOT_BEGUN

    @property
    def end_offset(self) -> int:
        """The offset after the last one in flight."""
        return self._ranges.end

    @property
    def finished_count(self) -> int:
        """How many offsets after the start have come to their end."""
        return self._ranges.end - self._ranges.start - self._ranges.unfinished

    @property
    def ranges(self) -> Ranges:
        """For whoever acquires, and for tests."""
        return self._ranges

    def next_fetch_offset(self, max_in_flight: int) -> int | None:
        """From where to read for the next acquisition; None while as much as may be is in flight."""
        again = self._ranges.first_available()
        if again is not None:
            return again
        return self._ranges.end if self._ranges.unfinished < max_in_flight else None

    def next_deadline_ms(self) -> int | None:
        """When the first lock times out."""
        deadlines = [one.deadline_ms for one in self._ranges if one.state is RecordState.ACQUIRED]
        return min(deadlines, default=None)

    def state_batches(self) -> list[StateBatch]:
        """Everything that is worth writing down; what nobody has spoken of yet is not."""
        batches = [one.as_batch() for one in self._ranges]
        return _joined([one for one in batches if one.state.is_final or one.deliveries])

    # --- the log -------------------------------------------------------------------------------

    def begin_at(self, offset: int) -> None:
        """Begin there: nothing of it has been delivered yet."""
        self._ranges = Ranges(offset)
        self._has_begun = True

    def replay(self, start_offset: int, batches: Iterable[StateBatch]) -> None:
        """Take on what was written down; a start of NOT_BEGUN leaves the start as it is."""
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
                # These were with someone when nothing was written of them yet.
                ranges.append(Range(ranges.end, batch.first - 1, RecordState.AVAILABLE))
            ranges.append(Range(ranges.end, batch.last, batch.state, batch.deliveries))
        for one in ranges.cut_out(batch.first, batch.last):
            ranges.change(one, batch.state, deliveries=batch.deliveries)

    def log_changed(self, start_offset: int, end_offset: int) -> bool:
        """The log has lost its oldest records, or after a crash its newest; whether that matters."""
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
    ) -> Changes:
        """Take in what a member says of its records: all of it, or (ApiError) nothing."""
        for one in acknowledgements:
            self._check(member, one)
            if not rules.renews and Verdict.RENEW in one.verdicts:
                raise ApiError(
                    ErrorCode.INVALID_RECORD_STATE,
                    "The group gives nobody more time with a record.",
                )
        self._check_overlaps(acknowledgements)
        changes = Changes()
        for one in acknowledgements:
            for first, last, verdict in one.runs():
                for part in self._ranges.cut_out(first, last):
                    self._judge(part, Verdict(verdict), rules, now_ms, changes)
        return self._finish(changes)

    def _check(self, member: str, one: Acknowledgement) -> None:
        ranges = self._ranges
        if one.last < ranges.start:
            return  # dealt with meanwhile: by the member itself before, or the log has lost it
        if one.last >= ranges.end:
            raise ApiError(
                ErrorCode.INVALID_REQUEST if len(ranges) else ErrorCode.INVALID_RECORD_STATE,
                f"Offsets up to {one.last} were never delivered.",
            )
        for part in ranges.over(one.first, one.last):
            if part.state is not RecordState.ACQUIRED:
                raise ApiError(
                    ErrorCode.INVALID_RECORD_STATE, f"Offset {part.first} is with nobody."
                )
            if part.member != member:
                raise ApiError(
                    ErrorCode.INVALID_RECORD_STATE, f"Offset {part.first} is with another member."
                )

    @staticmethod
    def _check_overlaps(acknowledgements: Sequence[Acknowledgement]) -> None:
        """A record that is named twice was no longer the member's the second time."""
        if len(acknowledgements) > 1:
            ordered = sorted(acknowledgements, key=lambda one: one.first)
            for before, after in pairwise(ordered):
                if after.first <= before.last:
                    raise ApiError(
                        ErrorCode.INVALID_RECORD_STATE, f"Offset {after.first} is named twice."
                    )

    def _judge(
        self, part: Range, verdict: Verdict, rules: Rules, now_ms: int, changes: Changes
    ) -> None:
        match verdict:
            case Verdict.RENEW:
                part.deadline_ms = now_ms + rules.lock_ms
            case Verdict.ACCEPT:
                self._ranges.change(part, RecordState.ACKNOWLEDGED)
                changes.batches.append(part.as_batch())
            case Verdict.GAP:
                self._ranges.change(part, RecordState.ARCHIVED)
                changes.batches.append(part.as_batch())
            case Verdict.REJECT:
                self._give_up(part, DeadReason.REJECTED, rules, changes)
            case Verdict.RELEASE:
                self._give_back(part, rules, changes)

    def release(self, member: str, rules: Rules) -> Changes:
        """The member is gone: what it has may go to others."""
        return self._release(
            [
                one
                for one in self._ranges
                if one.state is RecordState.ACQUIRED and one.member == member
            ],
            rules,
        )

    def locks_time_out(self, now_ms: int, rules: Rules) -> Changes:
        """What members have had for too long may go to others."""
        return self._release(
            [
                one
                for one in self._ranges
                if one.state is RecordState.ACQUIRED and one.deadline_ms <= now_ms
            ],
            rules,
        )

    def _release(self, ranges: list[Range], rules: Rules) -> Changes:
        changes = Changes()
        for one in ranges:
            self._give_back(one, rules, changes)
        return self._finish(changes)

    def _give_back(self, part: Range, rules: Rules, changes: Changes) -> None:
        if part.deliveries >= rules.delivery_limit:
            self._give_up(part, DeadReason.TOO_OFTEN, rules, changes)
            return
        self._ranges.change(part, RecordState.AVAILABLE)
        changes.batches.append(part.as_batch())

    def _give_up(self, part: Range, reason: DeadReason, rules: Rules, changes: Changes) -> None:
        if rules.buries:
            self._ranges.change(part, RecordState.ARCHIVING)
            changes.dead.append(DeadRecords(part.first, part.last, part.deliveries, reason))
        else:
            self._ranges.change(part, RecordState.ARCHIVED)
            changes.batches.append(part.as_batch())

    def buried(self, first: int, last: int) -> Changes:
        """Dead records are in the dead letter topic now."""
        changes = Changes()
        for part in self._ranges.cut_out(first, last):
            if part.state is RecordState.ARCHIVING:
                self._ranges.change(part, RecordState.ARCHIVED)
                changes.batches.append(part.as_batch())
        return self._finish(changes)

    def finish_acquiring(self) -> None:
        """After an acquisition: what turned out not to be there may be at the front."""
        self._ranges.tidy()

    def _finish(self, changes: Changes) -> Changes:
        before = self._ranges.start
        self._ranges.tidy()
        start = self._ranges.start
        changes.start_moved = start != before
        changes.batches = _joined([one for one in changes.batches if one.last >= start])
        return changes


def _joined(batches: list[StateBatch]) -> list[StateBatch]:
    """The same with neighbours of one kind put together, as few as can be."""
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
