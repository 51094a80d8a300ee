"""One client connection of Kafka's protocol: requests in, responses out in the order of the requests.

A connection has one request in progress at a time, as in Kafka, except for those that the dispatcher
allows to begin early (produce requests): several of them may wait for the same flush. Responses are sent
in the order of the requests. A client that does not read its responses gets no more requests handled.

The receive buffer is reused. A handler may look at the bytes of its request only until it returns or
first awaits, unless its pending response holds the frame: then nothing is received until it is done, or
until `release_frame`.
"""

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from strom.model.errors import ProtocolError
from strom.server.kafka.api import CloseCallbacks, PendingResponse
from strom.server.kafka.receive_buffer import ReceiveBuffer
from strom.server.transport.client_transport import ClientTransport, Part
from strom.server.transport.drop_reason import DropReason
from strom.server.transport.reservation import Reservation
from strom.server.transport.slow_uploads import Upload

if TYPE_CHECKING:
    from strom.server.kafka.listener import KafkaListener

log = logging.getLogger(__name__)

MAX_IN_FLIGHT = 128
"""Requests of one connection in progress at once."""

Parts: TypeAlias = list[Part]


class Dispatch(Protocol):
    """Handles the requests of a connection."""

    def may_begin_early(self, frame: memoryview) -> bool:
        """Whether this request may begin while earlier ones of its kind are in flight."""
        ...

    def __call__(
        self, connection: "KafkaConnection", frame: memoryview
    ) -> Parts | PendingResponse[Parts] | None:
        """Begin a request; None if it gets no response. ProtocolError ends the connection."""
        ...


