"""Incremental fetch sessions (KIP-227): a consumer names its partitions once, then only changes.

The answer to an incremental fetch holds only partitions with news. Pure: the time is an argument.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from strom.broker.fetching import Fetched, TopicKey, Wanted
from strom.model.errors import ApiError, ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MIN_EVICTION_MS = 120_000
"""A session in use is not thrown out for another before this time has passed."""


@dataclass
class _Remembered:
    """What a session knows of one partition: what is wanted, and what was last told of it."""

    wanted: Wanted
    high_watermark: int = -1
    start_offset: int = -1
    told: bool = False


@dataclass
class Session:
    """One consumer's partitions, in the order in which they are served."""

    id: int
    epoch: int
    last_used_ms: int
    partitions: dict[tuple[TopicKey, int], _Remembered] = field(default_factory=dict)

    @property
    def uses_ids(self) -> bool:
        """Whether this session names its topics by id; it cannot change to names, or back."""
        return any(key.id is not None for key, _ in self.partitions)

    def wanted(self) -> list[Wanted]:
        """Everything this session fetches."""
        return [remembered.wanted for remembered in self.partitions.values()]

    def change(self, wanted: Iterable[Wanted], forgotten: Iterable[tuple[TopicKey, int]]) -> None:
        """Take in what an incremental request adds, changes and drops."""
        for item in wanted:
            key = (item.topic, item.partition)
            remembered = self.partitions.get(key)
            if remembered is None:
                self.partitions[key] = _Remembered(item)
            else:
                remembered.wanted = item
        for key in forgotten:
            self.partitions.pop(key, None)

    def news(self, fetched: Sequence[Fetched], *, full: bool) -> list[Fetched]:
        """The partitions worth telling; those that had records go to the end of the line."""
        told = []
        for item in fetched:
            key = (item.wanted.topic, item.wanted.partition)
            remembered = self.partitions.get(key)
            if remembered is None:
                continue
            if full or self._is_news(item, remembered):
                told.append(item)
            remembered.high_watermark = item.high_watermark
            remembered.start_offset = item.start_offset
            remembered.told = item.error is ErrorCode.NONE
            if len(item.records):
                self.partitions[key] = self.partitions.pop(key)
        return told

    @staticmethod
    def _is_news(item: Fetched, remembered: _Remembered) -> bool:
        return (
            len(item.records) > 0
            or item.error is not ErrorCode.NONE
            or not remembered.told
            or item.high_watermark != remembered.high_watermark
            or item.start_offset != remembered.start_offset
        )


class FetchSessions:
    """All sessions of a broker, a bounded number."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[int, Session] = {}
        self._last_id = NO_SESSION

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, wanted: Iterable[Wanted], now_ms: int) -> Session | None:
        """A new session, or None if there is no room: the client then sends everything each time."""
        items = list(wanted)
        if not items or not self._make_room(now_ms):
            return None
        self._last_id = self._last_id % 0x7FFFFFFF + 1
        session = Session(self._last_id, epoch=1, last_used_ms=now_ms)
        session.change(items, ())
        self._sessions[session.id] = session
        return session

    def go_on(self, session_id: int, epoch: int, now_ms: int) -> Session:
        """The session for an incremental request, or the error that makes the client start anew."""
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = epoch % 0x7FFFFFFF + 1
        session.last_used_ms = now_ms
        return session

    def end(self, session_id: int) -> None:
        """Forget a session."""
        self._sessions.pop(session_id, None)

    def _make_room(self, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - oldest.last_used_ms < MIN_EVICTION_MS:
            return False
        self.end(oldest.id)
        return True
