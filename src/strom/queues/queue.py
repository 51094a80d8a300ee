"""One queue: messages are ready in order, delivered, and then acknowledged, requeued or discarded.

A message is identified by its position in the queue's log. The store holds messages by position; the
host does what reaches beyond the queue. Both are passed in, so that a queue runs without a disk.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from strom.metrics.queues import QueueReading
from strom.queues.acknowledged import Range
from strom.queues.arguments import QueueRules, read_rules
from strom.queues.consumers import Consumer, Consumers
from strom.queues.dead_letters import DELIVERY_LIMIT, EXPIRED, MAX_LENGTH, REJECTED
from strom.queues.definitions import QueueDefinition
from strom.queues.message import Message
from strom.queues.ready import FifoReady, PriorityReady
from strom.queues.receipts import Receipt

DELIVERY_COUNT = "x-delivery-count"
EXPIRY_SLICE = 100
"""Expired messages that are dropped in one slice: with a dead letter exchange, a few milliseconds."""
RETRY_MS = 1000
"""How long to wait before a message that could not be read is read again."""
NO_POSITION = -1
"""The position of a message that was delivered directly and needs no acknowledgement."""


class MessageUnavailable(Exception):
    """A message exists but cannot be read now: out of file descriptors or memory."""


class Store(Protocol):
    """The messages of a queue by position."""

    is_damaged: bool
    """Whether its log accepts no more writes."""

    def add(self, message: Message, receipt: Receipt | None) -> int:
        """Add a message and return its position.

        The receipt is settled once the message is on disk, or at once if it needs no disk.
        """
        ...

    def get(self, position: int) -> Message | None:
        """Return the message, or None if that position has none; raise MessageUnavailable for now."""
        ...

    def mark_leaving(self, position: int) -> None:
        """The message is no longer delivered, but its copy elsewhere is not durable yet."""
        ...

    def remove(self, position: int) -> None: ...

    def remove_range(self, span: Range) -> None: ...

    def mark_delivered(self, position: int) -> None:
        """A consumer has it: after a restart it is delivered as redelivered."""
        ...

    def mark_returned(self, position: int, count: int) -> None:
        """A consumer returned it; `count` is the number of its returns so far."""
        ...


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


class PendingRemoval:
    """Removes a message only once its copy elsewhere is durable.

    Otherwise a power cut could lose the copy while the removal of the original is already on disk.
    """

    is_patient = True

    def __init__(self, store: Store, position: int) -> None:
        self._store = store
        self._position = position
        self._waiting = 1
        self._refused = False
        store.mark_leaving(position)

    def message(self) -> Message | None:
        """Read the message again from the store; None if it cannot be read now."""
        try:
            message = self._store.get(self._position)
        except MessageUnavailable:
            return None
        self._store.mark_leaving(self._position)
        return message

    def expect(self) -> None:
        self._waiting += 1

    def settle(self, *, durable: bool) -> None:
        """Count one result; after a failure the message stays, and a restart delivers it again."""
        self._waiting -= 1
        self._refused = self._refused or not durable
        if not self._waiting and not self._refused:
            self._store.remove(self._position)


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
        self.ready_bytes = 0
        self._published = self._delivered = self._redelivered = self._acked = self._dropped = 0
        self._host = host
        self.ready: FifoReady | PriorityReady = (
            PriorityReady(self.rules.max_priority) if self.rules.max_priority else FifoReady()
        )
        self._returns: dict[int, int] = {}
        """Returns by position, where they are counted (delivery limit, quorum queues)."""
        self._counts_returns = self.rules.delivery_limit is not None or self.rules.counts_deliveries
        self._priorities: dict[int, int] = {}
        """Priorities of unacknowledged messages, in a queue with priorities."""
        self._returning = 0
        """Requeues in progress."""
        self._redelivered_before = 0
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
            self.ready_bytes,
            len(self.consumers),
            self._published,
            self._delivered,
            self._redelivered,
            self._acked,
            self._dropped,
        )

    def restore(self, *, redelivered_before: int, returns: dict[int, int]) -> None:
        """Take over the state of before a restart; `ready` already holds the remaining messages."""
        self._redelivered_before = redelivered_before
        self._returns = returns
        self._may_expire = self._may_expire or len(self.ready) > 0

    # --- in ------------------------------------------------------------------------------------

    def refuses(self, count: int, size: int) -> bool:
        """Whether it rejects `count` more messages of `size` bytes in total."""
        if self.store.is_damaged:
            return True
        rules = self.rules
        if not rules.is_limited or not rules.rejects or not self._is_over(count, size):
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
        is_over = rules.is_limited and rules.rejects and self._is_over(1, len(message.body))
        if is_over and not is_committed:
            if rules.overflow == "reject-publish-dlx":
                self._dropped += 1
                self._host.give_up(self, message, MAX_LENGTH, receipt)
            return False
        self._published += 1
        position = self.store.add(message, receipt)
        self.ready.push(position, message.priority if rules.max_priority else 0)
        self.ready_bytes += len(message.body)
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

    def _is_over(self, more: int, more_bytes: int) -> bool:
        rules = self.rules
        if rules.max_length is not None and len(self.ready) + more > rules.max_length:
            return True
        limit = rules.max_length_bytes
        return limit is not None and self.ready_bytes + more_bytes > limit

    def _drop_over_limit(self) -> None:
        while len(self.ready) and self._is_over(0, 0):
            try:
                taken = self._take()
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
                taken = self._take()
            except MessageUnavailable:
                self._wake(now_ms + RETRY_MS)
                return
            if taken is None:
                continue
            position, message, redelivered = taken
            self.store.mark_delivered(position)
            self._delivered += 1
            self._redelivered += redelivered
            if consumer.no_ack:
                self._forget(position)
            else:
                self._note_unacked(position, message)
                consumer.unacked += 1
            shown = self._shown(position, message)
            consumer.outlet.deliver(consumer, position, shown, redelivered)
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
                taken = self._take()
            except MessageUnavailable:
                return None
            if taken is None:
                continue
            position, message, redelivered = taken
            self.store.mark_delivered(position)
            self._delivered += 1
            self._redelivered += redelivered
            if no_ack:
                self._forget(position)
            else:
                self._note_unacked(position, message)
            if self._may_expire:
                self.expire(now_ms)  # the next head may have waited for its turn to expire
            return GetResult(position, self._shown(position, message), redelivered, len(self.ready))
        return None

    def _take(self) -> tuple[int, Message, bool] | None:
        """Take the next ready message: its position, itself, and whether it is redelivered.

        None if its position has no message any more. One that cannot be read now stays at the head.
        """
        position = self.ready.peek()
        assert position is not None  # noqa: S101 - callers check that one is ready
        message = self.store.get(position)
        popped = self.ready.pop()
        if message is None or popped is None:
            return None
        self.ready_bytes -= len(message.body)
        return position, message, popped[1] or position < self._redelivered_before

    def _shown(self, position: int, message: Message) -> Message:
        """Add `x-delivery-count` if the message was returned, as RabbitMQ's quorum queues do."""
        if not self.rules.counts_deliveries or not (count := self._returns.get(position)):
            return message
        return message.with_properties(message.parsed.changed({DELIVERY_COUNT: count}))

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
            self._put_back(position, size, priority)
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
                self._put_back(position, size, priority)
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

    def _put_back(self, position: int, size: int, priority: int) -> None:
        self.ready.put_back(position, priority)
        self.ready_bytes += size

    def purge(self) -> int:
        """Drop all ready messages and return their number."""
        count = len(self.ready)
        for span in self.ready.clear():
            self.store.remove_range(span)
        self._returns = {at: n for at, n in self._returns.items() if at in self.unacked}
        self.ready_bytes = 0
        return count

    def _give_up(self, position: int, message: Message, reason: str) -> None:
        self._dropped += 1
        self._returns.pop(position, None)
        departure = PendingRemoval(self.store, position)
        self._host.give_up(self, message, reason, departure)
        departure.settle(durable=True)

    def _forget(self, position: int) -> None:
        self._returns.pop(position, None)
        self.store.remove(position)

    @property
    def is_paused(self) -> bool:
        """Whether delivery is paused while messages are requeued or expire in slices."""
        return self._is_expiring or self._returning > 0

    # --- time ----------------------------------------------------------------------------------

    @property
    def is_expiring(self) -> bool:
        """Whether more messages have expired than one slice drops."""
        return self._is_expiring

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
            expires_at = self._expires_at(message)
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
            self.ready_bytes -= len(message.body)
            self._give_up(position, message, EXPIRED)
            dropped += 1
        return True

    def _expires_at(self, message: Message) -> int | None:
        limits = [
            limit
            for limit in (self.rules.message_ttl_ms, message.expiration_ms)
            if limit is not None
        ]
        return message.timestamp_ms + min(limits) if limits else None

    def _wake(self, at_ms: int) -> None:
        if self._wakes_at is None or at_ms < self._wakes_at:
            self._wakes_at = at_ms
            self._host.wake(self, at_ms)
