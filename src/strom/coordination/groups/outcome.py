"""What comes of a command: records to write, answers to give, timers to set.

Answers are given when the records are safe. A command's own answer may come much later, with another
command: joins are answered together. Each request is known by a ticket, which is the caller's own.
"""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeAlias

from strom.coordination.groups.commands import ProducerEpoch
from strom.coordination.groups.records import GroupRecord
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition

Ticket: TypeAlias = Any


@dataclass(frozen=True, kw_only=True)
class Answered:
    """An answer that says only whether it went well."""

    code: ErrorCode = ErrorCode.NONE

    def failed(self, code: ErrorCode) -> "Answered":
        """The same answer, had the records not been written."""
        return Answered(code=code)


@dataclass(frozen=True, kw_only=True)
class JoinedMember:
    """What the leader is told of a member."""

    id: str
    instance: str | None
    subscription: bytes


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The generation that a member is part of; only the leader is told of all members."""

    code: ErrorCode = ErrorCode.NONE
    member: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()

    def failed(self, code: ErrorCode) -> "Joined":
        """The same answer, had the records not been written."""
        return Joined(code=code, member=self.member)


@dataclass(frozen=True, kw_only=True)
class Synced:
    """A member's share."""

    code: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""

    def failed(self, code: ErrorCode) -> "Synced":
        """The same answer, had the records not been written."""
        return Synced(code=code)


@dataclass(frozen=True, kw_only=True)
class Left:
    """What became of each member that was to be taken out, in the order of the request."""

    code: ErrorCode = ErrorCode.NONE
    members: tuple[ErrorCode, ...] = ()

    def failed(self, code: ErrorCode) -> "Left":
        """The same answer, had the records not been written."""
        return Left(code=code)


@dataclass(frozen=True, kw_only=True)
class ForPartitions:
    """What became of each partition named; `code` for all of it."""

    code: ErrorCode = ErrorCode.NONE
    partitions: dict[TopicPartition, ErrorCode] = field(default_factory=dict)

    def failed(self, code: ErrorCode) -> Self:
        """The same answer, had the records not been written."""
        return dataclasses.replace(
            self,
            code=code,
            partitions={partition: old or code for partition, old in self.partitions.items()},
        )


class Answer(Protocol):
    """Any answer, these or those of other kinds of groups."""

    @property
    def code(self) -> ErrorCode:
        """Whether it went well as a whole."""

    def failed(self, code: ErrorCode) -> "Answer":
        """The same answer, had the records not been written."""


@dataclass(frozen=True)
class JoinEnds:
    """A timer: whoever has not joined again by then is out."""

    group: str


@dataclass(frozen=True)
class SyncEnds:
    """A timer: whoever has not asked for its share by then is out."""

    group: str


@dataclass(frozen=True)
class SessionEnds:
    """A timer: the member was silent for too long."""

    group: str
    member: str


class Timer(Protocol):
    """Any timer, these or those of other kinds of groups; equal ones are the same."""

    @property
    def group(self) -> str:
        """The group that it is about."""

    def __hash__(self) -> int:
        """As equal ones have it."""


@dataclass
class Outcome:
    """Collects what one command, or one timer, brings about in one group."""

    group: str
    records: list[GroupRecord] = field(default_factory=list)
    producer: ProducerEpoch | None = None
    """Whose transaction the records are part of."""
    answers: list[tuple[Ticket, Answer]] = field(default_factory=list)
    timers: dict[Timer, int | None] = field(default_factory=dict)
    """Milliseconds from now, or None to cancel; of two for the same timer the last counts."""

    def write(self, record: GroupRecord) -> None:
        """Have a record written, and replayed."""
        self.records.append(record)

    def discard(self) -> None:
        """Have nothing written or set after all."""
        self.records.clear()
        self.timers.clear()

    def answer(self, ticket: Ticket, answer: Answer) -> None:
        """Have a request answered."""
        self.answers.append((ticket, answer))

    def set_timer(self, timer: Timer, after_ms: int) -> None:
        """Set a timer, or set it anew."""
        self.timers[timer] = after_ms

    def cancel(self, timer: Timer) -> None:
        """Have a timer not fire; it need not be set."""
        self.timers[timer] = None
