"""A channel: its consumers, and the deliveries that they have not acknowledged.

What the client publishes on it is handled in `publishing.py`.
"""

from collections.abc import Coroutine, Iterable
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

from strom.queues.consumers import Consumer
from strom.queues.errors import QueueError, precondition_failed
from strom.queues.message import Message
from strom.queues.queue import GetResult, Queue
from strom.queues.virtual_host import VirtualHost
from strom.server.amqp.ack_timeout import DeliveryAges
from strom.server.amqp.outgoing import FRAMES_BYTES
from strom.server.amqp.publishing import ChannelPublisher
from strom.server.amqp.session import Session
from strom.server.amqp.settling import Settling
from strom.wire.amqp.delivering import DeliveryWriter
from strom.wire.amqp.methods import basic
from strom.wire.amqp.schema import Method

_new = tuple.__new__  # a NamedTuple's own constructor takes twice as long

Work: TypeAlias = Coroutine[Any, Any, None] | None
"""What the connection must await before it handles the next frame; None if all is done."""


class Unacked(NamedTuple):
    """A delivered message that is not acknowledged yet."""

    tag: int
    queue: Queue
    position: int
    consumer: "ChannelConsumer | None"


class ChannelConsumer(Consumer):
    """A consumer with the encoder of its deliveries."""

    __slots__ = ("writer",)

    writer: DeliveryWriter


