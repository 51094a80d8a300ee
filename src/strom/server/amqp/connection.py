"""One connection of a queue client: frames in, frames out, and the channels on it.

Frames are handled in the order in which they come. While a change waits for the disk, no further frames
of the connection are handled. What is to be sent gathers until the end of the event loop's turn. A
client that does not read gets no more deliveries, and one that publishes faster than the disk takes it is
not read for a while.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, cast

from strom.model.errors import ApiError, StorageError
from strom.queues.virtual_host import VirtualHost
from strom.server.amqp.channel import Channel
from strom.server.amqp.context import QueueServices
from strom.server.amqp.handlers import dispatch
from strom.server.amqp.handshake import Handshake
from strom.server.amqp.receiving import FrameBuffer
from strom.wire.amqp.codec import method_frame
from strom.wire.amqp.frames import Acknowledgement, Frame, FrameReader, Publication
from strom.wire.amqp.methods import channel as channel_methods
from strom.wire.amqp.methods import connection as methods
from strom.wire.amqp.methods import decode_method
from strom.wire.amqp.protocol import (
    BODY_FRAME,
    FRAME_MAX_DEFAULT,
    HEADER_FRAME,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    AmqpError,
    Closes,
    ReplyCode,
)
from strom.wire.amqp.schema import Method, method_name
from strom.wire.amqp.table import Buffer

log = logging.getLogger(__name__)

MAX_GATHERED = 256 * 1024
"""So many bytes are gathered before deliveries stop for the rest of the turn."""
MAX_UNSENT = 4 * 1024 * 1024
"""A client that has not read so many bytes of answers is not read either."""
MAX_UNCONFIRMED = 20_000
"""A client with so many messages that wait for the disk is not read until there are fewer."""
WAIT_SECONDS = 0.001
MOST_WAITS = 20
"""A publisher that outruns consumers waits so often for them, with every full buffer."""
MAX_REPLY_TEXT = 255
GOODBYE_SECONDS = 5.0


class AmqpConnection(asyncio.BufferedProtocol):
    """Reads frames, hands them on, writes frames."""

    def __init__(self, services: QueueServices, connections: "set[AmqpConnection]") -> None:
        self.services = services
        self.loop = services.queues.loop
        self.turn = services.queues.turn
        self.vhost: VirtualHost | None = None
        self.channels: dict[int, Channel] = {}
        self.out: list[Buffer] = []
        self.out_bytes = 0
        self.can_send = True
        """Whether deliveries may be added."""
        self.unconfirmed = 0
        self.peer = "?"
        self.host = ""
        self.reader = FrameReader(max_body=services.settings.amqp_max_message_bytes)
        self.handshake: Handshake | None = Handshake(self)
        self.client_takes_blocked = False
        self.frame_max = FRAME_MAX_DEFAULT
        self.channel_max = services.settings.amqp_channel_max
        self.user = ""
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._buffer = FrameBuffer()
        self._greeted = False
        self._closing = False
        self._busy: asyncio.Task[Any] | None = None
        self._flush_due = False
        self._has_rest = False
        """Whether the socket surely holds more than was read."""
        self._rest_waits = 0
        self._writing_paused = False
        self._told_blocked = False
        self._heartbeat_s = 0
        self._last_received = self._last_sent = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None

    # --- the event loop's calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self.host = peer[0] if peer else ""
        self._connections.add(self)
        if not self.services.slots.take(self):
            self.drop("there are too many connections")
            return
        seconds = self.services.settings.amqp_handshake_timeout_ms / 1000
        self._timer = self.loop.call_later(seconds, self.drop, "it did not log in")

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: what it had goes back to the queues."""
        self._transport = None
        self._connections.discard(self)
        self.services.slots.release(self)
        if self._timer is not None:
            self._timer.cancel()
        self._leave()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._buffer.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        buffer = self._buffer
        buffer.end += nbytes
        self._last_received = self.loop.time()
        # Some event loops read on while there is more, and would not come to the end of their turn.
        self._has_rest = not buffer.room
        self._work()

    def eof_received(self) -> bool:
        """The client will send no more."""
        return False

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._writing_paused = True
        self._set_can_send()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writing_paused = False
        self._set_can_send()
        self.go_on()

    # --- in ------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Handle what has come."""
        buffer, reader = self._buffer, self.reader
        try:
            if not self._greeted and not self._greet():
                return
            goes_on = self._transport is not None and self._may_go_on()
            while goes_on:
                item = reader.read(buffer.view, buffer.start, buffer.end)
                if item is None:
                    break
                buffer.start = item.end
                self._handle(item)
                goes_on = (
                    self._busy is None
                    and self.unconfirmed < MAX_UNCONFIRMED
                    and self.out_bytes <= MAX_UNSENT
                    and self._transport is not None
                )
        except AmqpError as error:
            self.fail(error, 0)
            buffer.start = buffer.end  # nobody knows where the next frame would begin
        except Exception as error:
            log.exception("Serving the queue client %s failed", self.peer)
            self.fail(AmqpError(ReplyCode.INTERNAL_ERROR, str(error)), 0)
            buffer.start = buffer.end
        if self._transport is not None:
            buffer.make_room(reader.wanted if self._may_go_on() else 0)
            self._read_or_not()

    def _greet(self) -> bool:
        """Look at the protocol header, the first eight bytes."""
        buffer = self._buffer
        received = bytes(buffer.view[buffer.start : buffer.end][: len(PROTOCOL_HEADER)])
        if received != PROTOCOL_HEADER[: len(received)]:
            self.out.append(PROTOCOL_HEADER)
            self.flush()
            self.drop("it speaks another protocol")
            return False
        if len(received) < len(PROTOCOL_HEADER):
            return False
        buffer.start += len(PROTOCOL_HEADER)
        self._greeted = True
        assert self.handshake is not None  # noqa: S101 - it has only begun
        self.handshake.begin()
        return True

    def _may_go_on(self) -> bool:
        return (
            self._busy is None
            and self.unconfirmed < MAX_UNCONFIRMED
            and not self._is_held()
            and not self._has_much_unsent()
        )

    def _has_much_unsent(self) -> bool:
        """Whether the client asks for more than it reads."""
        if self.out_bytes > MAX_UNSENT:
            return True
        transport = self._transport
        if not self._writing_paused or transport is None:
            return False
        return transport.get_write_buffer_size() > MAX_UNSENT

    def _may_read(self) -> bool:
        return self._may_go_on() and not self._has_rest

    def _is_held(self) -> bool:
        """Whether publishers are held back, and this is one."""
        return self.services.queues.blocked is not None and any(
            channel.publishes for channel in self.channels.values()
        )

    def _read_or_not(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._may_read():
            if not transport.is_reading():
                transport.resume_reading()
        elif transport.is_reading():
            transport.pause_reading()
            if self._has_rest:
                self._rest_waits = 0
                self.loop.call_soon(self._take_rest)

    def _take_rest(self) -> None:
        """Read on; a little later if consumers are just behind: then less goes through the log."""
        if self.services.queues.memory.pressed and self._rest_waits < MOST_WAITS:
            self._rest_waits += 1
            self.loop.call_later(WAIT_SECONDS, self._take_rest)
            return
        self._has_rest = False
        self._read_or_not()

    def go_on(self) -> None:
        """What was waited for has come."""
        if self._transport is not None and not self._transport.is_reading():
            self._work()

    def _handle(self, item: Publication | Acknowledgement | Frame) -> None:
        channel = self.channels.get(item.channel)
        if channel is None or self.vhost is None or self._closing or channel.closing:
            self._handle_unusual(item, channel)
            return
        try:
            if type(item) is Publication:
                channel.publish(item.method, item.properties, item.body)
            elif type(item) is Acknowledgement:
                self._run(channel.acknowledge(item.delivery_tag, item.multiple))
            else:
                self._handle_frame(cast("Frame", item), channel)
        except AmqpError as error:
            self.fail(error, item.channel, item)

    def _handle_frame(self, frame: Frame, channel: Channel) -> None:
        if frame.type == HEADER_FRAME:
            channel.add_header(frame.payload)
        elif frame.type == BODY_FRAME:
            channel.add_body(frame.payload)
        elif frame.type == HEARTBEAT_FRAME:
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, "a heartbeat on a channel")
        else:
            channel.assembly.expect_method()
            self._run(dispatch.handle(channel, decode_method(frame.payload)))

    def _handle_unusual(
        self, item: Publication | Acknowledgement | Frame, channel: Channel | None
    ) -> None:
        """Whatever is not for an open channel."""
        if type(item) is Frame:
            if item.type == HEARTBEAT_FRAME:
                return
            if item.channel == 0 and item.type == 1:
                self._handle_connection_method(decode_method(item.payload))
                return
            if item.type == 1 and not self._closing and self.vhost is not None:
                self._handle_channel_method(item.channel, decode_method(item.payload), channel)
                return
        if self._closing or (channel is not None and channel.closing):
            return  # what was on its way when it was closed
        if item.channel == 0 or self.vhost is None:
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, "not now")
        raise AmqpError(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'")

    def _handle_connection_method(self, method: Method) -> None:
        if isinstance(method, methods.CloseOk):
            self.drop("it was closed")
        elif isinstance(method, methods.Close):
            self._leave()
            self._closing = True
            self.send(0, methods.CloseOk())
            self.flush()
            self._hang_up()
        elif self._closing:
            return
        elif self.handshake is not None:
            self.handshake.step(method)
        elif isinstance(method, methods.UpdateSecret):
            self.send(0, methods.UpdateSecretOk())
        else:
            raise AmqpError(
                ReplyCode.COMMAND_INVALID, f"{method_name(type(method))} was not expected"
            )

    def _handle_channel_method(self, number: int, method: Method, channel: Channel | None) -> None:
        if channel is not None:  # it is being closed
            if isinstance(method, channel_methods.CloseOk):
                del self.channels[number]
            elif isinstance(method, channel_methods.Close):
                self.send(number, channel_methods.CloseOk())
        elif not isinstance(method, channel_methods.Open):
            raise AmqpError(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'")
        elif number > self.channel_max:
            raise AmqpError(
                ReplyCode.NOT_ALLOWED, f"there are no more channels than that: {number}"
            )
        else:
            self.channels[number] = Channel(self, number)
            self.send(number, channel_methods.OpenOk())

    def _run(self, work: Coroutine[Any, Any, None] | None) -> None:
        """Finish a handler that waits, before anything else of this connection is handled."""
        if work is None:
            return
        self._busy = self.loop.create_task(work)
        self._busy.add_done_callback(self._work_is_done)

    def _work_is_done(self, task: "asyncio.Task[Any]") -> None:
        self._busy = None
        error = None if task.cancelled() else task.exception()
        number, method = getattr(error, "place", (0, None))
        if isinstance(error, AmqpError):
            self.fail(error, number, method)
        elif isinstance(error, ApiError | StorageError):
            self.fail(AmqpError(ReplyCode.RESOURCE_ERROR, str(error)), number, method)
        elif error is not None:
            log.error("A request of %s failed", self.peer, exc_info=error)
            self.fail(AmqpError(ReplyCode.INTERNAL_ERROR, str(error)), number, method)
        if self._transport is not None:
            self._work()

    # --- out -----------------------------------------------------------------------------------

    def send(self, channel: int, method: Method) -> None:
        """Send a method."""
        written = method_frame(channel, method)
        self.out.append(written)
        self.out_bytes += len(written)
        self.flush_soon()

    def flush_soon(self) -> None:
        """Send what has gathered at the end of this turn."""
        if not self._flush_due:
            self._flush_due = True
            self.turn.send_later(self)

    def gathered(self, size: int) -> None:
        """So many bytes were added to `out`."""
        self.out_bytes += size
        if not self._flush_due:
            self.flush_soon()
        if self.out_bytes > MAX_GATHERED and self.can_send:
            self._set_can_send()

    def flush(self) -> None:
        """Send what has gathered."""
        self._flush_due = False
        for channel in self.channels.values():
            if channel.has_confirms:
                channel.write_confirms()
        out, self.out = self.out, []
        if self.out_bytes > MAX_UNSENT:
            self.loop.call_soon(self.go_on)
        self.out_bytes = 0
        transport = self._transport
        if transport is None or not out:
            return
        self._last_sent = self.loop.time()
        if len(out) == 1:
            transport.write(cast("bytes", out[0]))
        else:
            transport.write(b"".join(out))
        if not self.can_send:
            self._set_can_send()

    def _set_can_send(self) -> None:
        can_send = not self._writing_paused and self.out_bytes <= MAX_GATHERED
        if can_send != self.can_send:
            self.can_send = can_send
            for channel in tuple(self.channels.values()):
                channel.update()

    def confirmed(self, count: int) -> None:
        """So many messages wait for the disk no more."""
        was_full = self.unconfirmed >= MAX_UNCONFIRMED
        self.unconfirmed -= count
        if was_full and self.unconfirmed < MAX_UNCONFIRMED:
            self.loop.call_soon(self.go_on)

    # --- after the handshake -------------------------------------------------------------------

    def opened(self, vhost: VirtualHost, *, heartbeat_s: int) -> None:
        """The client has logged in and chosen a virtual host."""
        self.vhost = vhost
        self.handshake = None
        self._heartbeat_s = heartbeat_s
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if heartbeat_s:
            self._timer = self.loop.call_later(heartbeat_s / 2, self._beat)
        if self.services.queues.blocked is not None:
            self.tell_blocked(self.services.queues.blocked)

    def _beat(self) -> None:
        now = self.loop.time()
        if now - self._last_received > 2 * self._heartbeat_s and self._may_go_on():
            self.drop("nothing was heard of it for two heartbeats")
            return
        if now - self._last_sent >= self._heartbeat_s / 2:
            self.out.append(HEARTBEAT)
            self.flush_soon()
        self._timer = self.loop.call_later(self._heartbeat_s / 2, self._beat)

    def tell_blocked(self, reason: str | None) -> None:
        """Publishers are held back, or no longer."""
        if self.client_takes_blocked and (reason is not None) != self._told_blocked:
            self._told_blocked = reason is not None
            blocked = methods.Blocked(reason=reason) if reason else methods.Unblocked()
            self.send(0, blocked)
        if reason is None:
            self.loop.call_soon(self.go_on)

    # --- the end -------------------------------------------------------------------------------

    def fail(self, error: AmqpError, number: int, cause: object = None) -> None:
        """Close the channel, or the connection, with the reply code."""
        if self._transport is None or self._closing:
            return
        text = str(error)[:MAX_REPLY_TEXT]
        class_id, method_id = _blamed(cause)
        channel = self.channels.get(number)
        if number and channel is not None and error.code.closes is Closes.CHANNEL:
            log.info("Closing channel %d of %s: %s", number, self.peer, text)
            channel.leave()
            channel.closing = True
            self.send(number, channel_methods.Close(error.code, text, class_id, method_id))
            return
        log.info("Closing the connection of %s: %s", self.peer, text)
        self._leave()
        self._closing = True
        self.out.append(method_frame(0, methods.Close(error.code, text, class_id, method_id)))
        self.flush()
        self.loop.call_later(GOODBYE_SECONDS, self.drop, "it did not say goodbye")

    def shut_down(self) -> None:
        """The broker stops."""
        if self.vhost is not None:
            self.fail(AmqpError(ReplyCode.CONNECTION_FORCED, "broker forced connection closure"), 0)
        self._hang_up()

    def _hang_up(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def drop(self, reason: str) -> None:
        """End the connection without a word."""
        if self._transport is not None:
            log.info("Closing the connection of the queue client %s: %s", self.peer, reason)
            transport, self._transport = self._transport, None
            transport.close() if self._closing or not self._greeted else transport.abort()

    def _leave(self) -> None:
        """Give back all messages; exclusive queues go."""
        for channel in tuple(self.channels.values()):
            channel.leave()
        self.channels.clear()
        vhost = self.vhost
        if vhost is not None:
            for queue in [queue for queue in vhost.queues.values() if queue.owner is self]:
                self.services.queues.run(self.services.declarations.delete_queue(vhost, queue))


def _blamed(cause: object) -> tuple[int, int]:
    """Class and method that led to an error."""
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
