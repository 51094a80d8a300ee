"""Delayed messages of one virtual host: a log like that of a queue, and a timer.

A message with the header `x-delay` is kept here until it is published to its exchange; the delay
survives a restart. The messages of a transaction are here too, from its commit until they are durable in
their queues (`staging.py`); they have no delay, so that a restart publishes them at once.
"""

import asyncio
import logging
from typing import Protocol

from strom.broker.partition import HostedTopic
from strom.broker.queues.store import QueueStore
from strom.model.clock import Clock
from strom.queues.delays import Delays, delay_of, released
from strom.queues.errors import QueueError
from strom.queues.message import Message
from strom.queues.queue import RETRY_MS
from strom.queues.receipts import Receipt
from strom.queues.store import MessageUnavailable, PendingRemoval

log = logging.getLogger(__name__)

BATCH_BYTES = 8 * 1024 * 1024
"""A transaction up to this size is one batch, which a crash cannot split."""
MOST_AT_ONCE = 1000
"""Messages that are published in one turn of the event loop."""
LONGEST_SLEEP_S = 3600.0


class DelayedPublisher(Protocol):
    """Publishes delayed messages that are due."""

    def publish_delayed(
        self, vhost: str, message: Message, removal: PendingRemoval, *, is_committed: bool
    ) -> bool:
        """Publish one; False if it is unroutable, QueueError if its exchange was deleted."""
        ...


class DelayedMessages:
    """Holds messages of one virtual host in a store until they are due."""

    def __init__(
        self, vhost: str, store: QueueStore, clock: Clock, publisher: DelayedPublisher
    ) -> None:
        self.store = store
        self._vhost = vhost
        self._publisher = publisher
        self._clock = clock
        self._delays = Delays()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._delays)

    def load(self, topic: HostedTopic) -> None:
        """Restore the delayed messages after a restart."""
        self.store.load(topic)
        for position, message in self.store.log.live_messages():
            self._delays.add(position, message)
        self._set_timer()

    def add(self, message: Message, receipt: Receipt | None) -> None:
        self._delays.add(self.store.add(message, receipt), message)
        self._set_timer()

    def release(self, position: int, message: Message) -> bool:
        """Publish a stored message when it is due; False if it is due now and unroutable."""
        if delay_of(message.headers or {}):
            self._delays.add(position, message)
            self._set_timer()
            return True
        return self._leave(position, message, self._clock.now_ms())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        due_ms = self._delays.next_ms
        self.stop()
        if due_ms is not None:
            seconds = max(0, due_ms - self._clock.now_ms()) / 1000
            self._timer = self._loop.call_later(min(seconds, LONGEST_SLEEP_S), self._release)

    def _release(self) -> None:
        now_ms = self._clock.now_ms()
        for _ in range(MOST_AT_ONCE):
            position = self._delays.take_due(now_ms)
            if position is None:
                break
            try:
                message = self.store.get(position)
            except MessageUnavailable:
                self._delays.add_due(position, now_ms + RETRY_MS)
                continue
            if message is not None:
                self._leave(position, message, now_ms)
        self._set_timer()

    def _leave(self, position: int, message: Message, now_ms: int) -> bool:
        """Publish a message, and remove it from here once it is durable elsewhere."""
        removal = PendingRemoval(self.store, position)
        is_committed = not delay_of(message.headers or {})  # messages of transactions
        if not is_committed:
            message = released(message, now_ms)
        try:
            routed = self._publisher.publish_delayed(
                self._vhost, message, removal, is_committed=is_committed
            )
        except QueueError as error:
            log.warning("Dropped a delayed message: %s", error)
            routed = False
        removal.settle(durable=True)
        return routed
