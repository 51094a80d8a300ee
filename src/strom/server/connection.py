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
"""Requests of one connection in work at once; beyond that no more are begun."""
MAX_UNSENT_BYTES = 4 * 1024 * 1024
"""Answers that wait for their turn, or for the client to read; beyond that no more are begun."""

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
        self._unsent_bytes = 0
        """Answers among `_unanswered` that are ready, but not yet given to the transport."""
        self._in_pool = 0
        """What the pool counts for this connection's answers."""
        self._writing_paused = False
        self._waiting_for_memory = False
        self._more_to_handle = False
        """Whether there may be frames in the buffer that have not been begun."""
        self._working = False
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
        self._unsent_bytes = 0
        self._listener.memory.forget(self._memory_granted)
        self._listener.memory.give(len(self._buffer) - BASE_BUFFER + self._in_pool)
        self._in_pool = 0
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
        self._more_to_handle = True
        self._work()

    def pause_writing(self) -> None:
        """The client reads too slowly: take no more requests from it."""
        self._writing_paused = True
        self._adjust_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writing_paused = False
        self._work()

    def eof_received(self) -> bool:
        """The client will send no more."""
        return False

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for an answer."""
        return bool(self._unanswered)

    @property
    def is_held_back(self) -> bool:
        """Whether its socket is not read for the sake of its answers: a late frame is our doing."""
        return self._is_busy() and not self._waiting_for_memory

    # --- frames --------------------------------------------------------------------------------

    def _work(self) -> None:
        """Begin requests and send answers, until there is nothing to do or the client must wait."""
        if self._working:
            return  # called from below: the loop there goes on
        self._working = True
        try:
            self._send_ready()
            while self._more_to_handle and not self._is_busy():
                self._handle_frames()
                self._send_ready()
        except ProtocolError as error:
            self.close(str(error))
        except Exception as error:
            log.exception("Answering %s failed", self.peer)
            self.close(str(error))
        finally:
            self._working = False
        self._adjust_reading()

    def _handle_frames(self) -> None:
        first = self._start
        while self._transport is not None and not self._is_busy():
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
        self._more_to_handle = self._is_busy() and self._start != self._end
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
        else:
            self._unsent_bytes += sum(map(len, answer))
        self._unanswered.append(answer)

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
        memory = self._listener.memory
        if memory.take(extra) or (self._listener.reclaim() and memory.take(extra)):
            self._resize(size)
        else:
            self._waiting_for_memory = True
            self._wanted_extra = extra
            memory.wait(extra, self._memory_granted)

    def _memory_granted(self) -> None:
        self._waiting_for_memory = False
        self._resize(len(self._buffer) + self._wanted_extra)
        self._work()

    def _shrink_if_unneeded(self) -> None:
        if len(self._buffer) == BASE_BUFFER:
            return
        self._small_frames += 1
        if self._small_frames >= SHRINK_AFTER_FRAMES or self._listener.memory.is_wanted:
            self.give_back_buffer()

    def give_back_buffer(self) -> bool:
        """Go back to a small buffer, if there is nothing in the large one; whether it did."""
        extra = len(self._buffer) - BASE_BUFFER
        if not extra or self._start != self._end:
            return False
        self._start = self._end = 0
        self._resize(BASE_BUFFER)
        self._listener.memory.give(extra)
        return True

    def _resize(self, size: int) -> None:
        self._small_frames = 0
        resized = bytearray(size)
        with memoryview(resized) as view:
            view[: self._end] = self._view[: self._end]
        self._view.release()
        self._buffer = resized
        self._view = memoryview(resized)

    # --- answers -------------------------------------------------------------------------------

    def _answer_is_ready(self, result: "asyncio.Future[Any]") -> None:
        if self._unanswered and not self._is_next(result):
            self._encode_early(result)
        self._work()

    def _is_next(self, result: "asyncio.Future[Any]") -> bool:
        first = self._unanswered[0]
        return isinstance(first, Pending) and first.result is result

    def _encode_early(self, result: "asyncio.Future[Any]") -> None:
        """It is not this answer's turn, but its size must be known and counted."""
        for place, answer in enumerate(self._unanswered):
            if isinstance(answer, Pending) and answer.result is result:
                encoded = self._encode(answer)
                if encoded is not None:
                    self._unanswered[place] = encoded
                    self._unsent_bytes += sum(map(len, encoded))
                return

    def _encode(self, answer: Pending) -> Answer | None:
        """The bytes of an answer; None, and the connection is closed, if there are none."""
        if answer.result.cancelled() or answer.result.exception() is not None:
            self.close("its request failed, as told above")
            return None
        try:
            return answer.encode(answer.result.result())
        except Exception as error:
            log.exception("An answer to %s could not be written", self.peer)
            self.close(str(error))
            return None

    def _send_ready(self) -> None:
        """Write every answer whose turn it is, in one go."""
        out: list[Buffer] = []
        unanswered = self._unanswered
        while unanswered and self._transport is not None:
            answer = unanswered[0]
            if isinstance(answer, Pending):
                encoded = self._encode(answer) if answer.result.done() else None
                if encoded is None:
                    break
                out += encoded
            else:
                out += answer
                self._unsent_bytes -= sum(map(len, answer))
            unanswered.popleft()
        if out and self._transport is not None:
            self._transport.writelines(out)
        self._count_in_pool()

    def _count_in_pool(self) -> None:
        """Have the pool count the bytes that wait: for their turn, or for the client to read."""
        waiting = self._unsent_bytes
        if self._writing_paused and self._transport is not None:
            waiting += self._transport.get_write_buffer_size()
        more, self._in_pool = waiting - self._in_pool, waiting
        if more > 0:
            self._listener.memory.take_anyway(more)
        elif more < 0:
            self._listener.memory.give(-more)

    # --- back-pressure -------------------------------------------------------------------------

    def _is_busy(self) -> bool:
        return (
            self._writing_paused
            or self._waiting_for_memory
            or self._unsent_bytes >= MAX_UNSENT_BYTES
            or len(self._unanswered) >= MAX_UNANSWERED
        )

    def _adjust_reading(self) -> None:
        """Read the socket only while requests of this client can be begun."""
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
