"""A channel: its consumers, unacknowledged messages, publishing, and confirms."""

from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, TypeAlias

from strom.broker.queues.message_properties import make_message
from strom.queues.consumers import Consumer
from strom.queues.errors import QueueError, access_refused, precondition_failed
from strom.queues.message import Message
from strom.queues.queue import GetResult, Queue
from strom.queues.virtual_host import DEFAULT, VirtualHost
from strom.server.amqp.ack_timeout import DeliveryAges
from strom.server.amqp.confirms import Confirms
from strom.server.amqp.session import Session
from strom.server.amqp.settling import Settling
from strom.server.amqp.transaction import Transaction
from strom.wire.amqp.codec import method_frame
from strom.wire.amqp.content import Content, ContentAssembly, write_content
from strom.wire.amqp.delivering import DeliveryWriter
from strom.wire.amqp.methods import basic
from strom.wire.amqp.protocol import AmqpError, ReplyCode
from strom.wire.amqp.schema import Method

_new = tuple.__new__  # a NamedTuple's own constructor takes twice as long
FRAMES_BYTES = 80
"""Approximate overhead of a delivery besides its body."""

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
        self.assembly: ContentAssembly[basic.Publish] = ContentAssembly(
            session.services.settings.amqp_max_message_bytes
        )
        self.prefetch = 0
        """Of new consumers."""
        self.channel_prefetch = 0
        """Of the whole channel."""
        self.flow_active = True
        self.publishes = False
        self.last_queue = ""
        """The queue last declared, which the empty name means."""
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self._next_tag = 1
        self._ages = DeliveryAges()
        self._settling: Settling | None = None
        """Settlings of `unacked` in progress."""

    def send(self, method: Method) -> None:
        self.out.send(self.number, method)

    # --- publishing ----------------------------------------------------------------------------

    def add_header(self, payload: memoryview) -> None:
        self._assembled(self.assembly.add_header(payload))

    def add_body(self, payload: memoryview) -> None:
        """Add a body frame; RESOURCE_ERROR if incomplete messages exceed the memory limit."""
        before = self.assembly.held_bytes
        content = self.assembly.add_body(payload)
        self.session.services.incomplete_messages.add(self.assembly.held_bytes - before)
        self._assembled(content)

    def _assembled(self, content: Content[basic.Publish] | None) -> None:
        if content is not None:
            self.publish(content.method, content.properties, content.body)

    def publish(self, method: basic.Publish, properties: bytes, body: bytes) -> None:
        """Publish a complete message."""
        if not self.assembly.is_idle:
            self.assembly.expect_method()
        self.publishes = True
        exchange = method.exchange
        if exchange != DEFAULT and self.vhost.exchange(exchange).internal:
            raise access_refused(f"cannot publish to internal exchange '{exchange}'")
        if method.immediate:
            raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
        now_ms = self.queues.clock.now_ms()
        message = make_message(exchange, method.routing_key, properties, body, now_ms)
        if message.user_id is not None and message.user_id != self.session.login.user:
            raise precondition_failed(
                f"user_id property set to '{message.user_id}' but authenticated user was "
                f"'{self.session.login.user}'"
            )
        if self.transaction is not None:
            self.transaction.published.append((message, method.mandatory))
        elif self.confirms is not None:
            receipt = self.confirms.expect()
            self.out.unconfirmed += 1
            if not self.queues.publish(self.vhost, message, receipt) and method.mandatory:
                self.return_message(message)
            receipt.settle(durable=True)
        elif not self.queues.publish(self.vhost, message, None) and method.mandatory:
            self.return_message(message)

    def return_message(self, message: Message) -> None:
        """Return an unroutable mandatory message (basic.return)."""
        returned = basic.Return(
            ReplyCode.NO_ROUTE, "NO_ROUTE", message.exchange, message.routing_key
        )
        self._send_content(returned, message)

    def _send_content(self, method: Any, message: Message) -> None:
        out = self.out
        out.frames.append(method_frame(self.number, method))
        frame_max = self.session.login.frame_max
        write_content(out.frames, self.number, message.properties, message.body, frame_max)
        out.added(len(message.body) + FRAMES_BYTES)

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
        answer = basic.GetOk(tag, got.redelivered, message.exchange, message.routing_key, got.left)
        self._send_content(answer, message)

    def update(self) -> None:
        """Recompute whether deliveries are accepted, and resume them if they are."""
        limit = self.channel_prefetch
        takes = (
            self.flow_active
            and self.out.can_deliver
            and not self.closing
            and not (limit and len(self.unacked) >= limit)
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
        if self.transaction is not None:
            self.transaction.settled.append((self.take(tag, multiple), None))
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
        if self.transaction is not None:
            self.transaction.settled.append((self.take(tag, multiple), requeue))
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
        if tag == 0:
            tags = list(unacked)
        else:
            tags = []
            for known in unacked:  # in the order of their delivery
                if known > tag:
                    break
                tags.append(known)
            if not tags:
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
        self.session.services.incomplete_messages.add(-self.assembly.held_bytes)
        self.assembly.abandon()
        consumers, self.consumers = list(self.consumers.values()), {}
        left: dict[Queue, None] = {}
        for consumer in consumers:
            queue = consumer.queue
            if not queue.deleted:
                queue.consumers.remove(consumer)
                left[queue] = None
        self._return_all()
        if self.confirms is not None:
            # Confirms that are due are sent before channel.close, and counted once.
            self.out.unconfirmed -= self.write_confirms()
            self.out.unconfirmed -= self.confirms.close()
        self.serve(left)
        for queue in left:
            self.declarations.consumer_left(self.vhost, queue)

    def _return_all(self) -> None:
        if self.transaction is not None:
            self.transaction.rollback(self)
        unacked, self.unacked = self.unacked, {}
        ending = Settling(self, unacked, self._next_tag, True)
        begun, self._settling = self._settling, None
        if begun is not None and not begun.done.done():
            begun.successor = ending  # acks from before the close are still applied
        else:
            self.queues.slices.run(ending.step, ending.slices)

    # --- confirming ----------------------------------------------------------------------------

    @property
    def has_confirms(self) -> bool:
        return self.confirms is not None and self.confirms.is_due

    def write_confirms(self) -> int:
        """Confirm messages that have become durable; return their number."""
        return 0 if self.confirms is None else self.confirms.write(self.out.frames, self.number)


def _unknown_tag(tag: int) -> QueueError:
    return precondition_failed(f"unknown delivery tag {tag}")
