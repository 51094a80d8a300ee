"""One AMQP connection: received frames, and its channels.

Frames are handled in the order of their arrival. While a change waits for the disk, no further frames of
the connection are handled. A client that does not read gets no more deliveries (`outgoing.py`), and a
client that publishes faster than the disk accepts is not read meanwhile.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, cast

from strom.model.errors import ApiError, StorageError
from strom.queues.errors import QueueError
from strom.server.amqp.channel import Channel
from strom.server.amqp.context import QueueServices
from strom.server.amqp.handlers import dispatch
from strom.server.amqp.handshake import Handshake
from strom.server.amqp.liveness import Liveness
from strom.server.amqp.outgoing import MAX_UNCONFIRMED, MAX_UNSENT, OutgoingFrames
from strom.server.amqp.receiving import FrameBuffer
from strom.server.amqp.session import Login, Session
from strom.server.transport.client_transport import ClientTransport
from strom.wire.amqp.frames import Acknowledgement, Frame, FrameReader, Publication
from strom.wire.amqp.methods import channel as channel_methods
from strom.wire.amqp.methods import connection as methods
from strom.wire.amqp.methods import decode_method
from strom.wire.amqp.protocol import (
    BODY_FRAME,
    FRAME_MAX_DEFAULT,
    HEADER_FRAME,
    HEARTBEAT_FRAME,
    METHOD_FRAME,
    PROTOCOL_HEADER,
    AmqpError,
    Closes,
    ReplyCode,
)
from strom.wire.amqp.schema import Method, method_name

log = logging.getLogger(__name__)

WAIT_SECONDS = 0.001
MOST_WAITS = 20
"""How often a publisher that outruns consumers waits for them, with every full buffer."""
MAX_REPLY_TEXT = 255
GOODBYE_SECONDS = 5.0


class AmqpConnection:
    """Parses frames and passes them to channels."""

    def __init__(self, transport: ClientTransport[Any], services: QueueServices) -> None:
        self.input = FrameBuffer()
        self.channels: dict[int, Channel] = {}
        self.out = OutgoingFrames(transport, self.channels, services.queues.turn, self)
        self.session: Session | None = None
        """None until the handshake is complete."""
        self._services = services
        self._loop = services.queues.loop
        self._transport = transport
        self._liveness = Liveness(transport, self.out)
        self._reader = FrameReader(max_body=services.settings.amqp_max_message_bytes)
        self._handshake: Handshake | None = None
        """None until the protocol header is received."""
        self._closing = False
        self._busy: asyncio.Task[Any] | None = None
        self._has_rest = False
        """Whether the last read filled the buffer: the socket probably holds more."""
        self._rest_waits = 0
        self._is_told_blocked = False

    # --- the transport's calls -----------------------------------------------------------------

    def on_connected(self) -> None:
        """Start the timeout for the handshake."""
        self._liveness.await_login(self._services.settings.amqp_handshake_timeout_ms / 1000)

    def on_disconnected(self) -> None:
        """Requeue what the client has not acknowledged."""
        self._liveness.stop()
        self._leave()

    def on_received(self) -> None:
        self._liveness.received_at = self._loop.time()
        # Some event loops read on while there is more, and would not end their turn.
        self._has_rest = not self.input.room
        self._work()

    def on_write_paused(self) -> None:
        """Stop deliveries: the client reads too slowly."""
        self.out.update()

    def on_write_resumed(self) -> None:
        """Resume deliveries: the client has caught up."""
        self.out.update()
        self.resume()

    def flush(self) -> None:
        """Send the collected frames at the end of the turn."""
        if self.out.flush():
            self._loop.call_soon(self.resume)

    # --- reading -------------------------------------------------------------------------------

    def _work(self) -> None:
        """Handle the received frames."""
        buffer, reader, out = self.input, self._reader, self.out
        try:
            if self._handshake is None and not self._check_protocol_header():
                return
            goes_on = self._transport.is_open and self._may_handle()
            while goes_on:
                item = reader.read(buffer.view, buffer.start, buffer.end)
                if item is None:
                    break
                buffer.start = item.end
                self._handle(item)
                goes_on = (
                    self._busy is None
                    and out.unconfirmed < MAX_UNCONFIRMED
                    and out.size <= MAX_UNSENT
                    and self._transport.is_open
                )
        except (AmqpError, QueueError) as error:
            self.fail(error, 0)
            buffer.start = buffer.end  # the start of the next frame is unknown
        except Exception as error:
            log.exception("Serving the queue client %s failed", self._transport.peer)
            self.fail(AmqpError(ReplyCode.INTERNAL_ERROR, str(error)), 0)
            buffer.start = buffer.end
        if self._transport.is_open:
            buffer.make_room(reader.wanted if self._may_handle() else 0)
            self._update_reading()

    def resume(self) -> None:
        """Continue with the received frames: what the connection waited for has happened."""
        if self._transport.is_open and not self._transport.is_reading:
            self._work()

    def _check_protocol_header(self) -> bool:
        """Check the protocol header, the first eight bytes; False while it is incomplete or wrong."""
        buffer = self.input
        received = bytes(buffer.view[buffer.start : buffer.end][: len(PROTOCOL_HEADER)])
        if received != PROTOCOL_HEADER[: len(received)]:
            self._transport.write(PROTOCOL_HEADER)
            self._transport.close("unsupported protocol header")
            return False
        if len(received) < len(PROTOCOL_HEADER):
            return False
        buffer.start += len(PROTOCOL_HEADER)
        self._handshake = Handshake(self._services, self._transport.host)
        self._reader.frame_max = FRAME_MAX_DEFAULT
        self.out.send(0, self._handshake.begin())
        return True

    def _may_handle(self) -> bool:
        """Whether frames may be handled: no request is in progress and the client is not blocked."""
        return self._busy is None and not self.out.is_full and not self._is_blocked()

    def _is_blocked(self) -> bool:
        """Whether publishers are blocked, and this connection has published."""
        return self._services.queues.block.reason is not None and any(
            channel.publishes for channel in self.channels.values()
        )

    def _update_reading(self) -> None:
        transport = self._transport
        if self._may_handle() and not self._has_rest:
            transport.resume_reading()
            return
        if transport.is_write_paused and transport.is_pool_exhausted:
            transport.await_pool()
        if transport.is_reading:
            transport.pause_reading()
            if self._has_rest:
                self._rest_waits = 0
                self._loop.call_soon(self._take_rest)

    def _take_rest(self) -> None:
        """Read on, a little later if consumers lag slightly: then less has to be written to the log."""
        if self._services.queues.stores.memory.pressed and self._rest_waits < MOST_WAITS:
            self._rest_waits += 1
            self._loop.call_later(WAIT_SECONDS, self._take_rest)
            return
        self._has_rest = False
        self._update_reading()

    # --- frames --------------------------------------------------------------------------------

    def _handle(self, item: Publication | Acknowledgement | Frame) -> None:
        channel = self.channels.get(item.channel)
        if channel is None or self._closing or channel.closing:
            self._handle_unusual(item, channel)
            return
        try:
            if type(item) is Publication:
                channel.publish(item.method, item.properties, item.body)
            elif type(item) is Acknowledgement:
                self._run(channel.acknowledge(item.delivery_tag, item.multiple))
            else:
                self._handle_frame(cast("Frame", item), channel)
        except (AmqpError, QueueError) as error:
            self.fail(error, item.channel, item)

    def _handle_frame(self, frame: Frame, channel: Channel) -> None:
        if frame.type == HEADER_FRAME:
            channel.add_header(frame.payload)
        elif frame.type == BODY_FRAME:
            channel.add_body(frame.payload)
        elif frame.type == HEARTBEAT_FRAME:
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, f"heartbeat on channel {frame.channel}")
        else:
            channel.assembly.expect_method()
            self._run(dispatch.handle(channel, decode_method(frame.payload)))

    def _handle_unusual(
        self, item: Publication | Acknowledgement | Frame, channel: Channel | None
    ) -> None:
        """Handle what is not for an open channel."""
        if type(item) is Frame:
            if item.type == HEARTBEAT_FRAME:
                return
            if item.channel == 0 and item.type == METHOD_FRAME:
                self._handle_connection_method(decode_method(item.payload))
                return
            if item.type == METHOD_FRAME and not self._closing and self.session is not None:
                method = decode_method(item.payload)
                self._handle_channel_method(self.session, item.channel, method, channel)
                return
        if self._closing or (channel is not None and channel.closing):
            return  # it was in flight when the channel or the connection was closed
        if item.channel == 0 or self.session is None:
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, f"frame on channel {item.channel}")
        raise AmqpError(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'")

    def _handle_connection_method(self, method: Method) -> None:
        if isinstance(method, methods.CloseOk):
            self._transport.close()
        elif isinstance(method, methods.Close):
            self._leave()
            self._closing = True
            self.out.send(0, methods.CloseOk())
            self.flush()
            self._transport.close()
        elif self._closing:
            return
        elif self.session is None and self._handshake is not None:
            response = self._handshake.step(method)
            if self._handshake.login is not None:
                self._opened(self._handshake.login)
            if response is not None:
                self.out.send(0, response)
        elif isinstance(method, methods.UpdateSecret):
            self.out.send(0, methods.UpdateSecretOk())
        else:
            raise AmqpError(
                ReplyCode.COMMAND_INVALID, f"{method_name(type(method))} was not expected"
            )

    def _opened(self, login: Login) -> None:
        """Open the session: the handshake is complete."""
        self.session = Session(self._services, login, self.out, self.channels)
        self._reader.frame_max = login.frame_max
        self._liveness.start_heartbeats(login.heartbeat_s)
        if self._services.queues.block.reason is not None:
            self.set_blocked(self._services.queues.block.reason)

    def _handle_channel_method(
        self, session: Session, number: int, method: Method, channel: Channel | None
    ) -> None:
        """Handle a method on a channel that is not open, or is being closed."""
        if channel is not None:
            if isinstance(method, channel_methods.CloseOk):
                del self.channels[number]
            elif isinstance(method, channel_methods.Close):
                self.out.send(number, channel_methods.CloseOk())
        elif not isinstance(method, channel_methods.Open):
            raise AmqpError(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'")
        elif number > session.login.channel_max:
            raise AmqpError(
                ReplyCode.NOT_ALLOWED,
                f"channel {number} exceeds channel_max {session.login.channel_max}",
            )
        else:
            self.channels[number] = Channel(session, number)
            self.out.send(number, channel_methods.OpenOk())

    def _run(self, work: Coroutine[Any, Any, None] | None) -> None:
        """Run a handler that waits; no other frame of this connection is handled meanwhile."""
        if work is None:
            return
        self._busy = self._loop.create_task(work)
        self._busy.add_done_callback(self._work_is_done)

    def _work_is_done(self, task: "asyncio.Task[Any]") -> None:
        self._busy = None
        error = None if task.cancelled() else task.exception()
        number, method = getattr(error, "place", (0, None))
        if isinstance(error, AmqpError | QueueError):
            self.fail(error, number, method)
        elif isinstance(error, ApiError | StorageError):
            self.fail(AmqpError(ReplyCode.RESOURCE_ERROR, str(error)), number, method)
        elif error is not None:
            log.error("A request of %s failed", self._transport.peer, exc_info=error)
            self.fail(AmqpError(ReplyCode.INTERNAL_ERROR, str(error)), number, method)
        if self._transport.is_open:
            self._work()

    def set_blocked(self, reason: str | None) -> None:
        """Send connection.blocked or connection.unblocked, and stop or resume reading a publisher."""
        accepts = self.session is not None and self.session.login.accepts_blocked
        if accepts and (reason is not None) != self._is_told_blocked:
            self._is_told_blocked = reason is not None
            blocked = methods.Blocked(reason=reason) if reason else methods.Unblocked()
            self.out.send(0, blocked)
        if reason is None:
            self._loop.call_soon(self.resume)

    # --- the end -------------------------------------------------------------------------------

    def fail(self, error: AmqpError | QueueError, number: int, cause: object = None) -> None:
        """Close the channel, or the connection, with the reply code."""
        transport = self._transport
        if not transport.is_open or self._closing:
            return
        text = str(error)[:MAX_REPLY_TEXT]
        code = error.code if isinstance(error, AmqpError) else ReplyCode[error.reason.name]
        class_id, method_id = _blamed(cause)
        channel = self.channels.get(number)
        if number and channel is not None and code.closes is Closes.CHANNEL:
            log.info("Closing channel %d of %s: %s", number, transport.peer, text)
            channel.leave()
            channel.closing = True
            self.out.send(number, channel_methods.Close(code, text, class_id, method_id))
            # Unconfirmed messages of this channel may have paused reading of the connection.
            self._loop.call_soon(self.resume)
            return
        log.info("Closing the connection of %s: %s", transport.peer, text)
        self._leave()
        self._closing = True
        self.out.send(0, methods.Close(code, text, class_id, method_id))
        self.flush()
        self._loop.call_later(GOODBYE_SECONDS, transport.close, "no response to connection.close")

    def shut_down(self) -> None:
        if self.session is not None:
            self.fail(AmqpError(ReplyCode.CONNECTION_FORCED, "broker forced connection closure"), 0)
        self._transport.close()

    def _leave(self) -> None:
        """Requeue all unacknowledged messages, and delete the connection's exclusive queues."""
        for channel in tuple(self.channels.values()):
            channel.leave()
        self.channels.clear()
        session = self.session
        if session is not None:
            queues, vhost = self._services.queues, session.login.vhost
            for queue in [queue for queue in vhost.queues.values() if queue.owner is session]:
                queues.tasks.run(self._services.declarations.delete_queue(vhost, queue))


def _blamed(cause: object) -> tuple[int, int]:
    """The ids of the class and method that caused an error."""
    if isinstance(cause, Publication):
        return 60, 40
    if isinstance(cause, Acknowledgement):
        return 60, 80
    if isinstance(cause, Method):
        return cause.CLASS_ID, cause.METHOD_ID
    if isinstance(cause, Frame) and cause.type == 1 and len(cause.payload) >= 4:
        index = int.from_bytes(cause.payload[:4], "big")
        return index >> 16, index & 0xFFFF
    return 0, 0
