"""What the frames of a connection mean: its handshake, its channels, and how they are closed.

Nothing is read and nothing is awaited here: that is up to `connection.py`.
"""

import asyncio
import logging
from typing import Any, TypeAlias, cast

from strom.queues.errors import QueueError
from strom.server.amqp.channel import Channel, Work
from strom.server.amqp.handlers import dispatch
from strom.server.amqp.handshake import Handshake
from strom.server.amqp.liveness import Liveness
from strom.server.amqp.outgoing import OutgoingFrames
from strom.server.amqp.session import IncompleteMessages, Login, QueueServices, Session
from strom.server.transport.client_transport import ClientTransport
from strom.wire.amqp.frames import Acknowledgement, Frame, FrameReader, Publication
from strom.wire.amqp.methods import basic, decode_method
from strom.wire.amqp.methods import channel as channel_methods
from strom.wire.amqp.methods import connection as methods
from strom.wire.amqp.protocol import (
    BODY_FRAME,
    FRAME_MAX_DEFAULT,
    HEADER_FRAME,
    HEARTBEAT_FRAME,
    METHOD_FRAME,
    AmqpError,
    Closes,
    ReplyCode,
)
from strom.wire.amqp.schema import Method, method_name

log = logging.getLogger(__name__)

MAX_REPLY_TEXT = 255
GOODBYE_SECONDS = 5.0

Item: TypeAlias = Publication | Acknowledgement | Frame


