"""The commands of the group coordinator."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from strom.coordination.groups.records import CommittedOffset
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
