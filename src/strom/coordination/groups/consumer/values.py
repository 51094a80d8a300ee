"""The values of a consumer group."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from strom.wire.kafka.schema import Uuid

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""A static member leaves temporarily: its partitions stay assigned to it."""


class TopicIdPartition(NamedTuple):
    """A partition by topic id, which a recreated topic does not share."""

    topic_id: Uuid
    partition: int


Partitions: TypeAlias = frozenset[TopicIdPartition]
Owned: TypeAlias = Mapping[TopicIdPartition, int]
"""Partitions with the epoch in which the member got them."""

NOTHING: Partitions = frozenset()


class MemberState(IntEnum):
    """The reconciliation state of a member; the numbers are Kafka's."""

    STABLE = 0
    """It has the target assignment of its epoch."""
    UNREVOKED = 1
    """It must revoke partitions; its epoch waits for that."""
    UNRELEASED = 2
    """It is in the target epoch, but other members have not released all of its partitions."""


@dataclass(frozen=True, kw_only=True)
class ClassicMetadata:
    """The additional state of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, kw_only=True)
class Subscription:
    """The subscription and client metadata of a member."""

    instance: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str | None = ""
    """A regular expression for more topics; empty for none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None


@dataclass(frozen=True, kw_only=True)
class CurrentAssignment:
    """The current assignment of a member."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    """Partitions to revoke, which it may still own."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has exactly the target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(frozen=True)
class ConsumerMember:
    id: str
    subscription: Subscription = field(default_factory=Subscription)
    current: CurrentAssignment = field(default_factory=CurrentAssignment)


@dataclass(frozen=True, kw_only=True)
class ResolvedPattern:
    """The topics that match a pattern."""

    topics: frozenset[str]
    version: int = 0
    """Unused here; Kafka stores the offset of its metadata log."""
    resolved_ms: int