class ProtocolState:
    """The state of one connection's protocol."""

    def __init__(
        self,
        transport: ClientTransport[Any],
        services: QueueServices,
        reader: FrameReader,
        out: OutgoingFrames,
        channels: dict[int, Channel],
        incomplete_messages: IncompleteMessages,
    ) -> None:
        self.handshake: Handshake | None = None
        """None until the protocol header is received."""
        self.session: Session | None = None
        """None until the handshake is complete."""
        self.liveness = Liveness(transport, out)
        self._transport = transport
        self._services = services
        self._reader = reader
        self._out = out
        self._channels = channels
        self._incomplete_messages = incomplete_messages
        self._loop = asyncio.get_running_loop()
        self._is_closing = False
        self._is_told_blocked = False

    # --- opening -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the handshake: the protocol header was received."""
        self.handshake = Handshake(self._services, self._transport.host)
        self._reader.frame_max = FRAME_MAX_DEFAULT
        self._out.send(0, self.handshake.begin())

    def open(self, login: Login) -> None:
        """Open the session: the handshake is complete."""
        self.session = Session(
            self._services, login, self._out, self._channels, self._incomplete_messages
        )
        self._reader.frame_max = login.frame_max
        self.liveness.start_heartbeats(login.heartbeat_s)
        if self._services.queues.block.reason is not None:
            self.set_blocked(self._services.queues.block.reason)

    def set_blocked(self, reason: str | None) -> None:
        """Send connection.blocked or connection.unblocked, if the client accepts it."""
        accepts = self.session is not None and self.session.login.accepts_blocked
        if accepts and (reason is not None) != self._is_told_blocked:
            self._is_told_blocked = reason is not None
            self._out.send(0, methods.Blocked(reason=reason) if reason else methods.Unblocked())

    # --- frames --------------------------------------------------------------------------------

    def handle(self, item: Item) -> Work:
        """Handle a frame, and return what to await before the next one.

        Raises AmqpError or QueueError for a frame that is not for an open channel. An error on an
        open channel closes the channel or the connection.
        """
        channel = self._channels.get(item.channel)
        if channel is None or self._is_closing or channel.closing:
            self._handle_unusual(item, channel)
            return None
        try:
            if type(item) is Publication:
                channel.publisher.publish(item.method, item.properties, item.body)
                return None
            if type(item) is Acknowledgement:
                return channel.acknowledge(item.delivery_tag, item.multiple)
            return self._handle_frame(cast("Frame", item), channel)
        except (AmqpError, QueueError) as error:
            self.fail(error, item.channel, item)
            return None

    def _handle_frame(self, frame: Frame, channel: Channel) -> Work:
        if frame.type == HEADER_FRAME:
            channel.publisher.add_header(frame.payload)
        elif frame.type == BODY_FRAME:
            channel.publisher.add_body(frame.payload)
        elif frame.type == HEARTBEAT_FRAME:
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, f"heartbeat on channel {frame.channel}")
        else:
            channel.publisher.assembly.expect_method()
            return dispatch.handle(channel, decode_method(frame.payload))
        return None

    def _handle_unusual(self, item: Item, channel: Channel | None) -> None:
        """Handle what is not for an open channel."""
        if type(item) is Frame:
            if item.type == HEARTBEAT_FRAME:
                return
            if item.channel == 0 and item.type == METHOD_FRAME:
                self._handle_connection_method(decode_method(item.payload))
                return
            if item.type == METHOD_FRAME and not self._is_closing and self.session is not None:
                method = decode_method(item.payload)
                self._handle_channel_method(self.session, item.channel, method, channel)
                return
        if self._is_closing or (channel is not None and channel.closing):
            return  # it was in flight when the channel or the connection was closed
        if item.channel == 0 or self.session is None:
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, f"frame on channel {item.channel}")
        raise AmqpError(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'")

    def _handle_connection_method(self, method: Method) -> None:
        if isinstance(method, methods.CloseOk):
            self._transport.close()
        elif isinstance(method, methods.Close):
            self.leave()
            self._is_closing = True
            self._out.send(0, methods.CloseOk())
            self._out.flush()
            self._transport.close()
        elif self._is_closing:
            return
        elif self.session is None and self.handshake is not None:
            response = self.handshake.step(method)
            if self.handshake.login is not None:
                self.open(self.handshake.login)
            if response is not None:
                self._out.send(0, response)
        elif isinstance(method, methods.UpdateSecret):
            self._out.send(0, methods.UpdateSecretOk())
        else:
            raise AmqpError(
                ReplyCode.COMMAND_INVALID, f"{method_name(type(method))} was not expected"
            )

    def _handle_channel_method(
        self, session: Session, number: int, method: Method, channel: Channel | None
    ) -> None:
        """Handle a method on a channel that is not open, or is being closed."""
        if channel is not None:
            if isinstance(method, channel_methods.CloseOk):
                del self._channels[number]
            elif isinstance(method, channel_methods.Close):
                self._out.send(number, channel_methods.CloseOk())
        elif not isinstance(method, channel_methods.Open):
            raise AmqpError(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'")
        elif number > session.login.channel_max:
            raise AmqpError(
                ReplyCode.NOT_ALLOWED,
                f"channel {number} exceeds channel_max {session.login.channel_max}",
            )
        else:
            self._channels[number] = Channel(session, number)
            self._out.send(number, channel_methods.OpenOk())

    # --- closing -------------------------------------------------------------------------------

    def fail(self, error: AmqpError | QueueError, number: int, cause: object = None) -> None:
        """Close the channel, or the connection, with the reply code."""
        transport = self._transport
        if not transport.is_open or self._is_closing:
            return
        text = str(error)[:MAX_REPLY_TEXT]
        code = error.code if isinstance(error, AmqpError) else ReplyCode[error.reason.name]
        class_id, method_id = _blamed(cause)
        channel = self._channels.get(number)
        if number and channel is not None and code.closes is Closes.CHANNEL:
            log.info("Closing channel %d of %s: %s", number, transport.peer, text)
            channel.leave()
            channel.closing = True
            self._out.send(number, channel_methods.Close(code, text, class_id, method_id))
            return
        log.info("Closing the connection of %s: %s", transport.peer, text)
        self.leave()
        self._is_closing = True
        self._out.send(0, methods.Close(code, text, class_id, method_id))
        self._out.flush()
        self._loop.call_later(GOODBYE_SECONDS, transport.close, "no response to connection.close")

    def leave(self) -> None:
        """Requeue all unacknowledged messages, and delete the connection's exclusive queues."""
        for channel in tuple(self._channels.values()):
            channel.leave()
        self._channels.clear()
        session = self.session
        if session is not None:
            queues, vhost = self._services.queues, session.login.vhost
            for queue in [queue for queue in vhost.queues.values() if queue.owner is session]:
                queues.tasks.run(self._services.declarations.delete_queue(vhost, queue))


def _blamed(cause: object) -> tuple[int, int]:
    """The ids of the class and method that caused an error."""
    match cause:
        case Publication():
            index = basic.Publish.INDEX
        case Acknowledgement():
            index = basic.Ack.INDEX
        case Method():
            index = cause.INDEX
        case Frame(type=1) if len(cause.payload) >= 4:
            index = int.from_bytes(cause.payload[:4], "big")
        case _:
            index = 0
    return index >> 16, index & 0xFFFF
