"""One client connection: frames in, answers out in the order of the requests.

Requests are begun in the order they arrive, without waiting for the answers of earlier ones; their
answers are sent in that same order, as Kafka's protocol demands. So a producer that keeps several
requests in flight shares one sync to disk among them.

The receive buffer is reused. A handler may look at the bytes of its request only until it returns or
first awaits; whatever it needs later it must have copied by then.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from strom.model.errors import ProtocolError
from strom.wire.kafka.batch import Buffer

if TYPE_CHECKING:
    from strom.server.listener import Listener

log = logging.getLogger(__name__)

BASE_BUFFER = 64 * 1024
"""What every connection may hold without asking the pool."""
SHRINK_AFTER_FRAMES = 16
"""A large buffer is given back after this many frames that did not need it."""
MAX_UNANSWERED = 128
"""Requests of one connection in work at once; beyond that its socket is not read."""

Answer: TypeAlias = list[Buffer]


class Pending(NamedTuple):
    """An answer to come: what is waited for, and how its result becomes bytes."""

    result: asyncio.Future[Any]
    encode: Callable[[Any], Answer]

    def abandon(self) -> None:
        """Nobody waits any more. A task goes on, for it may be half-way through a change."""
        if not isinstance(self.result, asyncio.Task):
            self.result.cancel()


Dispatch: TypeAlias = Callable[["Connection", memoryview], Answer | Pending | None]


class Connection(asyncio.BufferedProtocol):
    """Reads length-prefixed frames, hands them to `dispatch`, writes the answers."""

    def __init__(self, listener: "Listener", dispatch: Dispatch) -> None:
        self.peer = "?"
        self.trusted = False
        """Whether the peer has shown that it speaks the protocol."""
        self.frame_began = 0.0
        """When the frame now being received began; 0 if there is none."""
        self.frame_size = 0
        self.last_active = listener.loop.time()
        self._listener = listener
        self._dispatch = dispatch
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(BASE_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._small_frames = 0
        self._unanswered: deque[Pending | Answer] = deque()
        self._out: list[Buffer] = []
        self._writing_paused = False
        self._waiting_for_memory = False
        self._answers_in_pool = 0
        self._in_buffer_updated = False
        self._wanted_extra = 0

    # --- the event loop's calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is not a subclass
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        if not self._listener.connected(self):
            self.close("there are too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: nobody needs its answers any more."""
        for answer in self._unanswered:
            if isinstance(answer, Pending):
                answer.abandon()
        self._unanswered.clear()
        self._listener.memory.forget(self._memory_granted)
        self._listener.memory.give(len(self._buffer) - BASE_BUFFER + self._answers_in_pool)
        self._answers_in_pool = 0
        self._view.release()
        self._buffer = bytearray(BASE_BUFFER)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._transport = None
        self._listener.disconnected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: a small frame takes what comes, a large one only its own bytes."""
        if self.frame_size > BASE_BUFFER:
            return self._view[self._end : min(len(self._buffer), self._start + 4 + self.frame_size)]
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come: handle every whole frame."""
        self._end += nbytes
        self._in_buffer_updated = True
        try:
            self._handle_frames()
        except ProtocolError as error:
            self.close(str(error))
        finally:
            self._in_buffer_updated = False
            self._send_ready()

    def pause_writing(self) -> None:
        """The client reads too slowly: take no more requests from it."""
        self._writing_paused = True
        self._pause_reading_if_busy()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writing_paused = False
        self._listener.memory.give(self._answers_in_pool)
        self._answers_in_pool = 0
        self._resume_reading_if_idle()

    def eof_received(self) -> bool:
        """The client will send no more."""
        return False

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for an answer."""
        return bool(self._unanswered)

    # --- frames --------------------------------------------------------------------------------

    def _handle_frames(self) -> None:
        first = self._start
        while self._transport is not None:
            available = self._end - self._start
            if not self.frame_size:
                if available < 4:
                    break
                self._begin_frame(
                    int.from_bytes(self._view[self._start : self._start + 4], "big", signed=True)
                )
            if available < 4 + self.frame_size:
                break
            body = self._start + 4
            self._start = body + self.frame_size
            if self.frame_size > BASE_BUFFER:
                self._small_frames = 0
            self.frame_size = 0
            with self._view[body : self._start] as frame:
                self._answer(frame)
        if self._start != first or not self.frame_began:
            self.frame_began = self._listener.loop.time()
        self._make_room()

    def _begin_frame(self, size: int) -> None:
        limit = self._listener.frame_limit(trusted=self.trusted)
        if size <= 0 or size > limit:
            raise ProtocolError(f"a request of {size} bytes, where 1 to {limit} are allowed")
        self.frame_size = size

    def _answer(self, frame: memoryview) -> None:
        self.last_active = self._listener.loop.time()
        answer = self._dispatch(self, frame)
        self.trusted = True
        if answer is None:
            return
        if isinstance(answer, Pending):
            answer.result.add_done_callback(self._answer_is_ready)
        elif not self._unanswered:
            self._out += answer
            return
        self._unanswered.append(answer)
        self._pause_reading_if_busy()

    def _make_room(self) -> None:
        """Bring a begun frame to the front of the buffer, and see that the buffer can hold it."""
        if self._transport is None:
            return
        if self._start == self._end:
            self._start = self._end = 0
            self.frame_began = 0.0
            self._shrink_if_unneeded()
            return
        needed = 4 + self.frame_size
        if self._start and (self._start + needed > len(self._buffer) or not self.frame_size):
            remaining = self._end - self._start
            self._view[:remaining] = self._view[self._start : self._end]
            self._start, self._end = 0, remaining
        if self._end == len(self._buffer) and self._end - self._start < needed:
            self._grow(min(needed, len(self._buffer) * 4))

    def _grow(self, size: int) -> None:
        """Grow as data arrives, never at once to what a stranger merely declares."""
        extra = size - len(self._buffer)
        if self._listener.memory.take(extra):
            self._resize(size)
        else:
            self._waiting_for_memory = True
            self._wanted_extra = extra
            self._listener.memory.wait(extra, self._memory_granted)
            self._pause_reading()

    def _memory_granted(self) -> None:
        self._waiting_for_memory = False
        self._resize(len(self._buffer) + self._wanted_extra)
        self._resume_reading_if_idle()

    def _shrink_if_unneeded(self) -> None:
        if len(self._buffer) == BASE_BUFFER:
            return
        self._small_frames += 1
        if self._small_frames >= SHRINK_AFTER_FRAMES:
            self._listener.memory.give(len(self._buffer) - BASE_BUFFER)
            self._resize(BASE_BUFFER)

    def _resize(self, size: int) -> None:
        self._small_frames = 0
        resized = bytearray(size)
        with memoryview(resized) as view:
            view[: self._end] = self._view[: self._end]
        self._view.release()
        self._buffer = resized
        self._view = memoryview(resized)

    # --- answers -------------------------------------------------------------------------------

    def _answer_is_ready(self, _: object) -> None:
        if not self._in_buffer_updated:
            self._send_ready()

    def _send_ready(self) -> None:
        """Write every answer whose turn it is, in one go."""
        out, self._out = self._out, []
        unanswered = self._unanswered
        while unanswered:
            answer = unanswered[0]
            if isinstance(answer, Pending):
                if not answer.result.done():
                    break
                if answer.result.cancelled() or answer.result.exception() is not None:
                    self.close("its request failed, as told above")
                    return
                out += answer.encode(answer.result.result())
            else:
                out += answer
            unanswered.popleft()
        if out and self._transport is not None:
            self._transport.writelines(out)
            if self._writing_paused and not self._answers_in_pool:
                self._answers_in_pool = self._transport.get_write_buffer_size()
                self._listener.memory.take_anyway(self._answers_in_pool)
        self._resume_reading_if_idle()

    # --- back-pressure -------------------------------------------------------------------------

    def _is_busy(self) -> bool:
        return (
            self._writing_paused
            or self._waiting_for_memory
            or len(self._unanswered) >= MAX_UNANSWERED
        )

    def _pause_reading_if_busy(self) -> None:
        if self._is_busy():
            self._pause_reading()

    def _pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def _resume_reading_if_idle(self) -> None:
        transport = self._transport
        if transport is not None and not transport.is_reading() and not self._is_busy():
            transport.resume_reading()

    def close(self, reason: str) -> None:
        """End the connection, saying why in the broker's log."""
        if self._transport is not None:
            log.info("Closing the connection from %s: %s", self.peer, reason)
            self._transport.abort()
            self._transport = None
