"""Messages that are to be published later: which is due next."""

import heapq

from strom.model.tables import Table
from strom.queues.errors import precondition_failed
from strom.queues.message import Message

DELAY = "x-delay"
"""The header with the milliseconds to wait. When the time has come its sign is turned."""
MAX_DELAY_MS = 100 * 365 * 24 * 3600 * 1000


def delay_of(headers: Table) -> int:
    """How long to wait; 0 if there is no delay. PRECONDITION_FAILED for what is no number."""
    delay = headers.get(DELAY, 0)
    if not isinstance(delay, int) or isinstance(delay, bool):
        raise precondition_failed(f"the header {DELAY} must be a number of milliseconds")
    if delay > MAX_DELAY_MS:
        raise precondition_failed(f"a delay of {delay} milliseconds is more than a hundred years")
    return max(0, delay)


def released(message: Message, now_ms: int) -> Message:
    """The message as it is published when its time has come."""
    properties = message.parsed.changed({DELAY: -delay_of(message.headers or {})})
    return Message(message.exchange, message.routing_key, properties, message.body, now_ms)


class Delays:
    """Positions of delayed messages by the time they are due."""

    def __init__(self) -> None:
        self._due: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._due)

    def add(self, position: int, message: Message) -> None:
        """One more."""
        self.add_due(position, message.timestamp_ms + delay_of(message.headers or {}))

    def add_due(self, position: int, due_ms: int) -> None:
        """One more, due at that time."""
        heapq.heappush(self._due, (due_ms, position))

    @property
    def next_ms(self) -> int | None:
        """When the next one is due."""
        return self._due[0][0] if self._due else None

    def take_due(self, now_ms: int) -> int | None:
        """The position of one that is due, the earliest first."""
        if self._due and self._due[0][0] <= now_ms:
            return heapq.heappop(self._due)[1]
        return None
