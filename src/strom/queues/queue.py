"""One queue: messages wait in order, go out to consumers, come back or are gone.

A message is known by its position in the queue's log. The store holds messages by position; the host
does what reaches beyond the queue. Both are given, so that a queue can be run without a disk.
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
EXPIRED_AT_ONCE = 100
"""So many expired messages are dropped in one slice: with a dead letter exchange, some milliseconds."""
RETRY_MS = 1000
"""After so long it is tried again to read a message that could not be read."""
NOWHERE = -1
"""The position of a message that was delivered at once and needs no acknowledgement."""


class MessageUnavailable(Exception):
    """A message is there but cannot be read now: a descriptor or memory is missing."""


class Store(Protocol):
    """The messages of a queue by position."""

    is_damaged: bool
    """Whether nothing can be made durable in it any more."""

    def add(self, message: Message, receipt: Receipt | None) -> int:
        """Keep a message; its position. The receipt is settled when it is as safe as it asks for."""
        ...

    def get(self, position: int) -> Message | None:
        """A message that was added; None if there is none at that position.

        MessageUnavailable if it cannot be read now.
        """
        ...

    def leaving(self, position: int) -> None:
        """Nobody gets a message any more, but it is not gone yet."""
        ...

    def gone(self, position: int) -> None:
        """Nobody needs a message any more."""
        ...

    def gone_range(self, span: Range) -> None:
        """Nobody needs these any more."""
        ...

    def delivered(self, position: int) -> None:
        """A consumer has it: after a restart it counts as delivered again."""
        ...

    def returned(self, position: int, count: int) -> None:
        """It came back, for the so-manieth time."""
        ...


class Host(Protocol):
    """What a queue cannot do by itself."""

    def give_up(
        self, queue: "Queue", message: Message, reason: str, receipt: Receipt | None
    ) -> None:
        """A message leaves the queue unconsumed; it may go to a dead letter exchange.

        The receipt is settled when the dead letter is safe.
        """
        ...

    def wake(self, queue: "Queue", at_ms: int) -> None:
        """Have `expire` called at that time."""
        ...


class PendingRemoval:
    """Notes a message as gone when what became of it is safe elsewhere, and not before.

    Else a power cut could take the new copy of a message, and leave the note that the old one is gone.
    """

    is_patient = True

    def __init__(self, store: Store, position: int) -> None:
        self._store = store
        self._position = position
        self._waiting = 1
        self._refused = False
        store.leaving(position)

    def message(self) -> Message | None:
        """The message once more, from where it still is; None if it cannot be read now."""
        try:
            message = self._store.get(self._position)
        except MessageUnavailable:
            return None
        self._store.leaving(self._position)
        return message

    def expect(self) -> None:
        """One more queue has to make it safe."""
        self._waiting += 1

    def settle(self, *, safe: bool) -> None:
        """One has, or never will: then the message stays, and a restart offers it again."""
        self._waiting -= 1
        self._refused = self._refused or not safe
        if not self._waiting and not self._refused:
            self._store.gone(self._position)


class GetResult(NamedTuple):
    """A message that was asked for singly."""

    position: int
    message: Message
    redelivered: bool
    left: int


class Queue:
    """A queue at work."""

    def __init__(self, definition: QueueDefinition, store: Store, host: Host) -> None:
        self.definition = definition
        self.name = definition.name
        self.rules: QueueRules = read_rules(definition.arguments)
        self.consumers = Consumers(single_active=self.rules.single_active_consumer)
        self.store = store
        self.unacked: dict[int, int] = {}
        """What consumers have: positions, and the lengths of the bodies."""
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
        """How often messages came back, where that is counted."""
        self._counts_returns = self.rules.delivery_limit is not None or self.rules.counts_deliveries
        self._priorities: dict[int, int] = {}
        """The priorities of what consumers have, in a queue with priorities."""
        self._returning = 0
        """How many requeues have begun and not ended."""
        self._redelivered_before = 0
        self._may_expire = self.rules.message_ttl_ms is not None
        self._is_expiring = False
        """Whether the head has expired, and the rest of what has is dropped in later slices."""
        self._wakes_at: int | None = None

    @property
    def waiting(self) -> int:
        """How many messages wait for a consumer."""
        return len(self.ready)

    def reading(self) -> QueueReading:
        """For metrics: what is in it, and what was counted since the broker started."""
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
        """After a restart, when `ready` holds what is left."""
        self._redelivered_before = redelivered_before
        self._returns = returns
        self._may_expire = self._may_expire or len(self.ready) > 0

    # --- in ------------------------------------------------------------------------------------

    def refuses(self, count: int, size: int) -> bool:
        """Whether so many messages of so many bytes together are more than it takes now."""
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
        """Take a message; False if the queue is full, or its log damaged, and refuses it.

        One that is part of a committed transaction is taken in any case.
        """
        # Who is patient keeps its own copy, and waits until the queue is restored.
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
        """Deliver a message that never waited."""
        self._delivered += 1
        if consumer.no_ack:
            consumer.outlet.deliver(consumer, NOWHERE, message, False)
            return
        position = self.store.add(message, receipt)
        self.store.delivered(position)
        self._note_unacked(position, message)
        if message.expiration_ms is not None:
            self._may_expire = True  # it may come back
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
                return  # the next message that comes drops it too
            if taken is not None:
                position, message, _ = taken
                self._give_up(position, message, MAX_LENGTH)

    # --- out -----------------------------------------------------------------------------------

    def serve(self, now_ms: int) -> None:
        """Deliver what waits, as far as consumers take it."""
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
            self.store.delivered(position)
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
        if not self.unacked:  # else one with an expiration may come back
            self._may_expire = self.rules.message_ttl_ms is not None

    def get(self, now_ms: int, *, no_ack: bool) -> GetResult | None:
        """Take one message, if there is one that can be read now; none while `is_paused`."""
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
            self.store.delivered(position)
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
        """Take the next of those that wait: its position, itself, and whether it is redelivered.

        None if there is none at its position any more. One that cannot be read now stays where it is.
        """
        position = self.ready.peek()
        assert position is not None  # noqa: S101 - something waits
        message = self.store.get(position)
        popped = self.ready.pop()
        if message is None or popped is None:
            return None
        self.ready_bytes -= len(message.body)
        return position, message, popped[1] or position < self._redelivered_before

    def _shown(self, position: int, message: Message) -> Message:
        """The message as consumers see it: with its delivery count where that is kept."""
        if not self.rules.counts_deliveries or not (count := self._returns.get(position)):
            return message
        return message.with_properties(message.parsed.changed({DELIVERY_COUNT: count}))

    # --- back ----------------------------------------------------------------------------------

    def acknowledge(self, position: int) -> None:
        """A consumer is done with it."""
        self._acked += 1
        self._settled(position)
        if self._returns:
            self._returns.pop(position, None)
        self.store.gone(position)

    def reject(self, position: int) -> None:
        """A consumer does not want it, and nobody else shall have it."""
        size, priority = self._settled(position)
        try:
            message = self.store.get(position)
        except MessageUnavailable:
            self._put_back(position, size, priority)
            return
        if message is not None:
            self._give_up(position, message, REJECTED)

    def begin_requeue(self) -> None:
        """Much is requeued in slices: until it has ended no consumer gets anything.

        Else what waits for the first time could go out before what came back.
        """
        self._returning += 1

    def end_requeue(self) -> None:
        """All of it is back; `serve` afterwards."""
        self._returning -= 1

    def requeue(self, positions: Iterable[int]) -> None:
        """Back to where they were; `serve` afterwards. Messages are not read for that."""
        for position in positions:
            size, priority = self._settled(position)
            if not self._counts_returns or not self._is_spent(position):
                self._put_back(position, size, priority)
        if self.rules.is_limited and not self.rules.rejects:
            self._drop_over_limit()

    def _is_spent(self, position: int) -> bool:
        """Count one more return; whether it was one too many, and the message is given up."""
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
        self.store.returned(position, count)
        return False

    def _settled(self, position: int) -> tuple[int, int]:
        """No consumer has it any more; the length of its body, and its priority."""
        size = self.unacked.pop(position, 0)
        return size, self._priorities.pop(position, 0) if self._priorities else 0

    def _put_back(self, position: int, size: int, priority: int) -> None:
        self.ready.put_back(position, priority)
        self.ready_bytes += size

    def purge(self) -> int:
        """Drop everything that waits; how many it were."""
        count = len(self.ready)
        for span in self.ready.clear():
            self.store.gone_range(span)
        self._returns = {at: n for at, n in self._returns.items() if at in self.unacked}
        self.ready_bytes = 0
        return count

    def _give_up(self, position: int, message: Message, reason: str) -> None:
        self._dropped += 1
        self._returns.pop(position, None)
        departure = PendingRemoval(self.store, position)
        self._host.give_up(self, message, reason, departure)
        departure.settle(safe=True)

    def _forget(self, position: int) -> None:
        self._returns.pop(position, None)
        self.store.gone(position)

    @property
    def is_paused(self) -> bool:
        """Whether messages come back or expire in slices: until that has ended nobody gets any."""
        return self._is_expiring or self._returning > 0

    # --- time ----------------------------------------------------------------------------------

    @property
    def is_expiring(self) -> bool:
        """Whether more has expired than one slice drops: ask again when the rest is dropped too."""
        return self._is_expiring

    def woken(self, now_ms: int) -> None:
        """It is the time that was asked for, or almost."""
        self._wakes_at = None
        self._is_expiring = False
        self.serve(now_ms)

    def expire(self, now_ms: int) -> bool:
        """Drop what is too old at the head; ask to be woken for the next.

        At most a slice of it: if the head has expired even then, False, and it is asked to be woken
        at once. Nobody gets anything until then. The same, a little later, if the head cannot be read.
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
            if dropped == EXPIRED_AT_ONCE:
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
