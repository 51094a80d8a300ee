"""The publishing half of a channel: contents become messages, which are routed, confirmed or returned."""

from strom.broker.queues.message_properties import make_message
from strom.queues.errors import access_refused, precondition_failed
from strom.queues.message import Message
from strom.queues.virtual_host import DEFAULT
from strom.server.amqp.confirms import Confirms
from strom.server.amqp.session import Session
from strom.server.amqp.transaction import Transaction
from strom.wire.amqp.content import Content, ContentAssembly
from strom.wire.amqp.methods import basic
from strom.wire.amqp.protocol import AmqpError, ReplyCode


class ChannelPublisher:
    """Publishes what a client sends on one channel."""

    def __init__(self, session: Session, number: int) -> None:
        self.assembly: ContentAssembly[basic.Publish] = ContentAssembly(
            session.services.settings.amqp_max_message_bytes
        )
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.has_published = False
        self._reserved = 0
        self._session = session
        self._number = number
        self._queues = session.services.queues
        self._vhost = session.login.vhost
        self._out = session.out

    def add_header(self, payload: memoryview) -> None:
        """Add the header of a message, and reserve memory for its body."""
        content = self.assembly.add_header(payload)
        if content is None:
            self._reserved = self._session.incomplete_messages.expect(self.assembly.body_size)
        self._assembled(content)

    def add_body(self, payload: memoryview) -> None:
        content = self.assembly.add_body(payload)
        if content is not None:
            self._release()
        self._assembled(content)

    def _release(self) -> None:
        reserved, self._reserved = self._reserved, 0
        if reserved:
            self._session.incomplete_messages.release(reserved)

    def _assembled(self, content: Content[basic.Publish] | None) -> None:
        if content is not None:
            self.publish(content.method, content.properties, content.body)

    def publish(self, method: basic.Publish, properties: bytes, body: bytes) -> None:
        """Publish a complete message."""
        if not self.assembly.is_idle:
            self.assembly.expect_method()
        self.has_published = True
        exchange = method.exchange
        if exchange != DEFAULT and self._vhost.exchange(exchange).internal:
            raise access_refused(f"cannot publish to internal exchange '{exchange}'")
        if method.immediate:
            raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "immediate=true")
        now_ms = self._queues.clock.now_ms()
        message = make_message(exchange, method.routing_key, properties, body, now_ms)
        if message.user_id is not None and message.user_id != self._session.login.user:
            raise precondition_failed(
                f"user_id property set to '{message.user_id}' but authenticated user was "
                f"'{self._session.login.user}'"
            )
        if self.transaction is not None:
            self.transaction.published.append((message, method.mandatory))
        elif self.confirms is not None:
            receipt = self.confirms.expect()
            self._out.unconfirmed += 1
            if not self._queues.publish(self._vhost, message, receipt) and method.mandatory:
                self.return_message(message)
            receipt.settle(durable=True)
        elif not self._queues.publish(self._vhost, message, None) and method.mandatory:
            self.return_message(message)

    def return_message(self, message: Message) -> None:
        """Return an unroutable mandatory message (basic.return)."""
        returned = basic.Return(
            ReplyCode.NO_ROUTE, "NO_ROUTE", message.exchange, message.routing_key
        )
        self._out.send_content(self._number, returned, message, self._session.login.frame_max)

    @property
    def has_confirms(self) -> bool:
        return self.confirms is not None and self.confirms.is_due

    def write_confirms(self) -> int:
        """Confirm messages that have become durable; return their number."""
        return 0 if self.confirms is None else self.confirms.write(self._out.frames, self._number)

    def close(self) -> None:
        """Discard an incomplete message, and send the confirms that are due: the channel is closed."""
        self._release()
        self.assembly.abandon()
        if self.confirms is not None:
            # Confirms that are due are sent before channel.close, and counted once.
            self._out.unconfirmed -= self.write_confirms()
            self._out.unconfirmed -= self.confirms.close()
