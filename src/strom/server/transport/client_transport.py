"""One client's socket: bytes in, bytes and file regions out, with back-pressure in both directions.

A protocol (Kafka's, AMQP's) gets the transport as a collaborator. It provides the buffer for what the
client sends, is called when there is something in it, and decides when reading pauses. What it sends goes
out in order. What the socket does not accept counts in the listener's memory pool, and a protocol that
honours `is_write_paused` produces no more than that for a client that does not read.

The transport may be plain TCP or TLS. Only plain TCP lets the kernel send from a file (`sendfile`): TLS
has to encrypt the bytes in this process, so there a file is read and written in pieces.
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, cast

from strom.server.transport.drop_reason import DropReason
from strom.server.transport.pool_share import PoolShare
from strom.server.transport.slow_uploads import Upload
from strom.storage.region import Region
from strom.wire.kafka.batch import Buffer

if TYPE_CHECKING:
    from strom.server.transport.socket_listener import SocketListener

log = logging.getLogger(__name__)

JOIN_BELOW = 4096
"""Small parts are joined, which is cheaper than passing them on one by one."""
PIECE_BYTES = 16 * 1024
"""How much of a file is read and queued when the socket is full, or cannot send files."""
LINGER_SECONDS = 5.0
"""How long the last bytes of a closed connection wait for a client that reads none of them."""

Part: TypeAlias = Buffer | Region


class InputBuffer(Protocol):
    """Where the next bytes of a client go."""

    def writable(self) -> memoryview:
        """Room for the next bytes; never empty while the transport reads."""
        ...

    def received(self, count: int) -> None:
        """The first `count` bytes of it have been written."""
        ...


class TransportHandler(Protocol):
    """A protocol's side of one connection."""

    @property
    def input(self) -> InputBuffer:
        """Where the client's bytes go; it may be replaced between two reads."""
        ...

    @property
    def upload(self) -> Upload | None:
        """The request being received, if it waits for memory, or holds some and waits for its client."""
        ...

    def on_connected(self) -> None:
        """The client is accepted: it has one of the process's connection slots."""
        ...

    def on_received(self) -> None:
        """Bytes were added to `input`."""
        ...

    def on_write_paused(self) -> None:
        """The socket accepts no more for now."""
        ...

    def on_write_resumed(self) -> None:
        """The socket accepts bytes again: call `send` if parts are queued. Also after `await_pool`."""
        ...

    def on_disconnected(self) -> None:
        """The connection is closed, for any reason. The last call."""
        ...


H = TypeVar("H", bound=TransportHandler)


