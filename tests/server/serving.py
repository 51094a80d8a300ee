"""A listener with a dispatcher that a test commands through the frames it sends."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ProtocolError
from strom.server.event_loop import loop_factory
from strom.server.kafka.api import PendingResponse
from strom.server.kafka.connection import KafkaConnection, Parts
from strom.server.kafka.listener import KafkaListener

LOOPS = [
    pytest.param(asyncio.new_event_loop, id="asyncio"),
    pytest.param(loop_factory(), id="uvloop"),
]
"""The loop of Windows and the one of everywhere else."""


def framed(body: bytes) -> bytes:
    """A frame as it goes over the wire."""
    return len(body).to_bytes(4, "big") + body


class Commands:
    """Responds to `echo…`, `wait` and `poll NAME`, `big SIZE`, `silent`, `wrong`, `broken` and so on."""

    def __init__(self) -> None:
        self.waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self.begun: list[bytes] = []
        self.largest = 0

    def may_begin_early(self, frame: memoryview) -> bool:
        """What waits may begin while others wait."""
        return bytes(frame[:4]) == b"wait"

    def __call__(
        self, connection: KafkaConnection, frame: memoryview
    ) -> Parts | PendingResponse[Parts] | None:
        self.largest = max(self.largest, len(frame))
        word, _, rest = bytes(frame[:64]).partition(b" ")
        self.begun.append(word)
        match word:
            case b"wait" | b"poll":
                future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
                self.waiting[rest] = future
                return PendingResponse(future, lambda text: [framed(text)])
            case b"big":
                size = int(rest)
                return [size.to_bytes(4, "big"), bytes(size)]
            case b"silent":
                return None
            case b"wrong":
                raise ProtocolError("not understood")
            case b"broken":
                raise ZeroDivisionError("a mistake in a handler")
            case b"unwritable":
                future = asyncio.get_running_loop().create_future()
                future.set_result(b"")
                return PendingResponse(future, _unwritable)
        return [framed(bytes(frame[:64]))]


def _unwritable(_: object) -> Parts:
    raise ZeroDivisionError("a mistake in an encoder")


class Client:
    """One connection to the listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *bodies: bytes) -> None:
        """Send whole frames in one go."""
        await self.send_bytes(b"".join(map(framed, bodies)))

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> bytes:
        """The next answer."""
        async with asyncio.timeout(10):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)

    async def call(self, body: bytes) -> bytes:
        """Send a frame and return its answer."""
        await self.send(body)
        return await self.receive()

    async def is_closed(self) -> bool:
        """Whether the server hangs up without a word."""
        async with asyncio.timeout(10):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    def leave(self) -> None:
        """Hang up."""
        self.writer.transport.abort()


class Serving:
    """A running listener."""

    def __init__(self, listener: KafkaListener, commands: Commands) -> None:
        self.listener = listener
        self.commands = commands
        self.clients: list[Client] = []

    async def client(self) -> Client:
        """A new connection, which the server knows of."""
        before = len(self.listener.connections)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port, limit=2**16)
        client = Client(reader, writer)
        self.clients.append(client)
        for _ in range(100):
            if len(self.listener.connections) > before:
                break
            await asyncio.sleep(0.001)
        return client

    @property
    def connection(self) -> KafkaConnection:
        """The only connection."""
        (found,) = self.listener.connections
        return found


@asynccontextmanager
async def serving(**settings: int) -> AsyncIterator[Serving]:
    """A listener on a free port; nothing is left of it afterwards."""
    commands = Commands()
    listener = KafkaListener(BrokerSettings(port=0, **settings), commands)  # type: ignore[arg-type]
    await listener.start(lambda _: None)
    running = Serving(listener, commands)
    try:
        yield running
    finally:
        for client in running.clients:
            client.leave()
        await listener.stop()
        await until(lambda: not listener.connections)
        assert listener.memory.in_use == 0, "memory leaked"


async def until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Return when the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


def run(loop: Callable[[], asyncio.AbstractEventLoop], test: Coroutine[Any, Any, None]) -> None:
    """Run a test on one kind of event loop; what the loop had to swallow is a failure too."""
    swallowed: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: swallowed.append(told))
        await asyncio.wait_for(test, 60)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(watched())
    assert swallowed == []