class KafkaConnection:
    """Reads length-prefixed frames, passes them to `dispatch`, sends the responses."""

    def __init__(
        self, transport: ClientTransport[Any], listener: "KafkaListener", dispatch: Dispatch
    ) -> None:
        self.peer = "?"
        self.frame_began = 0.0
        """When the frame being received began; 0 if there is none."""
        self.last_active = listener.loop.time()
        self.on_close = CloseCallbacks()
        self.input = ReceiveBuffer()
        self._transport = transport
        self._listener = listener
        self._dispatch = dispatch
        self._frame_limit = listener.frame_limit(trusted=False)
        self._in_flight: deque[PendingResponse[Parts] | Parts] = deque()
        self._trusted = False
        self._early = False
        """Whether the requests in flight may begin early."""
        self._works = False
        self._held_back = False
        self._frame_is_held = False
        """Whether a request in flight still reads its bytes: then the buffer must not change."""
        self.reservation = Reservation(
            listener.memory.pool_of, "", listener.loop, self._memory_granted
        )

    @property
    def frame_size(self) -> int:
        """The size of the frame being received."""
        return self.input.frame_size

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for a response."""
        return bool(self._in_flight)

    @property
    def is_receiving(self) -> bool:
        """Whether a request is incomplete because of its client: it is excused while we do not read."""
        return self.frame_began > 0 and not self._is_busy()

    @property
    def upload(self) -> Upload | None:
        """The request being received, if it waits for memory, or holds some and waits for its client."""
        reservation = self.reservation
        if reservation.is_waiting:
            return Upload(self._transport, reservation)
        if not reservation.size:
            return None
        is_unread = self._is_unread()
        if not is_unread and not self.is_receiving:
            return None
        return Upload(self._transport, reservation, is_read=not is_unread)

    # --- the transport's calls -----------------------------------------------------------------

    def on_connected(self) -> None:
        self.peer = self._transport.peer
        self.reservation.host = self._transport.host

    def on_disconnected(self) -> None:
        """Abandon the client's pending responses, and release its memory."""
        for response in self._in_flight:
            if isinstance(response, PendingResponse):
                response.abandon()
        self._in_flight.clear()
        self.reservation.release()
        self.input = ReceiveBuffer()
        self.on_close.call()

    def on_write_paused(self) -> None:
        """The client reads too slowly: `_is_busy` holds until it has caught up."""

    # --- requests ------------------------------------------------------------------------------

    def _work(self) -> None:
        """Do what can be done now: called when bytes arrive, or a pending response is ready."""
        transport = self._transport
        if self._works or not transport.is_open:
            return
        self._works = True
        try:
            transport.send(self._begin_requests([]))
            while not self.input.is_empty and self._has_more_to_do():
                transport.send(self._begin_requests([]))
            self._make_room()
        except ProtocolError as error:
            self.close(str(error))
        except Exception as error:
            log.exception("Serving %s failed", self.peer)
            self.close(str(error))
        finally:
            self._works = False
        self._update_reading()

    on_received = on_write_resumed = _work

    def _has_more_to_do(self) -> bool:
        """Whether sending has unblocked the next request."""
        if self._is_busy() or not self._transport.is_open:
            return False
        return self.input.peek(self._frame_limit) is not None

    def _begin_requests(self, out: Parts) -> Parts:
        """Begin the requests that may begin; return the responses that can be sent at once."""
        received = self.input
        if self._in_flight:
            self._collect(out)
        while not self._is_busy() and self._transport.is_open:
            frame = None if received.is_empty else received.peek(self._frame_limit)
            if frame is None:
                break
            early = self._dispatch.may_begin_early(frame)
            if self._in_flight and not (early and self._early):
                self._held_back = True
                break
            self._early = early
            received.take()
            self.frame_began = 0.0
            with frame:
                response = self._dispatch(self, frame)
            self._on_valid_request()
            if isinstance(response, PendingResponse):
                response.result.add_done_callback(self._on_response_ready)
                self._in_flight.append(response)
                if response.holds_frame:
                    # It has not applied its changes either, so nothing may overtake it.
                    self._frame_is_held = self._held_back = True
            elif response is not None and self._in_flight:
                self._in_flight.append(response)
            elif response is not None:
                out += response
                if not early:
                    break  # it may be large: first see whether the client reads it
        return out

    def _on_valid_request(self) -> None:
        """Allow large requests from now on: the client speaks the protocol."""
        self.last_active = self._listener.loop.time()
        if not self._trusted:
            self._trusted = True
            self._frame_limit = self._listener.frame_limit(trusted=True)

    def _make_room(self) -> None:
        received = self.input
        if self._frame_is_held:
            return
        reservation = self.reservation
        if received.is_empty and not reservation.size:  # as after nearly all small requests
            self.frame_began = 0.0
            received.make_room()
            return
        # A fetch may wait for days: a request behind it gets no memory, and what was granted is returned.
        waits = len(self._in_flight) > 0 and not self._early
        if reservation.size and (waits or self._is_busy()) and received.is_nearly_empty:
            received.shrink()
            reservation.release()
        if received.is_empty:
            self.frame_began = 0.0
        elif self._is_busy():
            return
        elif not self.frame_began:
            self.frame_began = self._listener.loop.time()
        needed = received.make_room()
        if needed > 0 and waits:
            self._held_back = True
        elif needed > 0:
            if reservation.take(needed) or (
                self._listener.reclaim(needed) and reservation.take(needed)
            ):
                received.grant(needed)
            else:
                # Nothing may be held while waiting, or connections would wait for each other.
                received.shrink()
                reservation.wait(needed)
        elif needed < 0 or (reservation.size and reservation.pool.is_wanted):
            self.shrink_buffer()

    def shrink_buffer(self) -> bool:
        """Replace an empty large buffer by a small one; True if it did."""
        if not self.reservation.size or not self.input.is_empty or self._frame_is_held:
            return False
        self.input.shrink()
        self.reservation.release()
        return True

    def release_frame(self) -> None:
        """The request in flight needs its bytes no more, though it may wait for days.

        Its memory is given back, and the end of the connection is noticed from now on.
        """
        if self._frame_is_held:
            self._frame_is_held = self._held_back = False
            self._work()

    def _memory_granted(self) -> None:
        if self._transport.is_open:
            self._work()

    # --- responses -----------------------------------------------------------------------------

    def _on_response_ready(self, _: object) -> None:
        self._work()

    def _collect(self, out: Parts) -> None:
        """Add every response that is ready, in the order of the requests."""
        in_flight = self._in_flight
        while in_flight:
            response = in_flight[0]
            if isinstance(response, PendingResponse):
                if not response.result.done():
                    return
                if response.result.cancelled():
                    raise ProtocolError("a request was cancelled")
                if (error := response.result.exception()) is not None:
                    if isinstance(error, ProtocolError):
                        # Not the same error: with this frame in its traceback, it would keep itself
                        # and all that its request has made, until a full garbage collection.
                        raise ProtocolError(str(error))
                    raise ProtocolError("a request failed, as logged above")
                out += response.convert(response.result.result())
            else:
                out += response
            in_flight.popleft()
        self._held_back = self._frame_is_held = False

    # --- back-pressure -------------------------------------------------------------------------

    def _is_unread(self) -> bool:
        """Whether the client has not read its responses."""
        return self._transport.is_write_paused or len(self._transport.outgoing) > 0

    def _is_busy(self) -> bool:
        """Whether no further request may begin now."""
        transport = self._transport
        return (  # `_is_unread` is repeated because calls are measurable in small requests
            transport.is_write_paused
            or len(transport.outgoing) > 0
            or self._held_back
            or self.reservation.is_waiting
            or len(self._in_flight) >= MAX_IN_FLIGHT
        )

    def _update_reading(self) -> None:
        transport = self._transport
        if self._is_busy():
            transport.pause_reading()
        elif not transport.is_reading:
            if self.frame_began:
                self.frame_began = self._listener.loop.time()
            transport.resume_reading()

    def close(self, reason: str) -> None:
        """Close the connection at once, and log the reason."""
        self._transport.abort(reason)

    def drop(self, why: DropReason, reason: str) -> None:
        """Close the connection at once, for the sake of others; it is counted."""
        self._transport.drop(why, reason)
