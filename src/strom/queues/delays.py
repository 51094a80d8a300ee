"""Delayed messages, by the time at which they are due."""

import heapq

from strom.model.tables import Table
from strom.queues.errors import precondition_failed
from strom.queues.message import Message

DELAY = "x-delay"
"""The header with the delay in milliseconds; on delivery it is negated, as RabbitMQ's plugin does."""
MAX_DELAY_MS = 100 * 365 * 24 * 3600 * 1000


def delay_of(headers: Table) -> int:
    """The delay in milliseconds, 0 if there is none; raise PRECONDITION_FAILED if it is invalid."""
    delay = headers.get(DELAY, 0)
    if not isinstance(delay, int) or isinstance(delay, bool):
        raise precondition_failed(f"the header {DELAY} must be a number of milliseconds")
    if delay > MAX_DELAY_MS:
        raise precondition_failed(f"{DELAY}={delay} exceeds the limit of {MAX_DELAY_MS} ms")
    return max(0, delay)


def released(message: Message, now_ms: int) -> Message:
    """The message as it is published when it is due."""
    properties = message.parsed.changed({DELAY: -delay_of(message.headers or {})})
    return Message(message.exchange, message.routing_key, properties, message.body, now_ms)


class Delays:
    """Positions of delayed messages by the time they are due."""

    def __init__(self) -> None:
        self._due: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._due)

    def add(self, position: int, message: Message) -> None:
        self.add_due(position, message.timestamp_ms + delay_of(message.headers or {}))

    def add_due(self, position: int, due_ms: int) -> None:
        heapq.heappush(self._due, (due_ms, position))

    @property
    def next_ms(self) -> int | None:
        """When the next one is due."""
        return self._due[0][0] if self._due else None

    def take_due(self, now_ms: int) -> int | None:
        """Take the position of the earliest message that is due; None if none is."""
        if self._due and self._due[0][0] <= now_ms:
            return heapq.heappop(self._due)[1]
        return None
