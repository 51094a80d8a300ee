"""The outcome of a command: records to write, responses to send, timers to set.

Responses are sent when the records are durable. The response to a command may come with a later command:
joins are completed together. A ticket, opaque to the coordinator, identifies the request.
"""

from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from strom.coordination.groups.commands import ProducerEpoch
from strom.coordination.groups.records import GroupRecord
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition

Ticket: TypeAlias = Any


@dataclass(frozen=True, kw_only=True)
class GroupResponse:
    """Any response, also those of the group types."""

    code: ErrorCode = ErrorCode.NONE

    def with_error(self, code: ErrorCode) -> Self:
        """The response if the records could not be written."""
        return type(self)(code=code)


class StatusResponse(GroupResponse):
    """A response with only an error code."""


@dataclass(frozen=True, kw_only=True)
class JoinedMember:
    """A member, as the leader sees it."""

    id: str
    instance: str | None
    subscription: bytes


@dataclass(frozen=True, kw_only=True)
class JoinResponse(GroupResponse):
    """The generation that a member joined; only the leader gets the members."""

    member: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()

    def with_error(self, code: ErrorCode) -> Self:
        return type(self)(code=code, member=self.member)


@dataclass(frozen=True, kw_only=True)
class SyncResponse(GroupResponse):
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, kw_only=True)
class LeaveResponse(GroupResponse):
    """The error code of each leaving member, in the order of the request."""

    members: tuple[ErrorCode, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PartitionsResponse(GroupResponse):
    """The error code of each partition; `code` for the request."""

    partitions: dict[TopicPartition, ErrorCode] = field(default_factory=dict)

    def with_error(self, code: ErrorCode) -> Self:
        partitions = {partition: old or code for partition, old in self.partitions.items()}
        return type(self)(code=code, partitions=partitions)


@dataclass(frozen=True)
class Timer:
    """Any timer, also those of the group types; equal timers of one class replace each other."""

    group: str


@dataclass(frozen=True)
class MemberTimer(Timer):
    member: str


class JoinTimeout(Timer):
    """Members that have not rejoined by then are removed."""


class SyncTimeout(Timer):
    """Members that have not synced by then are removed."""


class SessionTimeout(MemberTimer):
    """The member has sent no heartbeat in time."""


@dataclass
class GroupOutcome:
    """The effects of one command or timer on one group."""

    group: str
    records: list[GroupRecord] = field(default_factory=list)
    producer: ProducerEpoch | None = None
    """The producer in whose transaction the records are written."""
    responses: list[tuple[Ticket, GroupResponse]] = field(default_factory=list)
    timers: dict[Timer, int | None] = field(default_factory=dict)
    """Milliseconds from now, or None to cancel; the last value for a timer wins."""

    def write(self, record: GroupRecord) -> None:
        self.records.append(record)

    def discard(self) -> None:
        """Drop all records and timers."""
        self.records.clear()
        self.timers.clear()

    def respond(self, ticket: Ticket, response: GroupResponse) -> None:
        self.responses.append((ticket, response))

    def set_timer(self, timer: Timer, after_ms: int) -> None:
        """Set or reset a timer."""
        self.timers[timer] = after_ms

    def cancel(self, timer: Timer) -> None:
        """Cancel a timer, set or not."""
        self.timers[timer] = None
