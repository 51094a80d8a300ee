"""HTTP/1.1 on one connection: uvicorn's protocol on h11, with limits and strict framing.

h11 rather than httptools: it is pure Python, so that every rule below can be added at its public
interface, and it never guesses where a request ends. A request costs about 0.1 ms more, which is small
against the work of strom's interfaces. HTTP/2 will be another class beside this one.
"""

import asyncio
import functools
import logging
import re
import sys
import time
from email.utils import formatdate
from typing import Any, Protocol, Self, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from strom.http.errors import ErrorFormat, HttpError, phrase_of
from strom.model.http_settings import HttpLimits

log = logging.getLogger(__name__)
# uvicorn logs a warning for each malformed request. A client must not be able to fill the log.
log.setLevel(logging.ERROR)

_END_OF_HEAD = re.compile(rb"\n\r?\n")
_FEW_CHUNKS = 1000
_CHUNK_BYTES = 64
"""The least average size of chunks, if there are not few of them: each costs about 20 µs."""
_CONTENT_LENGTH = re.compile(rb"\ncontent-length[ \t]*:([^\r]*)")


@functools.lru_cache(maxsize=1)
def _date_header(now_s: int) -> list[tuple[bytes, bytes]]:
    """RFC 9110, section 6.6.1: responses have a Date. uvicorn sets it only in its own `Server`."""
    return [(b"date", formatdate(now_s, usegmt=True).encode("ascii"))]


class Slots(Protocol):
    """Connections that are limited together with those of other servers."""

    def take(self, connection: object, host: str) -> bool:
        """Count a connection in; False if a limit is reached."""

    def release(self, connection: object) -> None:
        """Count a connection out, if it was counted in."""


class RefusedRequest(h11.RemoteProtocolError):
    """A request that h11 would accept; its message is for the client, unlike h11's own."""