class Channel:
    """One channel of a connection; queues deliver to it as an `Outlet`."""

    def __init__(self, session: Session, number: int) -> None:
        self.session = session
        self.number = number
        self.vhost: VirtualHost = session.login.vhost
        self.queues = session.services.queues
        self.declarations = session.services.declarations
        self.out = session.out
        self.closing = False
        self.left = False
        self.takes = session.out.can_deliver
        self.consumers: dict[str, ChannelConsumer] = {}
        self.unacked: dict[int, Unacked] = {}
        self.publisher = ChannelPublisher(session, number)
        self.prefetch = 0
        """Of new consumers."""
        self.channel_prefetch = 0
        """Of the whole channel."""
        self.last_queue = ""
        """The queue last declared, which the empty name means."""
        self._next_tag = 1
        self._ages = DeliveryAges()
        self._settling: Settling | None = None
        """Settlings of `unacked` in progress."""

    def send(self, method: Method) -> None:
        self.out.send(self.number, method)

    def respond(self, request: Any, response: Method) -> None:
        """Send a response, unless the request has `no_wait`."""
        if not request.no_wait:
            self.out.send(self.number, response)

    # --- delivering ----------------------------------------------------------------------------

    def deliver(
        self, consumer: Consumer, position: int, message: Message, redelivered: bool
    ) -> None:
        """Send a message to a consumer."""
        tag = self._next_tag
        self._next_tag = tag + 1
        assert isinstance(consumer, ChannelConsumer)  # noqa: S101 - channels add no others
        if not consumer.no_ack:
            self.unacked[tag] = _new(Unacked, (tag, consumer.queue, position, consumer))
            if self.channel_prefetch and len(self.unacked) >= self.channel_prefetch:
                self.takes = False
        out = self.out
        body = message.body
        consumer.writer.write(
            out.frames,
            tag,
            redelivered,
            message.exchange,
            message.routing_key,
            message.properties,
            body,
        )
        out.added(len(body) + FRAMES_BYTES)

    def send_get_ok(self, queue: Queue, got: GetResult, *, no_ack: bool) -> None:
        """Respond to basic.get with a message."""
        tag = self._next_tag
        self._next_tag = tag + 1
        if not no_ack:
            self.unacked[tag] = Unacked(tag, queue, got.position, None)
        message = got.message
        response = basic.GetOk(
            tag, got.redelivered, message.exchange, message.routing_key, got.left
        )
        self.out.send_content(self.number, response, message, self.session.login.frame_max)

    def update(self) -> None:
        """Recompute whether deliveries are accepted, and resume them if they are."""
        limit = self.channel_prefetch
        takes = (
            self.out.can_deliver and not self.closing and not (limit and len(self.unacked) >= limit)
        )
        if takes and not self.takes:
            self.takes = True
            for consumer in self.consumers.values():
                if consumer.parked:
                    consumer.queue.consumers.wake(consumer)
            self.serve({consumer.queue for consumer in self.consumers.values()})
        self.takes = self.takes and takes

    def serve(self, queues: Iterable[Queue]) -> None:
        """Have queues deliver their ready messages."""
        now_ms = self.queues.clock.now_ms()
        for queue in queues:
            if len(queue.ready) and not queue.deleted:
                queue.serve(now_ms)

    # --- acknowledging -------------------------------------------------------------------------

    def acknowledge(self, tag: int, multiple: bool) -> Work:
        """Handle basic.ack; the tag must be unacknowledged."""
        if self.publisher.transaction is not None:
            self.publisher.transaction.settled.append((self.take(tag, multiple), None))
            return None
        if multiple:
            return self._settle_up_to(tag, None)
        one = self.unacked.pop(tag, None)
        if one is None:
            raise _unknown_tag(tag)
        _, queue, position, consumer = one
        queue.acknowledge(position)
        if consumer is not None:
            consumer.unacked -= 1
            if consumer.parked:
                queue.consumers.wake(consumer)
            if len(queue.ready):
                queue.serve(self.queues.clock.now_ms())
        if not self.takes:
            self.update()
        return None

    def refuse(self, tag: int, *, multiple: bool, requeue: bool) -> Work:
        """Handle basic.nack and basic.reject: requeue the messages, or dead-letter or discard them."""
        if self.publisher.transaction is not None:
            self.publisher.transaction.settled.append((self.take(tag, multiple), requeue))
            return None
        if multiple:
            return self._settle_up_to(tag, requeue)
        return self._begin({tag: self.take(tag, multiple=False)[0]}, tag, requeue)

    def _settle_up_to(self, tag: int, requeue: bool | None) -> Work:
        """Settle everything up to a delivery tag; 0 means all (AMQP 0-9-1, basic.ack)."""
        if tag and next(iter(self.unacked), tag + 1) > tag:
            raise _unknown_tag(tag)
        return self._begin(self.unacked, tag or self._next_tag - 1, requeue)

    def _begin(self, unacked: dict[int, Unacked], last_tag: int, requeue: bool | None) -> Work:
        settling = Settling(self, unacked, last_tag, requeue)
        if self.queues.slices.run(settling.step, settling.slices):
            return None
        if unacked is self.unacked:
            self._settling = settling
        return settling.ended()

    def take(self, tag: int, multiple: bool) -> list[Unacked]:
        """Remove and return the unacknowledged messages that a delivery tag means."""
        unacked = self.unacked
        if not multiple:
            if tag not in unacked:
                raise _unknown_tag(tag)
            return [unacked.pop(tag)]
        last = tag or self._next_tag
        tags = list(takewhile(lambda known: known <= last, unacked))  # in the order of delivery
        if tag and not tags:
            raise _unknown_tag(tag)
        return [unacked.pop(known) for known in tags]

    def settle(self, messages: list[Unacked], requeue: bool | None) -> None:
        """Acknowledge (None), requeue (True) or reject (False) messages that were taken."""
        settling = Settling(self, {one.tag: one for one in messages}, self._next_tag, requeue)
        self.queues.slices.run(settling.step, settling.slices)

    def oldest_age_ms(self, now_ms: int) -> int:
        """A lower bound of the age of the oldest unacknowledged delivery."""
        return self._ages.oldest_ms(self.unacked, self._next_tag, now_ms)

    def restore(self, messages: list[Unacked]) -> None:
        """Make messages that were taken unacknowledged again."""
        if messages:
            restored = {one.tag: one for one in messages} | self.unacked
            self.unacked = dict(sorted(restored.items()))

    def recover(self) -> Work:
        """Requeue all unacknowledged messages."""
        unacked, self.unacked = self.unacked, {}
        return self._begin(unacked, self._next_tag, True)

    # --- consumers -----------------------------------------------------------------------------

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """Notify the client (basic.cancel): the queue of a consumer was deleted."""
        if self.consumers.pop(consumer.tag, None) is not None and not self.closing:
            self.send(basic.Cancel(consumer.tag, True))

    def remove_consumer(self, consumer: ChannelConsumer) -> None:
        """Remove a consumer; its unacknowledged messages stay with the channel."""
        queue = consumer.queue
        if not queue.deleted:
            queue.consumers.remove(consumer)
            self.declarations.consumer_left(self.vhost, queue)
            self.serve([queue])

    def leave(self) -> None:
        """Remove all consumers and requeue all unacknowledged messages: the channel is closed."""
        self.left = True
        self.takes = False
        consumers, self.consumers = list(self.consumers.values()), {}
        left: dict[Queue, None] = {}
        for consumer in consumers:
            queue = consumer.queue
            if not queue.deleted:
                queue.consumers.remove(consumer)
                left[queue] = None
        self._return_all()
        self.publisher.close()
        self.serve(left)
        for queue in left:
            self.declarations.consumer_left(self.vhost, queue)

    def _return_all(self) -> None:
        if self.publisher.transaction is not None:
            self.publisher.transaction.rollback(self)
        unacked, self.unacked = self.unacked, {}
        ending = Settling(self, unacked, self._next_tag, True)
        begun, self._settling = self._settling, None
        if begun is not None and not begun.done.done():
            begun.successor = ending  # acks from before the close are still applied
        else:
            self.queues.slices.run(ending.step, ending.slices)


def _unknown_tag(tag: int) -> QueueError:
    return precondition_failed(f"unknown delivery tag {tag}")
