"""Listens for clients and keeps every connection within its limits."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from strom.model.broker_settings import BrokerSettings
from strom.model.errors import UserError
from strom.server.kafka.connection import Connection, Dispatch
from strom.server.memory import MemoryPool
from strom.server.process_limits import ConnectionSlots

log = logging.getLogger(__name__)

BACKLOG = 1024
SWEEP_SECONDS = 1.0
SLOWEST_BYTES_PER_SECOND = 1024 * 1024
"""A large request gets more time, but not less than this speed is expected."""


class Listener:
    """One listening socket, with all connections that came through it."""

    def __init__(
        self, settings: BrokerSettings, dispatch: Dispatch, slots: ConnectionSlots | None = None
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.memory = MemoryPool(settings.max_bytes_in_flight)
        self.connections: set[Connection] = set()
        self._settings = settings
        self._dispatch = dispatch
        self._slots = slots or ConnectionSlots(settings.max_connections)
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.port = settings.port

    async def start(self, before_first: Callable[[int], None]) -> None:
        """Listen; UserError with what to do if the address cannot be had.

        `before_first` is told the port before the first connection is taken.
        """
        host, port = self._settings.host, self._settings.port
        try:
            self._server = await self.loop.create_server(
                lambda: Connection(self, self._dispatch),
                host,
                port,
                backlog=BACKLOG,
                reuse_address=True,
                start_serving=False,
            )
        except OSError as error:
            raise UserError(_listen_problem(host, port, error)) from error
        self.port = self._server.sockets[0].getsockname()[1]
        before_first(self.port)
        await self._server.start_serving()
        self._sweep()

    async def stop(self) -> None:
        """Stop listening, finish what is being changed, and let every client go."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=10)
        for connection in tuple(self.connections):
            connection.close("the broker stops")
        await asyncio.sleep(0)

    def connected(self, connection: Connection) -> bool:
        """Take in a connection, unless there are too many."""
        self.connections.add(connection)
        return self._slots.take(connection)

    def disconnected(self, connection: Connection) -> None:
        """Forget a connection."""
        self.connections.discard(connection)
        self._slots.release(connection)

    def frame_limit(self, *, trusted: bool) -> int:
        """The largest request that a connection may send; none is larger than the whole pool."""
        settings = self._settings
        limit = settings.max_request_bytes if trusted else settings.max_first_request_bytes
        return min(limit, self.memory.capacity)

    def reclaim(self) -> bool:
        """Take large buffers from connections that have nothing in them; whether there were any."""
        return sum(connection.give_back_buffer() for connection in tuple(self.connections)) > 0

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a handler that waits; it is finished even if its client leaves."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _sweep(self) -> None:
        """Close connections that take too long over a request, or that sleep."""
        now = self.loop.time()
        patience = self._settings.frame_deadline_ms / 1000
        idle = self._settings.connections_max_idle_ms / 1000
        for connection in tuple(self.connections):
            allowed = patience + connection.frame_size / SLOWEST_BYTES_PER_SECOND
            receiving = connection.frame_began and not connection.is_held_back
            if receiving and now - connection.frame_began > allowed:
                connection.close(f"a request stayed half-sent for {allowed:.0f} seconds")
            elif now - connection.last_active > idle and not connection.is_waiting:
                connection.close(f"nothing came for {idle:.0f} seconds")
        self._sweeper = self.loop.call_later(min(SWEEP_SECONDS, patience / 4), self._sweep)


def _listen_problem(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is in use. Another broker may be running there; stop it, or "
            "choose another port with --port (0 takes a free one)."
        )
    if error.errno == errno.EACCES:
        return f"Not allowed to listen on port {port}. Choose one above 1023 with --port."
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{host} is not an address of this machine. Choose another with --host."
    return f"Cannot listen on {host}:{port}: {error.strerror}."
