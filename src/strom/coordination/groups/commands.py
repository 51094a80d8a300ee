"""What a coordinator can be asked to do."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from strom.coordination.groups.records import CommittedOffset
from strom.model.topics import TopicPartition

NEW_MEMBER = ""
NO_GENERATION = -1


@dataclass(frozen=True, kw_only=True)
class Join:
    """Become a member, or stay one in the next generation."""

    group: str
    member: str
    """NEW_MEMBER, or the id that was given before."""
    fresh: str
    """What makes an id of this member unlike all others, should it need one."""
    instance: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    needs_known_id: bool = True
    """Whether a new member is first told its id, so that retries do not leave ghosts behind."""
    can_skip_assignment: bool = True
    """Whether the client understands that it leads without having to share out anything."""


@dataclass(frozen=True, kw_only=True)
class Sync:
    """Ask for one's share; the leader brings the shares of all."""

    group: str
    generation: int
    member: str
    instance: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """Be alive."""

    group: str
    generation: int
    member: str
    instance: str | None = None


@dataclass(frozen=True)
class Leaver:
    """A member to take out: by its id, or (with no id) by its instance id."""

    member: str
    instance: str | None = None


@dataclass(frozen=True, kw_only=True)
class Leave:
    """Take members out."""

    group: str
    leavers: tuple[Leaver, ...]


class ProducerEpoch(NamedTuple):
    """A transactional producer, as its batches name it."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, kw_only=True)
class Commit:
    """Remember how far the group has read."""

    group: str
    generation: int
    member: str
    instance: str | None = None
    offsets: tuple[tuple[TopicPartition, CommittedOffset], ...]
    knows_missing_groups: bool = True
    """Whether the client understands GROUP_ID_NOT_FOUND."""
    producer: ProducerEpoch | None = None
    """Whose transaction the offsets are part of, if of any: they count when it is committed."""


@dataclass(frozen=True, kw_only=True)
class DeleteOffsets:
    """Forget how far the group has read."""

    group: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, kw_only=True)
class DeleteGroup:
    """Forget a group that has no members."""

    group: str


class Command(Protocol):
    """Anything that a coordinator can be asked to do, here or by another kind of group."""

    @property
    def group(self) -> str:
        """The group that it is about."""