class ClientTransport(asyncio.BufferedProtocol, Generic[H]):
    def __init__(self, listener: "SocketListener[H]") -> None:
        self.peer = "?"
        """Address and port of the client, for logs."""
        self.host = ""
        self.is_open = False
        """Whether it can be read and written; False as soon as either side closes it."""
        self.can_send_files = False
        self.is_write_paused = False
        self.received_bytes = 0
        self.handler = listener.make_handler(self)
        self._listener = listener
        self._socket: asyncio.Transport | None = None
        self.outgoing: deque[Part] = deque()
        """Parts that wait for the socket to accept bytes again."""
        self._pool_share = PoolShare(listener.memory.responses, listener.loop, self._on_pool_freed)
        self._linger: asyncio.TimerHandle | None = None

    # --- the event loop's calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass the connection to the protocol, unless there are too many."""
        self._socket = cast("asyncio.Transport", transport)  # uvloop's own is not a subclass
        self.can_send_files = transport.get_extra_info("sslcontext") is None
        high = self._listener.high_water
        if high is not None:
            # asyncio's TLS pauses at `high` and not above it: with 0 it would never resume.
            self._socket.set_write_buffer_limits(high=high if self.can_send_files else max(1, high))
        peer = transport.get_extra_info("peername")
        if peer:
            self.host, self.peer = peer[0], f"{peer[0]}:{peer[1]}"
            self._pool_share.host = self.host
        self.is_open = True
        if self._listener.admit(self.handler, self.host):
            self.handler.on_connected()
        else:
            self.abort("too many connections, in total or from its address")

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what the connection held."""
        self.is_open = False
        self._socket = None
        if self._linger is not None:
            self._linger.cancel()
        self.outgoing.clear()
        self._pool_share.close()
        self._listener.forget(self.handler)
        self.handler.on_disconnected()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self.handler.input.writable()

    def buffer_updated(self, nbytes: int) -> None:
        handler = self.handler
        self.received_bytes += nbytes
        handler.input.received(nbytes)
        if self.is_open:
            handler.on_received()

    def eof_received(self) -> bool:
        """The client will send no more: close."""
        return False

    def pause_writing(self) -> None:
        """The socket accepts no more."""
        self.is_write_paused = True
        self.handler.on_write_paused()

    def resume_writing(self) -> None:
        """The socket accepts bytes again."""
        self.is_write_paused = False
        self._pool_share.give_back()
        self.handler.on_write_resumed()

    # --- reading -------------------------------------------------------------------------------

    @property
    def is_reading(self) -> bool:
        """Whether the client's bytes are accepted."""
        return self._socket is not None and self._socket.is_reading()

    def pause_reading(self) -> None:
        """Accept no more bytes: TCP's flow control makes the client wait."""
        if self.is_open and self._socket is not None and self._socket.is_reading():
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        if self.is_open and self._socket is not None and not self._socket.is_reading():
            self._socket.resume_reading()

    # --- writing -------------------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """Bytes written that the socket has not accepted; 0 unless `is_write_paused`."""
        if not self.is_write_paused or self._socket is None:
            return 0
        return self._socket.get_write_buffer_size()

    @property
    def is_pool_exhausted(self) -> bool:
        """Whether the bytes that all clients of the listener have not read exceed its memory pool."""
        return self._pool_share.is_exhausted

    def write(self, data: bytes) -> None:
        """Send bytes now, or as soon as the socket accepts them; file regions go through `send`."""
        if self.is_open and self._socket is not None:
            self._socket.write(data)
            if self.is_write_paused:
                self._pool_share.count(self.unsent_bytes)

    def send(self, parts: list[Part]) -> None:
        """Send parts in order, after what is queued, as far as the socket accepts them."""
        outgoing = self.outgoing
        outgoing += parts
        if not outgoing:
            return
        while outgoing and not self.is_write_paused and self.is_open and self._socket is not None:
            part = outgoing[0]
            if isinstance(part, Region):
                self._send_from_file(self._socket, part)
            else:
                self._send_buffers(self._socket)
        if self.is_write_paused:
            self._pool_share.count(self.unsent_bytes)

    def _send_buffers(self, socket: asyncio.Transport) -> None:
        buffers: list[Buffer] = []
        outgoing = self.outgoing
        while outgoing and not isinstance(part := outgoing[0], Region):
            buffers.append(part)
            outgoing.popleft()
        if sum(map(len, buffers)) < JOIN_BELOW:
            socket.write(b"".join(buffers))
        else:
            socket.writelines(buffers)

    def _send_from_file(self, socket: asyncio.Transport, region: Region) -> None:
        """Send from the file directly; what the socket does not accept now is queued in small pieces.

        A queued piece makes the event loop report when the socket accepts more.
        """
        if self.can_send_files and len(region) and not socket.get_write_buffer_size():
            try:
                region.send(socket.get_extra_info("socket").fileno())
            except (ConnectionError, TimeoutError):
                # The client has gone, which the event loop has not noticed yet.
                self.is_open = False
                socket.abort()
                return
        if len(region):
            socket.write(region.take(PIECE_BYTES))
        if not len(region):
            self.outgoing.popleft()

    def await_pool(self) -> None:
        """Call `on_write_resumed` also when other clients have freed memory of the exhausted pool."""
        if self.is_open:
            self._pool_share.wait()

    def _on_pool_freed(self) -> None:
        if self.is_open:
            self.handler.on_write_resumed()

    # --- closing -------------------------------------------------------------------------------

    def close(self, reason: str = "") -> None:
        """Close after the last bytes have been sent, or when none could be sent for LINGER_SECONDS.

        A reason is logged; a client that ends its connection as the protocol says needs none.
        """
        if self.is_open and self._socket is not None:
            if reason:
                log.info("Closing the connection from %s: %s", self.peer, reason)
            self.is_open = False
            self._linger_on(self._socket.get_write_buffer_size())
            self._socket.close()

    def _linger_on(self, unsent: int) -> None:
        loop = self._listener.loop
        self._linger = loop.call_later(LINGER_SECONDS, self._abort_if_stuck, unsent)

    def _abort_if_stuck(self, unsent: int) -> None:
        """A client that does not read would keep its slot and these bytes for ever."""
        if self._socket is not None:
            left = self._socket.get_write_buffer_size()
            if left < unsent:
                self._linger_on(left)
            else:
                self._listener.dropped[DropReason.UNREAD] += 1
                self._socket.abort()

    def abort(self, reason: str) -> None:
        """Close at once; what has not been sent is dropped."""
        if self.is_open and self._socket is not None:
            log.info("Closing the connection from %s: %s", self.peer, reason)
            self.is_open = False
            self._socket.abort()

    def drop(self, why: DropReason, reason: str) -> None:
        """Close at once a connection that is well-formed, but costs others too much; it is counted."""
        if self.is_open:
            self._listener.dropped[why] += 1
            self.abort(reason)
