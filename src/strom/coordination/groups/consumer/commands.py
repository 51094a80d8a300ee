"""What members of consumer groups ask, what they are told, and what time brings."""

from dataclasses import dataclass

from strom.coordination.groups.consumer.values import Partitions
from strom.model.errors import ErrorCode

NO_TIMEOUT = -1


@dataclass(frozen=True, kw_only=True)
class ConsumerHeartbeat:
    """Join, stay or leave, all in one; None stands for what has not changed."""

    group: str
    member: str
    epoch: int
    """JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, or the one that was told last."""
    fresh: str
    """An id for a member that brings none, as clients of the first version may."""
    instance: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = NO_TIMEOUT
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    """What the member has."""
    must_bring_id: bool = True
    """Whether clients of this version choose their ids themselves."""


@dataclass(frozen=True, kw_only=True)
class HeartbeatAnswer:
    """The member's epoch, and what it shall have if that has changed."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: Partitions | None = None

    def failed(self, code: ErrorCode) -> "HeartbeatAnswer":
        """The same answer, had the records not been written."""
        return HeartbeatAnswer(code=code, message=code.text)


@dataclass(frozen=True)
class RevocationEnds:
    """A timer: the member had enough time to give up what it shall not have."""

    group: str
    member: str


@dataclass(frozen=True)
class ClassicJoinEnds:
    """A timer: a classic member had enough time to join again."""

    group: str
    member: str


@dataclass(frozen=True)
class ClassicSyncEnds:
    """A timer: a classic member that has joined had enough time to ask for its share."""

    group: str
    member: str


@dataclass(frozen=True)
class Downgraded:
    """A timer for right away: the group is a classic one now, and has to share out anew."""

    group: str
