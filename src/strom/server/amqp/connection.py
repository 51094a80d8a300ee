"""One AMQP connection: when its frames are read, and what they wait for.

Frames are handled in the order of their arrival. While a change waits for the disk, no further frames of
the connection are handled. A client that does not read gets no more deliveries (`outgoing.py`), and a
client that publishes faster than the disk accepts is not read meanwhile.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from strom.model.errors import ApiError, StorageError
from strom.queues.errors import QueueError
from strom.server.amqp.channel import Channel
from strom.server.amqp.outgoing import MAX_UNCONFIRMED, MAX_UNSENT, OutgoingFrames
from strom.server.amqp.protocol_state import ProtocolState
from strom.server.amqp.receiving import GROWTH_BYTES, FrameBuffer
from strom.server.amqp.session import IncompleteMessages, QueueServices
from strom.server.transport.client_transport import ClientTransport
from strom.server.transport.reservation import Reservation
from strom.server.transport.slow_uploads import Upload
from strom.wire.amqp.frames import FrameReader
from strom.wire.amqp.protocol import PROTOCOL_HEADER, AmqpError, ReplyCode

log = logging.getLogger(__name__)

WAIT_SECONDS = 0.001
MOST_WAITS = 20
"""How often a publisher that outruns consumers waits for them, with every full buffer."""


class AmqpConnection:
    """Reads frames and has them handled."""

    def __init__(self, transport: ClientTransport[Any], services: QueueServices) -> None:
        self.input = FrameBuffer()
        self.channels: dict[int, Channel] = {}
        self.out = OutgoingFrames(transport, self.channels, services.queues.turn, self)
        self._services = services
        self._loop = services.queues.loop
        self._transport = transport
        self._reader = FrameReader(max_body=services.settings.amqp_max_message_bytes)
        memory = services.memory
        self._reservation = Reservation(memory.pool_of, "", self._loop, self.resume)
        self._buffer_memory = Reservation(lambda _: memory.buffers, "", self._loop, self.resume)
        self.state = ProtocolState(
            transport,
            services,
            self._reader,
            self.out,
            self.channels,
            IncompleteMessages(self._reservation, memory.largest_request),
        )
        self._busy: asyncio.Task[Any] | None = None
        self._has_rest = False
        """Whether the last read filled the buffer: the socket probably holds more."""
        self._rest_waits = 0

    # --- the transport's calls -----------------------------------------------------------------

    @property
    def upload(self) -> Upload | None:
        """The incomplete messages, or the incomplete large frame, if they are read or wait for memory."""
        for reservation in (self._reservation, self._buffer_memory):
            if reservation.is_waiting:
                return Upload(self._transport, reservation)
        if self._reservation.size:
            holding = self._reservation
        elif self._buffer_memory.size and not self.input.fits_small:
            holding = self._buffer_memory
        else:
            return None
        # A client that has its other requests handled all the time would keep its memory for ever.
        is_read = not self.out.is_unread and self._busy is None
        if self._transport.is_reading or not is_read:
            return Upload(self._transport, holding, is_read=is_read)
        return None

    def on_connected(self) -> None:
        """Start the timeout for the handshake."""
        self._reservation.host = self._buffer_memory.host = self._transport.host
        self.state.liveness.await_login(self._services.settings.amqp_handshake_timeout_ms / 1000)

    def on_disconnected(self) -> None:
        """Requeue what the client has not acknowledged."""
        self.state.liveness.stop()
        self.state.leave()
        self._reservation.release()
        self._buffer_memory.release()
        self.input = FrameBuffer()

    def on_received(self) -> None:
        self.state.liveness.received_at = self._loop.time()
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
        buffer, reader, out, state = self.input, self._reader, self.out, self.state
        try:
            if state.handshake is None and not self._check_protocol_header():
                return
            goes_on = self._transport.is_open and self._may_handle()
            while goes_on:
                item = reader.read(buffer.view, buffer.start, buffer.end)
                if item is None:
                    if buffer.is_full:
                        item = reader.read_part(buffer.view, 0, buffer.end)
                    if item is None:
                        self._grow(buffer)
                        break
                buffer.start = item.end
                work = state.handle(item)
                if work is not None:
                    self._run(work)
                goes_on = (
                    work is None
                    and out.unconfirmed < MAX_UNCONFIRMED
                    and out.size <= MAX_UNSENT
                    and not self._reservation.is_waiting
                    and self._transport.is_open
                )
        except (AmqpError, QueueError) as error:
            state.fail(error, 0)
            buffer.start = buffer.end  # the start of the next frame is unknown
        except Exception as error:
            log.exception("Serving the queue client %s failed", self._transport.peer)
            state.fail(AmqpError(ReplyCode.INTERNAL_ERROR, str(error)), 0)
            buffer.start = buffer.end
        if self._transport.is_open:
            buffer.make_room()
            self._update_reading()

    def _grow(self, buffer: FrameBuffer) -> None:
        """Get a large buffer: for a frame that needs it, or for a busy client if memory is free."""
        if buffer.room or buffer.is_large:
            return
        size = min(GROWTH_BYTES, self._buffer_memory.pool.capacity)
        if self._buffer_memory.take(size):
            buffer.grow()
        elif buffer.is_full and self._reservation.size:
            # It must not wait, because others could wait for what it holds.
            text = "a large frame arrives in the middle of a message while memory is short"
            raise AmqpError(ReplyCode.RESOURCE_ERROR, text)
        elif buffer.is_full:
            self._buffer_memory.wait(size)

    def release_buffer(self) -> None:
        """Give a large buffer back if it is not needed, or others wait for one; called every second."""
        buffer = self.input
        if not buffer.is_large:
            return
        is_needed = buffer.is_needed()  # each time, because it starts to observe again
        wanted = self._buffer_memory.pool.is_wanted
        if buffer.fits_small and (wanted or not is_needed):
            buffer.shrink()
            self._buffer_memory.release()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a handler that waits; no other frame of this connection is handled meanwhile."""
        self._busy = self._loop.create_task(work)
        self._busy.add_done_callback(self._work_is_done)

    def _work_is_done(self, task: "asyncio.Task[Any]") -> None:
        self._busy = None
        error = None if task.cancelled() else task.exception()
        number, method = getattr(error, "place", (0, None))
        if isinstance(error, ApiError | StorageError):
            error = AmqpError(ReplyCode.RESOURCE_ERROR, str(error))
        elif error is not None and not isinstance(error, AmqpError | QueueError):
            log.error("A request of %s failed", self._transport.peer, exc_info=error)
            error = AmqpError(ReplyCode.INTERNAL_ERROR, str(error))
        if error is not None:
            self.state.fail(error, number, method)
        if self._transport.is_open:
            self._work()

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
        self.state.begin()
        return True

    def _may_handle(self) -> bool:
        """Whether frames may be handled: no request is in progress and the client is not blocked."""
        is_waiting = self._reservation.is_waiting or self._buffer_memory.is_waiting
        return (
            self._busy is None
            and not is_waiting
            and not self.out.is_full
            and not self._is_blocked()
        )

    def _is_blocked(self) -> bool:
        """Whether publishers are blocked, and this connection has published."""
        return self._services.queues.block.reason is not None and any(
            channel.publisher.has_published for channel in self.channels.values()
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
        if self._transport.is_open:
            # Memory may have been granted meanwhile: then what was received comes first, and `resume`
            # would find the connection read already.
            self._work()

    # --- the listener's calls ------------------------------------------------------------------

    def set_blocked(self, reason: str | None) -> None:
        """Notify the client that publishers are blocked, or not any more, and resume reading it."""
        self.state.set_blocked(reason)
        if reason is None:
            self._loop.call_soon(self.resume)

    def fail(self, error: AmqpError | QueueError, number: int) -> None:
        """Close the channel, or the connection, with the reply code."""
        self.state.fail(error, number)
        # Unconfirmed messages of the channel may have paused reading of the connection.
        self._loop.call_soon(self.resume)

    def shut_down(self) -> None:
        if self.state.session is not None:
            self.state.fail(
                AmqpError(ReplyCode.CONNECTION_FORCED, "broker forced connection closure"), 0
            )
        self._transport.close()