class StrictConnection(h11.Connection):
    """Refuses what h11 tolerates and a proxy in front might read differently (RFC 9112, section 11.2).

    Where two servers see different ends of a request, a client can smuggle another one past the first.
    """

    def __init__(self, limits: HttpLimits) -> None:
        super().__init__(h11.SERVER, limits.head_bytes)
        self._limits = limits
        self._body_bytes = 0
        self._chunks = 0
        self._is_chunked = False

    def next_event(self) -> Any:
        """Return the next event; RemoteProtocolError holds the status for the client as a hint."""
        if self.their_state is h11.IDLE:
            self._check_head(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._body_bytes = self._chunks = 0
            self._check_request(event)
        elif isinstance(event, h11.Data):
            self._body_bytes += len(event.data)
            self._check_body_size(self._body_bytes)
            self._chunks += self._is_chunked
            if self._chunks > _FEW_CHUNKS + self._body_bytes // _CHUNK_BYTES:
                raise RefusedRequest(f"Chunks have less than {_CHUNK_BYTES} bytes on average.")
        return event

    def has_partial_head(self) -> bool:
        return bool(self.trailing_data[0])

    def _check_head(self, received: bytes) -> None:
        end = _END_OF_HEAD.search(received)
        if (len(received) if end is None else end.end()) > self._limits.head_bytes:
            raise RefusedRequest(
                f"The head exceeds the limit of {self._limits.head_bytes} bytes.", 431
            )
        lines = received.count(b"\n", 0, None if end is None else end.end())
        if lines > self._limits.head_lines:
            raise RefusedRequest(
                f"The head exceeds the limit of {self._limits.head_lines} lines.", 431
            )
        if end is None:
            return
        head = received[: end.end()].lower()
        if not head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r"):
            raise RefusedRequest("Lines of the head must end with CR LF.")
        if b"\r\n " in head or b"\r\n\t" in head:
            raise RefusedRequest("Headers must not be folded over lines.")
        lengths = _CONTENT_LENGTH.findall(head)
        if len(lengths) > 1 or any(b"," in one for one in lengths):
            raise RefusedRequest("The request has several Content-Length headers.")

    def _check_request(self, request: h11.Request) -> None:
        if request.http_version not in (b"1.0", b"1.1"):
            raise RefusedRequest("This server supports HTTP/1.1 and HTTP/1.0.", 505)
        length = encoding = None
        for name, value in request.headers:  # h11 has put the names into lower case
            if name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                encoding = value
        if encoding is not None and length is not None:
            raise RefusedRequest("Content-Length and Transfer-Encoding exclude each other.")
        if encoding is not None and request.http_version == b"1.0":
            raise RefusedRequest("HTTP/1.0 has no Transfer-Encoding.")
        # Otherwise h11's Data events are what TCP delivers, which is not up to the client alone.
        self._is_chunked = encoding is not None
        self._check_body_size(int(length or 0))  # h11 admits at most 20 digits

    def _check_body_size(self, size: int) -> None:
        if size > self._limits.body_bytes:
            raise RefusedRequest(
                f"The body exceeds the limit of {self._limits.body_bytes} bytes.", 413
            )


class LimitedHttpProtocol(H11Protocol):
    """One connection, with timers that uvicorn lacks: for partial requests and unread responses."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        *,
        limits: HttpLimits,
        errors: ErrorFormat,
        slots: Slots | None,
    ) -> None:
        super().__init__(config, server_state, {}, asyncio.get_running_loop())
        self.conn = self._strict = StrictConnection(limits)
        self.logger = log
        self.access_log = False
        self.timeout_keep_alive = limits.idle_s  # type: ignore[assignment]
        self._limits = limits
        self._errors = errors
        self._slots = slots
        self._is_lingering = False
        self._reading: tuple[str, object] | None = None
        """What `_read_timer` limits: a phase, and the request it belongs to or follows."""
        self._reading_since = 0.0  # not by the loop's clock: that of uvloop stands still for a turn
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or close one if there are too many."""
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        # The slot first: a client above the limit of its address must not take another one's place.
        is_counted = self._slots is None or self._slots.take(self, host)
        if not is_counted or not self._has_room():
            transport.abort()
            return
        self._watch("idle", self._limits.idle_s)

    def _has_room(self) -> bool:
        """Whether there is room for one more; a client without a request in flight makes room."""
        if len(self.connections) <= self._limits.connections:
            return True
        others = cast("set[Self]", self.connections) - {self}
        waiting = [one for one in others if one._is_idle()]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda one: one._reading_since)
        oldest._watch(None, 0)
        oldest.transport.abort()
        return True

    def _is_idle(self) -> bool:
        """Whether no request is in flight: a head is incomplete, or none has begun since the last one.

        A client must expect that at any time (RFC 9112, section 9.5).
        """
        if self.transport.is_closing() or self._is_lingering or self._is_responding():
            return False
        if self._reading is not None:
            return self._reading[0] in ("idle", "head")
        return self.transport.get_write_buffer_size() == 0

    def connection_lost(self, exc: Exception | None) -> None:
        if self._slots is not None:
            self._slots.release(self)
        self._watch(None, 0)
        self._cancel_write_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_lingering:
            return
        self.server_state.default_headers = _date_header(int(time.time()))
        super().data_received(data)
        self._watch_reading()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._reading_since = time.monotonic()
        self._watch_reading()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request: uvicorn calls this while it handles h11's error."""
        error = sys.exception()
        status = getattr(error, "error_status_hint", 400)
        is_ours = isinstance(error, RefusedRequest)
        self.refuse(
            HttpError(status, str(error) if is_ours else "The request is not valid HTTP/1.1.")
        )

    def refuse(self, error: HttpError) -> None:
        """Respond with an error if no response has begun, and close the connection.

        The rest of the request is read and discarded for a while (RFC 9112, section 9.6): closing with
        unread data resets the connection, and the client would lose the response.
        """
        # Before the first request, between two, or before the response to the current one.
        can_respond = self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)
        self._disconnect_application()
        self._unset_keepalive_if_required()
        self._is_lingering = True
        if not can_respond:
            self.transport.abort()
            return
        self.transport.write(self._to_bytes(error))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._watch("linger", self._limits.linger_s)

    def shutdown(self) -> None:
        """Close when the current response is complete; now if there is none.

        A request whose body is incomplete is not waited for: its client may never send the rest.
        """
        if self._is_responding() and self.conn.their_state is not h11.SEND_BODY:
            self.cycle.keep_alive = False
        else:
            self._disconnect_application()
            self.transport.close()

    def abort(self) -> None:
        """Close without waiting for the current response."""
        self._disconnect_application()
        self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; abort one that has not even read its last response."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """Abort the connection if the client does not read on in time."""
        super().pause_writing()
        self._cancel_write_timer()
        self._write_timer = self.loop.call_later(self._limits.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._cancel_write_timer()
        super().resume_writing()

    def _disconnect_application(self) -> None:
        """Let the application see its client as gone: what it sends is discarded."""
        if self._is_responding():
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _is_responding(self) -> bool:
        # Before the first request, uvicorn's cycle is None.
        return not getattr(self.cycle, "response_complete", True)

    def _watch_reading(self) -> None:
        if self._is_lingering:
            return
        state = self.conn.their_state
        if state is h11.IDLE and self._strict.has_partial_head():
            self._watch("head", self._limits.head_s)
        elif state is h11.SEND_BODY:
            self._watch("body", self._limits.body_s)
        else:
            self._watch(None, 0)

    def _watch(self, phase: str | None, seconds: float) -> None:
        """Limit the time of a phase; bytes that arrive do not extend it (slowloris)."""
        reading = None if phase is None else (phase, self.cycle)
        if reading == self._reading:
            return
        self._reading = reading
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
        if phase is not None:
            self._reading_since = time.monotonic()
            self._read_timer = self.loop.call_later(seconds, self._timed_out, phase, seconds)

    def _timed_out(self, phase: str, seconds: float) -> None:
        self._reading = self._read_timer = None
        if phase == "body" and self.flow.read_paused:
            self._watch(phase, seconds)  # the application is slow, not the client
        elif phase in ("idle", "linger"):
            self.transport.abort()
        else:
            text = f"The {phase} of the request did not arrive within {seconds:g} seconds."
            self.refuse(HttpError(408, text))

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _to_bytes(self, error: HttpError) -> bytes:
        body = self._errors.body(error)
        head = (
            f"HTTP/1.1 {error.status} {phrase_of(error.status)}\r\n"
            f"Content-Type: {self._errors.content_type}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode("latin-1") + body
