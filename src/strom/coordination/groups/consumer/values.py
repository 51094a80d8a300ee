"""What a consumer group consists of, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from strom.wire.kafka.schema import Uuid

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""A static member goes, and says that it will come back: its partitions wait for it."""


class TopicIdPartition(NamedTuple):
    """A partition, by its topic's id: another topic of the same name is not meant."""

    topic_id: Uuid
    partition: int


Partitions: TypeAlias = frozenset[TopicIdPartition]
Owned: TypeAlias = Mapping[TopicIdPartition, int]
"""Partitions with the epoch since when a member has them."""

NOTHING: Partitions = frozenset()


class MemberState(IntEnum):
    """How far a member is on its way to the target; the numbers are Kafka's."""

    STABLE = 0
    """It has what the target of its epoch says."""
    UNREVOKED = 1
    """It still has partitions that it shall give up; its epoch waits for that."""
    UNRELEASED = 2
    """It is in the target's epoch, but others still have some of what it shall get."""


@dataclass(frozen=True, kw_only=True)
class ClassicSide:
    """What a member has besides if it speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, kw_only=True)
class Subscription:
    """What a member said of itself."""

    instance: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str | None = ""
    """A regular expression for more topics; none if empty."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far a member has come, and what it has."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    """What it has to give up, and may still have."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has all that the target of an epoch says, and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(frozen=True)
class ConsumerMember:
    """One member of a consumer group."""

    id: str
    said: Subscription = field(default_factory=Subscription)
    has: Standing = field(default_factory=Standing)


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The topics that a pattern stands for."""

    topics: frozenset[str]
    version: int = 0
    """How new the list of topics was; Kafka has the offset of its metadata log there."""
    resolved_ms: int
