"""One queue: messages are ready in order, delivered, and then acknowledged, requeued or discarded.

A message is identified by its position in the queue's log. The store holds messages by position; the
host does what reaches beyond the queue. Both are passed in, so that a queue runs without a disk.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from strom.metrics.queues import QueueReading
from strom.queues.arguments import QueueRules, read_rules
from strom.queues.backlog import Backlog, TakenMessage
from strom.queues.consumers import Consumer, Consumers
from strom.queues.dead_letters import DELIVERY_LIMIT, EXPIRED, MAX_LENGTH, REJECTED
from strom.queues.definitions import QueueDefinition
from strom.queues.message import Message
from strom.queues.receipts import Receipt
from strom.queues.store import MessageUnavailable, PendingRemoval, Store

DELIVERY_COUNT = "x-delivery-count"
EXPIRY_SLICE = 100
"""Expired messages that are dropped in one slice: with a dead letter exchange, a few milliseconds."""
RETRY_MS = 1000
"""How long to wait before a message that could not be read is read again."""
NO_POSITION = -1
"""The position of a message that was delivered directly and needs no acknowledgement."""


class Host(Protocol):
    """What reaches beyond one queue: dead-lettering and timers."""

    def give_up(
        self, queue: "Queue", message: Message, reason: str, receipt: Receipt | None
    ) -> None:
        """Discard a message, or publish it to the queue's dead letter exchange.

        The receipt is settled when the dead letter is durable.
        """
        ...

    def wake(self, queue: "Queue", at_ms: int) -> None:
        """Have `woken` called at that time."""
        ...


class GetResult(NamedTuple):
    """The response to one basic.get."""

    position: int
    message: Message
    redelivered: bool
    left: int


class Queue:
    """A queue with its ready and unacknowledged messages, and its consumers."""

    def __init__(self, definition: QueueDefinition, store: Store, host: Host) -> None:
        self.definition = definition
        self.name = definition.name
        self.rules: QueueRules = read_rules(definition.arguments)
        self.consumers = Consumers(single_active=self.rules.single_active_consumer)
        self.store = store
        self.unacked: dict[int, int] = {}
        """Unacknowledged messages: position and length of the body."""
        self.owner: object | None = None
        """The connection of an exclusive queue."""
        self.deleted = False
        self.had_consumers = False
        self._published = self._delivered = self._redelivered = self._acked = self._dropped = 0
        self._host = host
        self.backlog = Backlog(self.rules, store)
        self.ready = self.backlog.ready
        self._returns: dict[int, int] = {}
        """Returns by position, where they are counted (delivery limit, quorum queues)."""
        self._counts_returns = self.rules.delivery_limit is not None or self.rules.counts_deliveries
        self._priorities: dict[int, int] = {}
        """Priorities of unacknowledged messages, in a queue with priorities."""
        self._returning = 0
        """Requeues in progress."""
        self._may_expire = self.rules.message_ttl_ms is not None
        self._is_expiring = False
        """Whether more messages at the head have expired, which later slices drop."""
        self._wakes_at: int | None = None

    @property
    def waiting(self) -> int:
        """The number of messages that are ready for delivery."""
        return len(self.ready)

    def reading(self) -> QueueReading:
        """Gauges, and counters since the broker started, for metrics."""
        return QueueReading(
            self.definition.vhost,
            self.name,
            len(self.ready),
            len(self.unacked),
            self.backlog.size,
            len(self.consumers),
            self._published,
            self._delivered,
            self._redelivered,
            self._acked,
            self._dropped,
        )

    def restore(self, *, redelivered_before: int, returns: dict[int, int]) -> None:
        """Take over the state of before a restart; `ready` already holds the remaining messages."""
        self.backlog.redelivered_before = redelivered_before
        self._returns = returns
        self._may_expire = self._may_expire or len(self.ready) > 0

    # --- in ------------------------------------------------------------------------------------

    def refuses(self, count: int, size: int) -> bool:
        """Whether it rejects `count` more messages of `size` bytes in total."""
        if self.store.is_damaged:
            return True
        rules = self.rules
        if not rules.is_limited or not rules.rejects or not self.backlog.is_over(count, size):
            return False
        return len(self.ready) > 0 or not any(consumer.can_take for consumer in self.consumers)

    def publish(
        self,
        message: Message,
        now_ms: int,
        receipt: Receipt | None = None,
        *,
        is_committed: bool = False,
    ) -> bool:
        """Add or deliver a message; False if the queue rejects it: it is full, or its log damaged.

        A message of a committed transaction is accepted even by a full queue.
        """
        # A patient publisher keeps its own copy and waits until the queue is restored.
        if self.store.is_damaged and not (receipt is not None and receipt.is_patient):
            return False
        if not len(self.ready) and not self._returning:
            consumer = self.consumers.next()
            if consumer is not None:
                self._published += 1
                self._hand_over(consumer, message, receipt)
                return True
        rules = self.rules
        is_over = rules.is_limited and rules.rejects and self.backlog.is_over(1, len(message.body))
        if is_over and not is_committed:
            if rules.overflow == "reject-publish-dlx":
                self._dropped += 1
                self._host.give_up(self, message, MAX_LENGTH, receipt)
            return False
        self._published += 1
        position = self.store.add(message, receipt)
        self.backlog.add(position, message)
        if rules.is_limited and not rules.rejects:
            self._drop_over_limit()
        if message.expiration_ms is not None:
            self._may_expire = True
        if self._may_expire and not self._is_expiring:
            self.expire(now_ms)
        return True

    def _hand_over(self, consumer: Consumer, message: Message, receipt: Receipt | None) -> None:
        """Deliver a message to a waiting consumer without making it ready first."""
        self._delivered += 1
        if consumer.no_ack:
            consumer.outlet.deliver(consumer, NO_POSITION, message, False)
            return
        position = self.store.add(message, receipt)
        self.store.mark_delivered(position)
        self._note_unacked(position, message)
        if message.expiration_ms is not None:
            self._may_expire = True  # it may be requeued
        consumer.unacked += 1
        consumer.outlet.deliver(consumer, position, message, False)

    def _note_unacked(self, position: int, message: Message) -> None:
        self.unacked[position] = len(message.body)
        if self.rules.max_priority:
            self._priorities[position] = message.priority

    def _drop_over_limit(self) -> None:
        while len(self.ready) and self.backlog.is_over():
            try:
                taken = self.backlog.take()
            except MessageUnavailable:
                return  # the next publish drops it too
            if taken is not None:
                position, message, _ = taken
                self._give_up(position, message, MAX_LENGTH)

    # --- out -----------------------------------------------------------------------------------

    def serve(self, now_ms: int) -> None:
        """Deliver ready messages while a consumer accepts one."""
        if self._is_expiring or (self._may_expire and not self.expire(now_ms)):
            return
        if self._returning:
            return
        while len(self.ready):
            consumer = self.consumers.next()
            if consumer is None:
                return
            try:
                taken = self._take(no_ack=consumer.no_ack)
            except MessageUnavailable:
                self._wake(now_ms + RETRY_MS)
                return
            if taken is None:
                continue
            if not consumer.no_ack:
                consumer.unacked += 1
            consumer.outlet.deliver(consumer, *taken)
            if self._may_expire and not self.expire(now_ms):
                return
        if not self.unacked:  # otherwise one with an expiration may be requeued
            self._may_expire = self.rules.message_ttl_ms is not None

    def get(self, now_ms: int, *, no_ack: bool) -> GetResult | None:
        """Take one ready message (basic.get); None if there is none, or while `is_paused`."""
        if self.is_paused or (self._may_expire and not self.expire(now_ms)):
            return None
        while len(self.ready):
            try:
                taken = self._take(no_ack=no_ack)
            except MessageUnavailable:
                return None
            if taken is None:
                continue
            if self._may_expire:
                self.expire(now_ms)  # the next head may have waited for its turn to expire
            return GetResult(*taken, len(self.ready))
        return None

    def _take(self, *, no_ack: bool) -> TakenMessage | None:
        """Take the next ready message for a client; None if its position has none any more."""
        taken = self.backlog.take()
        if taken is None:
            return None
        position, message, redelivered = taken
        self.store.mark_delivered(position)
        self._delivered += 1
        self._redelivered += redelivered
        count = self._returns.get(position) if self._returns else None
        if no_ack:
            self._returns.pop(position, None)
            self.store.remove(position)
        else:
            self._note_unacked(position, message)
        if count and self.rules.counts_deliveries:  # as RabbitMQ's quorum queues do
            changed = message.parsed.changed({DELIVERY_COUNT: count})
            return position, message.with_properties(changed), redelivered
        return taken

    # --- back ----------------------------------------------------------------------------------

    def acknowledge(self, position: int) -> None:
        self._acked += 1
        self._settled(position)
        if self._returns:
            self._returns.pop(position, None)
        self.store.remove(position)

    def reject(self, position: int) -> None:
        """Dead-letter or discard a message that a consumer rejected without requeueing."""
        size, priority = self._settled(position)
        try:
            message = self.store.get(position)
        except MessageUnavailable:
            self.backlog.put_back(position, size, priority)
            return
        if message is not None:
            self._give_up(position, message, REJECTED)

    def begin_requeue(self) -> None:
        """Pause delivery while messages are requeued in slices.

        Otherwise messages that were never delivered could overtake those that are returned.
        """
        self._returning += 1

    def end_requeue(self) -> None:
        """Resume after `begin_requeue`; the caller then calls `serve`."""
        self._returning -= 1

    def requeue(self, positions: Iterable[int]) -> None:
        """Return messages to their old places without reading them; the caller then calls `serve`."""
        for position in positions:
            size, priority = self._settled(position)
            if not self._counts_returns or not self._is_spent(position):
                self.backlog.put_back(position, size, priority)
        if self.rules.is_limited and not self.rules.rejects:
            self._drop_over_limit()

    def _is_spent(self, position: int) -> bool:
        """Count a return; True if it exceeds the delivery limit, and the message is discarded."""
        limit = self.rules.delivery_limit
        count = self._returns.get(position, 0) + 1
        if limit is not None and count > limit:
            try:
                message = self.store.get(position)
            except MessageUnavailable:
                return False
            if message is not None:
                self._give_up(position, message, DELIVERY_LIMIT)
            return True
        self._returns[position] = count
        self.store.mark_returned(position, count)
        return False

    def _settled(self, position: int) -> tuple[int, int]:
        """Remove it from the unacknowledged ones; the length of its body, and its priority."""
        size = self.unacked.pop(position, 0)
        return size, self._priorities.pop(position, 0) if self._priorities else 0

    def purge(self) -> int:
        """Drop all ready messages and return their number."""
        count = len(self.ready)
        for span in self.backlog.clear():
            self.store.remove_range(span)
        self._returns = {at: n for at, n in self._returns.items() if at in self.unacked}
        return count

    def _give_up(self, position: int, message: Message, reason: str) -> None:
        self._dropped += 1
        self._returns.pop(position, None)
        departure = PendingRemoval(self.store, position)
        self._host.give_up(self, message, reason, departure)
        departure.settle(durable=True)

    @property
    def is_paused(self) -> bool:
        """Whether delivery is paused while messages are requeued or expire in slices."""
        return self._is_expiring or self._returning > 0

    # --- time ----------------------------------------------------------------------------------

    def woken(self, now_ms: int) -> None:
        """Expire and deliver: the time that `Host.wake` was given has come."""
        self._wakes_at = None
        self._is_expiring = False
        self.serve(now_ms)

    def expire(self, now_ms: int) -> bool:
        """Drop up to EXPIRY_SLICE expired messages at the head and schedule the next wake-up.

        False while delivery must pause: more have expired (woken again at once), or the head cannot
        be read now (woken again after RETRY_MS).
        """
        self._is_expiring = False
        dropped = 0
        while (position := self.ready.peek()) is not None:
            try:
                message = self.store.get(position)
            except MessageUnavailable:
                self._wake(now_ms + RETRY_MS)
                return False
            if message is None:
                self.ready.pop()
                continue
            expires_at = self.backlog.expires_at(message)
            if expires_at is None:
                break
            if expires_at > now_ms:
                self._wake(expires_at)
                break
            if dropped == EXPIRY_SLICE:
                self._is_expiring = True
                self._wakes_at = now_ms
                self._host.wake(self, now_ms)
                return False
            self.ready.pop()
            self.backlog.size -= len(message.body)
            self._give_up(position, message, EXPIRED)
            dropped += 1
        return True

    def _wake(self, at_ms: int) -> None:
        if self._wakes_at is None or at_ms < self._wakes_at:
            self._wakes_at = at_ms
            self._host.wake(self, at_ms)
