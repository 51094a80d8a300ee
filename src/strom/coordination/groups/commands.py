"""The commands of the group coordinator, and their outcome: records, responses and timers.

Responses are sent when the records are durable. The response to a command may come with a later command:
joins are completed together. A ticket, opaque to the coordinator, identifies the request.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from strom.coordination.groups.records import CommittedOffset, GroupRecord
from strom.model.errors import ErrorCode
from strom.model.topics import TopicPartition

NEW_MEMBER = ""
NO_GENERATION = -1


@dataclass(frozen=True, kw_only=True)
class JoinGroup:
    """Join a classic group, or rejoin it for the next generation."""

    group: str
    member: str
    """NEW_MEMBER, or the member id."""
    fresh: str
    """The unique part of a new member id, if one is needed."""
    instance: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    needs_known_id: bool = True
    """Whether a new member first gets its id, so that retries leave no zombie members (KIP-394)."""
    can_skip_assignment: bool = True
    """Whether the client understands `skip_assignment` (KIP-814)."""


@dataclass(frozen=True, kw_only=True)
class MemberCommand:
    """What every command of a member of a generation has."""

    group: str
    generation: int
    member: str
    instance: str | None = None


@dataclass(frozen=True, kw_only=True)
class SyncGroup(MemberCommand):
    """Fetch the assignment; the leader submits those of all members."""

    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class Heartbeat(MemberCommand):
    """Renew the session of a member."""


@dataclass(frozen=True)
class LeavingMember:
    """A member to remove, by its id or (without one) by its instance id."""

    member: str
    instance: str | None = None


@dataclass(frozen=True, kw_only=True)
class LeaveGroup:
    group: str
    leavers: tuple[LeavingMember, ...]


class ProducerEpoch(NamedTuple):
    """The producer id and epoch in a transactional batch."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, kw_only=True)
class CommitOffsets(MemberCommand):
    offsets: tuple[tuple[TopicPartition, CommittedOffset], ...]
    knows_missing_groups: bool = True
    """Whether the client understands GROUP_ID_NOT_FOUND."""
    producer: ProducerEpoch | None = None
    """The producer in whose transaction the offsets are committed, if any."""


@dataclass(frozen=True, kw_only=True)
class DeleteOffsets:
    group: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, kw_only=True)
class DeleteGroup:
    """Delete a group without members."""

    group: str


class GroupCommand(Protocol):
    """Any command, also those of the group types."""

    @property
    def group(self) -> str: ...


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
    needs_assignment: bool = False
    """Whether the group is to be assigned in the background: `GroupCoordinator.assign`."""

    def write(self, record: GroupRecord) -> None:
        self.records.append(record)

    def discard(self) -> None:
        """Drop all records and timers."""
        self.records.clear()
        self.timers.clear()
        self.needs_assignment = False

    def respond(self, ticket: Ticket, response: GroupResponse) -> None:
        self.responses.append((ticket, response))

    def set_timer(self, timer: Timer, after_ms: int) -> None:
        """Set or reset a timer."""
        self.timers[timer] = after_ms

    def cancel(self, timer: Timer) -> None:
        """Cancel a timer, set or not."""
        self.timers[timer] = None
