"""One client connection of Kafka's protocol: requests in, responses out in the order of the requests.

A connection has one request in progress at a time, as in Kafka, except for those that the dispatcher
allows to begin early (produce requests): several of them may wait for the same flush. Responses are sent
in the order of the requests. A client that does not read its responses gets no more requests handled.

The receive buffer is reused. A handler may look at the bytes of its request only until it returns or
first awaits; what it needs later it must have copied by then.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from strom.model.errors import ProtocolError
from strom.server.kafka.pending_response import PendingResponse
from strom.server.kafka.receive_buffer import ReceiveBuffer
from strom.server.transport.client_transport import ClientTransport, Part

if TYPE_CHECKING:
    from strom.server.kafka.listener import Listener

log = logging.getLogger(__name__)

MAX_UNANSWERED = 128
"""Requests of one connection in progress at once."""

Answer: TypeAlias = list[Part]


class Dispatch(Protocol):
    """Who answers the requests of a connection."""

    def may_begin_early(self, frame: memoryview) -> bool:
        """Whether this request may begin while earlier ones of its kind are unanswered."""
        ...

    def __call__(
        self, connection: "Connection", frame: memoryview
    ) -> Answer | PendingResponse[Answer] | None:
        """Begin to answer a request; None if it gets no answer. ProtocolError ends the connection."""
        ...


class Connection:
    """Reads length-prefixed frames, passes them to `dispatch`, sends the responses."""

    def __init__(
        self, transport: ClientTransport[Any], listener: "Listener", dispatch: Dispatch
    ) -> None:
        self.peer = "?"
        self.frame_began = 0.0
        """When the frame now being received began; 0 if there is none."""
        self.last_active = listener.loop.time()
        self.on_close: dict[object, Callable[[], None]] = {}
        """Called when the client is gone."""
        self.input = ReceiveBuffer()
        self._transport = transport
        self._listener = listener
        self._dispatch = dispatch
        self._frame_limit = listener.frame_limit(trusted=False)
        self._unanswered: deque[PendingResponse[Answer] | Answer] = deque()
        self._trusted = False
        self._early = False
        """Whether the unanswered requests are of the kind that may begin early."""
        self._works = False
        self._held_back = False
        self._memory_wanted = 0

    @property
    def frame_size(self) -> int:
        """Of the frame now being received."""
        return self.input.frame_size

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for a response."""
        return bool(self._unanswered)

    @property
    def is_held_back(self) -> bool:
        """Whether its socket is not read because of its responses: then a late frame is not its fault."""
        return self._is_busy() and not self._memory_wanted

    # --- the transport's calls -----------------------------------------------------------------

    def on_connected(self) -> None:
        """A client has connected."""
        self.peer = self._transport.peer

    def on_disconnected(self) -> None:
        """Abandon what the client waits for, and give back its memory."""
        for answer in self._unanswered:
            if isinstance(answer, PendingResponse):
                answer.abandon()
        self._unanswered.clear()
        self._listener.memory.forget(self._memory_granted)
        self._listener.memory.give(self.input.extra_bytes)
        self.input = ReceiveBuffer()
        callbacks, self.on_close = self.on_close, {}
        for callback in callbacks.values():
            callback()

    def on_write_paused(self) -> None:
        """The client reads too slowly: `_is_busy` holds until it has caught up."""

    # --- requests ------------------------------------------------------------------------------

    def _work(self) -> None:
        """Do what can be done now: called when bytes came, or what a request waited for."""
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
        self._read_or_not()

    on_received = on_write_resumed = _work

    def _has_more_to_do(self) -> bool:
        """Whether sending has freed what held the next request back."""
        if self._is_busy() or not self._transport.is_open:
            return False
        return self.input.peek(self._frame_limit) is not None

    def _begin_requests(self, out: Answer) -> Answer:
        """Begin the requests that may begin; return the responses that can be sent at once."""
        received = self.input
        if self._unanswered:
            self._collect(out)
        while not self._is_busy() and self._transport.is_open:
            frame = None if received.is_empty else received.peek(self._frame_limit)
            if frame is None:
                break
            early = self._dispatch.may_begin_early(frame)
            if self._unanswered and not (early and self._early):
                self._held_back = True
                break
            self._early = early
            received.take()
            self.frame_began = 0.0
            with frame:
                answer = self._dispatch(self, frame)
            self._has_shown_itself()
            if isinstance(answer, PendingResponse):
                answer.result.add_done_callback(self._answer_is_ready)
                self._unanswered.append(answer)
            elif answer is not None and self._unanswered:
                self._unanswered.append(answer)
            elif answer is not None:
                out += answer
                if not early:
                    break  # it may be large: see first whether the client takes it
        return out

    def _has_shown_itself(self) -> None:
        """The peer speaks the protocol: it may send large requests from now on."""
        self.last_active = self._listener.loop.time()
        if not self._trusted:
            self._trusted = True
            self._frame_limit = self._listener.frame_limit(trusted=True)

    def _make_room(self) -> None:
        received = self.input
        if received.is_empty:
            self.frame_began = 0.0
        elif self._is_busy():
            return
        elif not self.frame_began:
            self.frame_began = self._listener.loop.time()
        extra = received.make_room()
        listener, memory = self._listener, self._listener.memory
        if extra > 0 and received.extra_bytes and memory.is_wanted:
            # It would hold what the others wait for while it waits for what they hold.
            raise ProtocolError(
                f"its request of {received.frame_size} bytes needs memory that other requests wait for; "
                "raise queued.max.request.bytes"
            )
        if extra < 0 or (received.extra_bytes and memory.is_wanted):
            self.give_back_buffer()
        elif extra and (memory.take(extra) or (listener.reclaim() and memory.take(extra))):
            received.grow(extra)
        elif extra:
            self._memory_wanted = extra
            memory.wait(extra, self._memory_granted)

    def give_back_buffer(self) -> bool:
        """Go back to a small buffer, if there is nothing in the large one; whether it did."""
        extra = self.input.extra_bytes
        if not extra or not self.input.is_empty:
            return False
        self.input = ReceiveBuffer()
        self._listener.memory.give(extra)
        return True

    def _memory_granted(self) -> None:
        self.input.grow(self._memory_wanted)
        self._memory_wanted = 0
        self._work()

    # --- answers -------------------------------------------------------------------------------

    def _answer_is_ready(self, _: object) -> None:
        self._work()

    def _collect(self, out: Answer) -> None:
        """Add every answer whose turn it is."""
        unanswered = self._unanswered
        while unanswered:
            answer = unanswered[0]
            if isinstance(answer, PendingResponse):
                if not answer.result.done():
                    return
                if answer.result.cancelled() or answer.result.exception() is not None:
                    raise ProtocolError("its request failed, as logged above")
                out += answer.convert(answer.result.result())
            else:
                out += answer
            unanswered.popleft()
        self._held_back = False

    # --- back-pressure -------------------------------------------------------------------------

    def _is_busy(self) -> bool:
        """Whether nothing more may begin now."""
        transport = self._transport
        return (
            transport.is_write_paused
            or len(transport.outgoing) > 0
            or self._held_back
            or self._memory_wanted > 0
            or len(self._unanswered) >= MAX_UNANSWERED
        )

    def _read_or_not(self) -> None:
        transport = self._transport
        if self._is_busy():
            transport.pause_reading()
        elif not transport.is_reading:
            if self.frame_began:
                self.frame_began = self._listener.loop.time()
            transport.resume_reading()

    def close(self, reason: str) -> None:
        """End the connection at once, with the reason in the broker's log."""
        self._transport.abort(reason)
