"""A protocol for tests of the transport: it keeps what it receives, and sends what a test wants."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from strom.server.memory import NetworkMemory
from strom.server.process_limits import ConnectionSlots
from strom.server.transport.client_transport import ClientTransport
from strom.server.transport.slow_uploads import Upload
from strom.server.transport.socket_listener import BindAddress, SocketListener


class RoomyBuffer:
    def __init__(self) -> None:
        self.data = b""
        self._room = bytearray(65536)

    def writable(self) -> memoryview:
        return memoryview(self._room)

    def received(self, count: int) -> None:
        self.data += self._room[:count]


class Recorder:
    """Remembers the transport's calls."""

    def __init__(self, transport: ClientTransport[Any]) -> None:
        self.transport = transport
        self.input = RoomyBuffer()
        self.calls: list[str] = []

    @property
    def upload(self) -> Upload | None:
        return None

    def on_connected(self) -> None:
        self.calls.append("connected")

    def on_received(self) -> None:
        self.calls.append("received")

    def on_write_paused(self) -> None:
        self.calls.append("paused")

    def on_write_resumed(self) -> None:
        self.calls.append("resumed")
        self.transport.send([])

    def on_disconnected(self) -> None:
        self.calls.append("disconnected")


class Listening:
    def __init__(self, limit: int) -> None:
        self.slots = ConnectionSlots(limit)
        self.memory = NetworkMemory(1 << 20)
        self.handlers: list[Recorder] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.listener: SocketListener[Recorder] = SocketListener(
            self._make, self.slots, self.memory, high_water=0
        )

    def _make(self, transport: ClientTransport[Any]) -> Recorder:
        self.handlers.append(Recorder(transport))
        return self.handlers[-1]

    async def connect(
        self, tls: ssl.SSLContext | None = None
    ) -> tuple[Recorder, asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection: the server's side and the client's."""
        before = len(self.handlers)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.listener.port, ssl=tls, limit=2**16
        )
        self._writers.append(writer)
        while len(self.handlers) == before or not self.handlers[-1].calls:
            await asyncio.sleep(0.001)
        return self.handlers[-1], reader, writer

    def hang_up(self) -> None:
        """The clients leave."""
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def listening(limit: int = 10, tls: ssl.SSLContext | None = None) -> AsyncIterator[Listening]:
    """A listener on a free port; nothing is left of it afterwards."""
    running = Listening(limit)
    address = BindAddress("127.0.0.1", 0, "tests", "port")
    await running.listener.bind(address, tls)
    await running.listener.start_serving()
    try:
        yield running
    finally:
        running.hang_up()
        running.listener.stop_serving()
        for handler in running.handlers:
            handler.transport.abort("the test is over")
        while running.listener.connections:
            await asyncio.sleep(0.001)
        assert running.memory.in_use == 0, "memory leaked"
        assert not running.slots._taken, "slots leaked"
