"""The command, response and timers of consumer groups."""

from dataclasses import dataclass
from typing import Self

from strom.coordination.groups.commands import GroupResponse, MemberTimer, Timer
from strom.coordination.groups.consumer.records import Partitions
from strom.model.errors import ErrorCode

NO_TIMEOUT = -1


@dataclass(frozen=True, kw_only=True)
class ConsumerHeartbeat:
    """Join, stay in or leave a group; None stands for an unchanged field."""

    group: str
    member: str
    epoch: int
    """JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, or the member epoch."""
    fresh: str
    """An id for a member without one, which request version 0 allows (KIP-1082)."""
    instance: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = NO_TIMEOUT
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    """The partitions that the member owns."""
    requires_id: bool = True
    """Whether clients of this version must generate their ids (KIP-1082)."""


@dataclass(frozen=True, kw_only=True)
class ConsumerHeartbeatResponse(GroupResponse):
    """The member epoch, and the assignment if it has changed."""

    message: str | None = None
    member: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: Partitions | None = None

    def with_error(self, code: ErrorCode) -> Self:
        return type(self)(code=code, message=code.text)


class RevocationTimeout(MemberTimer):
    """The member has not revoked partitions within its rebalance timeout."""


class ClassicJoinTimeout(MemberTimer):
    """A classic member has not rejoined in time."""


class ClassicSyncTimeout(MemberTimer):
    """A classic member that has joined has not synced in time."""


class Downgraded(Timer):
    """It fires at once: the group is a classic one now, and must rebalance."""
