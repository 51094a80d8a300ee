"""The command, response and timers of consumer groups."""

from dataclasses import dataclass

from strom.coordination.groups.consumer.values import Partitions
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
class ConsumerHeartbeatResponse:
    """The member epoch, and the assignment if it has changed."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: Partitions | None = None

    def with_error(self, code: ErrorCode) -> "ConsumerHeartbeatResponse":
        """The response if the records could not be written."""
        return ConsumerHeartbeatResponse(code=code, message=code.text)


@dataclass(frozen=True)
class RevocationTimeout:
    """A timer: the member has not revoked partitions within its rebalance timeout."""

    group: str
    member: str


@dataclass(frozen=True)
class ClassicJoinTimeout:
    """A timer: a classic member has not rejoined in time."""

    group: str
    member: str


@dataclass(frozen=True)
class ClassicSyncTimeout:
    """A timer: a classic member that has joined has not synced in time."""

    group: str
    member: str


@dataclass(frozen=True)
class Downgraded:
    """An immediate timer: the group is a classic one now, and must rebalance."""

    group: str
