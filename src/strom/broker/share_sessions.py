"""Share sessions (KIP-932): a member sends its partitions once, then only changes.

A session belongs to one connection. When that closes, the records that the member has not acknowledged
are released. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from strom.model.errors import ApiError, ErrorCode
from strom.wire.kafka.schema import Uuid

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LARGEST_EPOCH = 2**31 - 1

TopicIdPartition: TypeAlias = tuple[Uuid, int]


class SessionKey(NamedTuple):
    """The group and member of a session."""

    group: str
    member: str


@dataclass(eq=False)
class ShareSession:
    """The partitions of one member, in the order of the requests."""

    key: SessionKey
    epoch: int = 1
    is_open: bool = True
    partitions: dict[TopicIdPartition, None] = field(default_factory=dict)
    touched: dict[TopicIdPartition, None] = field(default_factory=dict)
    """Partitions where it may have acquired records, including forgotten ones."""

    def change(
        self, wanted: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]
    ) -> None:
        """Apply the partitions that a request adds and forgets."""
        for partition in wanted:
            self.partitions[partition] = None
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def turn(self) -> list[TopicIdPartition]:
        """Its partitions, starting with another one each time, for fairness."""
        every = list(self.partitions)
        first = self.epoch % len(every) if every else 0
        return every[first:] + every[:first]


class ShareSessions:
    """All share sessions of a broker, with a limit."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, key: SessionKey) -> ShareSession:
        """A new session, which replaces an earlier one; SHARE_SESSION_LIMIT_REACHED if there are too
        many.
        """
        old = self._sessions.pop(key, None)
        if len(self._sessions) >= self._slots:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key)
        if old is not None:
            old.is_open = False
            session.touched = old.touched
        return session

    def find(self, key: SessionKey) -> ShareSession | None:
        """The open session of a member."""
        return self._sessions.get(key)

    def go_on(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session of a request, or the error that makes the client start a new one."""
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != session.epoch:
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == _LARGEST_EPOCH else epoch + 1
        return session

    def end(self, key: SessionKey) -> ShareSession:
        """Close a session; SHARE_SESSION_NOT_FOUND if there is none."""
        session = self._sessions.pop(key, None)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        session.is_open = False
        return session

    def drop(self, session: ShareSession) -> bool:
        """Drop a session whose connection was closed; False if it was closed or replaced before."""
        if self._sessions.get(session.key) is not session:
            return False
        self.end(session.key)
        return True
