"""One client connection: frames in, answers out in the order of the requests.

A connection has one request in work at a time, as in Kafka, but for those that the dispatcher lets
begin early (produce requests): several of them may wait for the same sync to disk. Answers are sent in
the order of the requests. Whoever does not read its answers gets no more of its requests handled.

The receive buffer is reused. A handler may look at the bytes of its request only until it returns or
first awaits; whatever it needs later it must have copied by then.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from strom.model.errors import ProtocolError
from strom.server.kafka.pending_response import PendingResponse
from strom.server.kafka.receive_buffer import ReceiveBuffer
from strom.storage.region import Region
from strom.wire.kafka.batch import Buffer

if TYPE_CHECKING:
    from strom.server.kafka.listener import Listener

log = logging.getLogger(__name__)

MAX_UNANSWERED = 128
"""Requests of one connection in work at once."""
JOIN_BELOW = 4096
"""Small answers are put together, which is cheaper than handing over their parts."""

PIECE_BYTES = 16 * 1024
"""Of a file, what is read and queued when the socket is full."""

Part: TypeAlias = Buffer | Region
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


class Connection(asyncio.BufferedProtocol):
    """Reads length-prefixed frames, hands them to `dispatch`, writes the answers."""

    def __init__(self, listener: "Listener", dispatch: Dispatch) -> None:
        self.peer = "?"
        self.frame_began = 0.0
        """When the frame now being received began; 0 if there is none."""
        self.last_active = listener.loop.time()
        self.on_close: dict[object, Callable[[], None]] = {}
        """Whoever has to know when the client is gone."""
        self._listener = listener
        self._dispatch = dispatch
        self._transport: asyncio.Transport | None = None
        self._received = ReceiveBuffer()
        self._frame_limit = listener.frame_limit(trusted=False)
        self._unanswered: deque[PendingResponse[Answer] | Answer] = deque()
        self._outgoing: deque[Part] = deque()
        self._trusted = False
        self._early = False
        """Whether the unanswered requests are of the kind that may begin early."""
        self._works = False
        self._held_back = False
        self._writing_paused = False
        self._memory_wanted = 0
        self._answers_in_pool = 0

    @property
    def frame_size(self) -> int:
        """Of the frame now being received."""
        return self._received.frame_size

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for an answer."""
        return bool(self._unanswered)

    @property
    def is_held_back(self) -> bool:
        """Whether its socket is not read for the sake of its answers: a late frame is our doing."""
        return self._is_busy() and not self._memory_wanted

    # --- the event loop's calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is not a subclass
        # Told as soon as the socket takes no more, and again when all is sent: then a file can be sent.
        transport.set_write_buffer_limits(high=0)  # type: ignore[attr-defined]
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        if not self._listener.connected(self):
            self.close("there are too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: nobody needs its answers any more."""
        self._transport = None
        for answer in self._unanswered:
            if isinstance(answer, PendingResponse):
                answer.abandon()
        self._unanswered.clear()
        self._outgoing.clear()
        self._listener.memory.forget(self._memory_granted)
        self._listener.memory.give(self._received.extra_bytes + self._answers_in_pool)
        self._answers_in_pool = 0
        self._received = ReceiveBuffer()
        self._listener.disconnected(self)
        lost, self.on_close = self.on_close, {}
        for tell in lost.values():
            tell()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._received.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        self._received.received(nbytes)
        self._work()

    def pause_writing(self) -> None:
        """The client reads too slowly: begin no more requests of it."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writing_paused = False
        self._listener.memory.give(self._answers_in_pool)
        self._answers_in_pool = 0
        self._work()

    def eof_received(self) -> bool:
        """The client will send no more."""
        return False

    # --- requests ------------------------------------------------------------------------------

    def _work(self) -> None:
        """Do whatever can be done now: called when bytes came, or what was waited for."""
        if self._works or self._transport is None:
            return
        self._works = True
        try:
            self._send(self._begin_requests([]))
            while not self._received.is_empty and self._has_more_to_do():
                self._send(self._begin_requests([]))
            self._make_room()
        except ProtocolError as error:
            self.close(str(error))
        except Exception as error:
            log.exception("Answering %s failed", self.peer)
            self.close(str(error))
        finally:
            self._works = False
        self._read_or_not()

    def _has_more_to_do(self) -> bool:
        """Whether sending has freed what held the next request back."""
        if self._is_busy() or self._transport is None:
            return False
        return self._received.peek(self._frame_limit) is not None

    def _begin_requests(self, out: Answer) -> Answer:
        """Begin what may begin; the answers that can be sent at once."""
        received = self._received
        if self._unanswered:
            self._collect(out)
        while not self._is_busy() and self._transport is not None:
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
        received = self._received
        if received.is_empty:
            self.frame_began = 0.0
        elif self._is_busy():
            return
        elif not self.frame_began:
            self.frame_began = self._listener.loop.time()
        extra = received.make_room()
        listener, memory = self._listener, self._listener.memory
        if extra < 0 or (received.extra_bytes and memory.is_wanted):
            self.give_back_buffer()
        elif extra and (memory.take(extra) or (listener.reclaim() and memory.take(extra))):
            received.grow(extra)
        elif extra:
            self._memory_wanted = extra
            memory.wait(extra, self._memory_granted)

    def give_back_buffer(self) -> bool:
        """Go back to a small buffer, if there is nothing in the large one; whether it did."""
        extra = self._received.extra_bytes
        if not extra or not self._received.is_empty:
            return False
        self._received = ReceiveBuffer()
        self._listener.memory.give(extra)
        return True

    def _memory_granted(self) -> None:
        self._received.grow(self._memory_wanted)
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
                    raise ProtocolError("its request failed, as told above")
                out += answer.convert(answer.result.result())
            else:
                out += answer
            unanswered.popleft()
        self._held_back = False

    def _send(self, out: Answer) -> None:
        """Send, after what is not yet sent, as much as the socket takes."""
        outgoing = self._outgoing
        if not out and not outgoing:
            return
        outgoing += out
        while outgoing and not self._writing_paused and self._transport is not None:
            part = outgoing[0]
            if isinstance(part, Region):
                self._send_from_file(self._transport, part)
            else:
                self._send_buffers(self._transport)
        self._count_unsent()

    def _send_buffers(self, transport: asyncio.Transport) -> None:
        buffers: list[Buffer] = []
        outgoing = self._outgoing
        while outgoing and not isinstance(part := outgoing[0], Region):
            buffers.append(part)
            outgoing.popleft()
        if sum(map(len, buffers)) < JOIN_BELOW:
            transport.write(b"".join(buffers))
        else:
            transport.writelines(buffers)

    def _send_from_file(self, transport: asyncio.Transport, region: Region) -> None:
        """Send from the file directly; what the socket does not take now waits as a small piece.

        The piece makes the transport tell us when the socket takes more.
        """
        if len(region) and not transport.get_write_buffer_size():
            region.send(transport.get_extra_info("socket").fileno())
        if len(region):
            transport.write(region.take(PIECE_BYTES))
        if not len(region):
            self._outgoing.popleft()

    def _count_unsent(self) -> None:
        if self._writing_paused and not self._answers_in_pool and self._transport is not None:
            self._answers_in_pool = self._transport.get_write_buffer_size()
            self._listener.memory.take_anyway(self._answers_in_pool)

    # --- back-pressure -------------------------------------------------------------------------

    def _is_busy(self) -> bool:
        """Whether nothing more may begin now."""
        return (
            self._writing_paused
            or len(self._outgoing) > 0
            or self._held_back
            or self._memory_wanted > 0
            or len(self._unanswered) >= MAX_UNANSWERED
        )

    def _read_or_not(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if self._is_busy():
            if transport.is_reading():
                transport.pause_reading()
        elif not transport.is_reading():
            if self.frame_began:
                self.frame_began = self._listener.loop.time()
            transport.resume_reading()

    def close(self, reason: str) -> None:
        """End the connection, saying why in the broker's log."""
        if self._transport is not None:
            log.info("Closing the connection from %s: %s", self.peer, reason)
            self._transport.abort()
            self._transport = None
