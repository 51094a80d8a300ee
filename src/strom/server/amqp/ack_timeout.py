"""How long a client may keep a message before it acknowledges it: RabbitMQ's `consumer_timeout`.

Channels are looked at now and then. No delivery is timed by itself: each look notes up to which delivery
tag the channel has come, so that everything before is at least as old as that note.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from strom.queues.errors import QueueError, precondition_failed

if TYPE_CHECKING:
    from strom.server.amqp.channel import Unacked
    from strom.server.amqp.connection import AmqpConnection

LONGEST_INTERVAL_MS = 60_000
LOOKS_PER_TIMEOUT = 4
CONNECTIONS_AT_ONCE = 100


class DeliveryAges:
    """About how old the deliveries of a channel are."""

    def __init__(self) -> None:
        self._notes: deque[tuple[int, int]] = deque()
        """Delivery tags with a time at which all before them had been delivered."""

    def look(self, unacked: "dict[int, Unacked]", next_tag: int, now_ms: int) -> int:
        """For at least how many milliseconds the oldest of these messages has been out."""
        oldest = next(iter(unacked), next_tag)
        notes = self._notes
        while notes and notes[0][0] <= oldest:
            notes.popleft()
        if oldest < next_tag and (not notes or notes[-1][0] < next_tag):
            notes.append((next_tag, now_ms))
        return now_ms - notes[0][1] if notes else 0


def interval_ms(timeout_ms: int) -> int:
    """How often to look."""
    if timeout_ms <= 0:  # queues may still have a timeout of their own
        return LONGEST_INTERVAL_MS
    return max(1, min(LONGEST_INTERVAL_MS, timeout_ms // LOOKS_PER_TIMEOUT))


def close_overdue(connections: Iterable["AmqpConnection"], timeout_ms: int, now_ms: int) -> None:
    """Close channels whose oldest message has been out for too long; what they have is requeued."""
    for connection in connections:
        for channel in tuple(connection.channels.values()):
            if channel.closing or not channel.unacked:
                continue
            age_ms = channel.look_at_oldest(now_ms)
            own_ms = next(iter(channel.unacked.values())).queue.rules.consumer_timeout_ms
            limit_ms = timeout_ms if own_ms is None else own_ms
            if 0 < limit_ms <= age_ms:
                connection.fail(_timed_out(channel.number, limit_ms), channel.number)


def _timed_out(number: int, timeout_ms: int) -> QueueError:
    return precondition_failed(
        f"delivery acknowledgement on channel {number} timed out. Timeout value used: {timeout_ms} "
        "ms. This timeout value can be configured, see consumers doc guide to learn more"
    )
