"""The delivery acknowledgement timeout: RabbitMQ's `consumer_timeout`.

Channels are checked periodically. Single deliveries have no timers: each check records the channel's
next delivery tag, so that all deliveries before it are at least as old as that record.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from strom.queues.errors import QueueError, precondition_failed

if TYPE_CHECKING:
    from strom.server.amqp.channel import Unacked
    from strom.server.amqp.connection import AmqpConnection

LONGEST_INTERVAL_MS = 60_000
CHECKS_PER_TIMEOUT = 4
CONNECTIONS_AT_ONCE = 100


class DeliveryAges:
    """Lower bounds of the ages of a channel's deliveries."""

    def __init__(self) -> None:
        self._marks: deque[tuple[int, int]] = deque()
        """Delivery tags with a time at which all before them had been delivered."""

    def oldest_ms(self, unacked: "dict[int, Unacked]", next_tag: int, now_ms: int) -> int:
        """A lower bound of the age of the oldest unacknowledged delivery."""
        oldest = next(iter(unacked), next_tag)
        marks = self._marks
        while marks and marks[0][0] <= oldest:
            marks.popleft()
        if oldest < next_tag and (not marks or marks[-1][0] < next_tag):
            marks.append((next_tag, now_ms))
        return now_ms - marks[0][1] if marks else 0


def interval_ms(timeout_ms: int) -> int:
    """The interval between two checks."""
    if timeout_ms <= 0:  # queues may still have their own x-consumer-timeout
        return LONGEST_INTERVAL_MS
    return max(1, min(LONGEST_INTERVAL_MS, timeout_ms // CHECKS_PER_TIMEOUT))


def close_overdue(connections: Iterable["AmqpConnection"], timeout_ms: int, now_ms: int) -> None:
    """Close channels whose oldest delivery exceeds the timeout; their messages are requeued."""
    for connection in connections:
        for channel in tuple(connection.channels.values()):
            if channel.closing or not channel.unacked:
                continue
            age_ms = channel.oldest_age_ms(now_ms)
            own_ms = next(iter(channel.unacked.values())).queue.rules.consumer_timeout_ms
            limit_ms = timeout_ms if own_ms is None else own_ms
            if 0 < limit_ms <= age_ms:
                connection.fail(_timed_out(channel.number, limit_ms), channel.number)


def _timed_out(number: int, timeout_ms: int) -> QueueError:
    return precondition_failed(
        f"delivery acknowledgement on channel {number} timed out. Timeout value used: {timeout_ms} "
        "ms. This timeout value can be configured, see consumers doc guide to learn more"
    )
