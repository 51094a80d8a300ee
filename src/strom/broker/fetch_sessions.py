"""Incremental fetch sessions (KIP-227): a consumer sends its partitions once, then only changes.

The response to an incremental fetch has only partitions with changes. Pure: the time is an argument.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from strom.broker.fetching import Fetched, TopicKey, WantedPartition
from strom.model.errors import ApiError, ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MIN_EVICTION_MS = 120_000
"""A session is not evicted for another before this time has passed."""


@dataclass
class _Remembered:
    """The cached state of one partition: the request, and the last response."""

    wanted: WantedPartition
    high_watermark: int = -1
    start_offset: int = -1
    told: bool = False


@dataclass
class FetchSession:
    """One consumer's partitions, in the order of fetching."""

    id: int
    epoch: int
    last_used_ms: int
    uses_ids: bool
    """Whether it uses topic ids; a session cannot change between ids and names."""
    partitions: dict[tuple[TopicKey, int], _Remembered] = field(default_factory=dict)

    def wanted(self) -> list[WantedPartition]:
        return [remembered.wanted for remembered in self.partitions.values()]

    def change(
        self, wanted: Iterable[WantedPartition], forgotten: Iterable[tuple[TopicKey, int]]
    ) -> None:
        """Apply the partitions that an incremental request adds, changes and forgets."""
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
        """The partitions to return; those with records move to the end, for fairness."""
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
    """All sessions of a broker, with a limit."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}
        self._last_id = NO_SESSION

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, wanted: Iterable[WantedPartition], now_ms: int) -> FetchSession | None:
        """A new session, or None if the cache is full: the client then sends full requests."""
        items = list(wanted)
        if not items or not self._evict_if_full(now_ms):
            return None
        self._last_id = self._last_id % 0x7FFFFFFF + 1
        session = FetchSession(
            self._last_id,
            epoch=1,
            last_used_ms=now_ms,
            uses_ids=items[0].topic.id is not None,
        )
        session.change(items, ())
        self._sessions[session.id] = session
        return session

    def go_on(self, session_id: int, epoch: int, now_ms: int) -> FetchSession:
        """The session of an incremental request, or the error that makes the client start a new one."""
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = epoch % 0x7FFFFFFF + 1
        session.last_used_ms = now_ms
        return session

    def end(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def _evict_if_full(self, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - oldest.last_used_ms < MIN_EVICTION_MS:
            return False
        self.end(oldest.id)
        return True
