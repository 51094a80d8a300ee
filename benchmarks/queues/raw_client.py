"""Clients that do next to nothing, so that the broker is what is measured.

The publisher sends frames that were put together once. The consumer counts deliveries by a mark that
stands in each of them, and acknowledges many at once.
"""

import socket
import struct
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

METHOD, HEADER, BODY = 1, 2, 3
PROTOCOL = b"AMQP\x00\x00\x09\x01"
TAG = b"\x01c"
DELIVERY_MARK = b"\x00\x3c\x00\x3c" + TAG
"""basic.deliver and the consumer tag `c`: stands once in every delivery."""
PREFETCH = 500
ACK_EVERY = 50
CONFIRM_WINDOW = 2000
CHUNK_BYTES = 64 * 1024
ACK_FRAME = struct.Struct(">BHIIQBB")


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """A whole frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def short(text: str) -> bytes:
    """A short string."""
    data = text.encode()
    return bytes((len(data),)) + data


class RawConnection:
    """A connection with channel 1 open."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        login = f"\0{address.username}\0{address.password}".encode()
        self.socket.sendall(PROTOCOL)
        self.read()
        start_ok = bytes(4) + short("PLAIN") + struct.pack(">I", len(login)) + login + short("en")
        self.call(b"\x00\x0a\x00\x0b" + start_ok, 0)
        self.send(b"\x00\x0a\x00\x1f" + struct.pack(">HIH", 2047, 131072, 0), 0)
        self.call(b"\x00\x0a\x00\x28" + short("/") + b"\x00\x00", 0)
        self.call(b"\x00\x14\x00\x0a\x00")

    def send(self, payload: bytes, channel: int = 1) -> None:
        """Send a method."""
        self.socket.sendall(frame(METHOD, channel, payload))

    def call(self, payload: bytes, channel: int = 1) -> bytes:
        """Send a method; the payload of the answer."""
        self.send(payload, channel)
        return self.read()

    def read(self) -> bytes:
        """The payload of the next frame."""
        head = self._exactly(7)
        return self._exactly(int.from_bytes(head[3:], "big") + 1)[:-1]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker hung up")
            data += piece
        return data

    def ask_for_confirms(self) -> None:
        """Have published messages confirmed."""
        self.call(b"\x00\x55\x00\x0a\x00")

    def consume(self, queue: str, *, acknowledge: bool) -> None:
        """Begin to consume."""
        if acknowledge:
            self.call(b"\x00\x3c\x00\x0a" + struct.pack(">IHB", 0, PREFETCH, 0))
        bits = b"\x00" if acknowledge else b"\x02"
        self.call(b"\x00\x3c\x00\x14\x00\x00" + short(queue) + TAG + bits + bytes(4))

    def acknowledge(self, tag: int) -> None:
        """All deliveries up to this one are done with."""
        self.send(b"\x00\x3c\x00\x50" + struct.pack(">QB", tag, 1))


def message(exchange: str, key: str, body: bytes, *, persistent: bool) -> bytes:
    """The frames of one message."""
    properties = b"\x10\x00\x02" if persistent else b"\x00\x00"
    return (
        frame(METHOD, 1, b"\x00\x3c\x00\x28\x00\x00" + short(exchange) + short(key) + b"\x00")
        + frame(HEADER, 1, b"\x00\x3c\x00\x00" + struct.pack(">Q", len(body)) + properties)
        + frame(BODY, 1, body)
    )


def publish(connection: RawConnection, one: bytes, count: int, *, confirms: bool) -> float:
    """Publish as fast as the broker takes it, with a window if confirms are asked for; seconds."""
    chunk = max(1, min(100, CHUNK_BYTES // len(one)))
    while count % chunk:
        chunk -= 1
    data = one * chunk
    acks = _confirmed(connection)
    began = time.perf_counter()
    sent = confirmed = 0
    while sent < count:
        connection.socket.sendall(data)
        sent += chunk
        while confirms and sent - confirmed > CONFIRM_WINDOW:
            confirmed = next(acks)
    while confirms and confirmed < sent:
        confirmed = next(acks)
    return time.perf_counter() - began


def _confirmed(connection: RawConnection) -> Iterator[int]:
    """How many were confirmed so far; single confirms are counted, multiple ones carry the number."""
    received = b""
    total = 0
    singles: set[int] = set()
    while True:
        received += connection.socket.recv(65536)
        while len(received) >= ACK_FRAME.size:
            _, _, _, _, tag, multiple, _ = ACK_FRAME.unpack_from(received)
            received = received[ACK_FRAME.size :]
            if multiple:
                total = max(total, tag)
            else:
                singles.add(tag)
            while total + 1 in singles:
                total += 1
                singles.discard(total)
        yield total


def receive(connection: RawConnection, count: int, *, acknowledge: bool) -> float:
    """Take so many deliveries; seconds from the first to the last."""
    began = 0.0
    seen = acknowledged = 0
    rest = b""
    while seen < count:
        data = rest + connection.socket.recv(256 * 1024)
        began = began or time.perf_counter()
        seen += data.count(DELIVERY_MARK)
        rest = data[-(len(DELIVERY_MARK) - 1) :]
        if acknowledge and seen - acknowledged >= ACK_EVERY:
            connection.acknowledge(seen)
            acknowledged = seen
    seconds = time.perf_counter() - began
    if acknowledge and seen > acknowledged:
        connection.acknowledge(seen)
    return seconds
