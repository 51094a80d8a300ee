"""The listener of Kafka clients, which keeps every connection within its limits."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from strom.model.broker_settings import BrokerSettings
from strom.server.kafka.connection import Dispatch, KafkaConnection
from strom.server.memory import MemoryPool
from strom.server.process_limits import ConnectionSlots
from strom.server.transport.socket_listener import BindAddress, SocketListener

SWEEP_SECONDS = 1.0
SLOWEST_BYTES_PER_SECOND = 1024 * 1024
"""The minimum speed at which a large request must arrive."""


class KafkaListener:
    """The listening socket of Kafka clients with its connections."""

    def __init__(
        self, settings: BrokerSettings, dispatch: Dispatch, slots: ConnectionSlots | None = None
    ) -> None:
        self.memory = MemoryPool(settings.max_bytes_in_flight)
        self._settings = settings
        self._socket: SocketListener[KafkaConnection] = SocketListener(
            lambda transport: KafkaConnection(transport, self, dispatch),
            slots or ConnectionSlots(settings.max_connections),
            self.memory,
            # Reported as soon as the socket accepts no more, and again when all is sent: then the
            # kernel can send from a file.
            high_water=0,
        )
        self.loop: asyncio.AbstractEventLoop = self._socket.loop
        self.connections = self._socket.connections
        self.port = settings.port
        self._sweeper: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(
        self, before_first: Callable[[int], None], tls: ssl.SSLContext | None = None
    ) -> None:
        """Listen; UserError with what to do if the address cannot be bound.

        `before_first` is called with the port before the first connection is accepted.
        """
        settings = self._settings
        address = BindAddress(
            settings.host,
            settings.port,
            "Kafka clients",
            port_setting="port",
        )
        await self._socket.bind(address, tls)
        self.port = self._socket.port
        before_first(self.port)
        await self._socket.start_serving()
        self._sweep()

    async def stop(self) -> None:
        """Stop listening, finish changes in progress, and close all connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._socket.stop_serving()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=10)
        for connection in tuple(self.connections):
            connection.close("the broker is shutting down")
        await asyncio.sleep(0)

    def frame_limit(self, *, trusted: bool) -> int:
        """The largest request that a connection may send, at most the whole memory pool."""
        settings = self._settings
        limit = settings.max_request_bytes if trusted else settings.max_first_request_bytes
        return min(limit, self.memory.capacity)

    def reclaim(self) -> bool:
        """Release large buffers of connections that are empty; True if there were any."""
        return sum(connection.shrink_buffer() for connection in tuple(self.connections)) > 0

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a handler that waits; it is finished even if its client disconnects."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _sweep(self) -> None:
        """Close connections that send a request too slowly, or that are idle."""
        now = self.loop.time()
        patience = self._settings.frame_deadline_ms / 1000
        idle = self._settings.connections_max_idle_ms / 1000
        for connection in tuple(self.connections):
            allowed = patience + connection.frame_size / SLOWEST_BYTES_PER_SECOND
            receiving = connection.frame_began and not connection.is_held_back
            if receiving and now - connection.frame_began > allowed:
                connection.close(f"a request was incomplete after {allowed:.0f} seconds")
            elif now - connection.last_active > idle and not connection.is_waiting:
                connection.close(f"idle for {idle:.0f} seconds (connections.max.idle.ms)")
        self._sweeper = self.loop.call_later(min(SWEEP_SECONDS, patience / 4), self._sweep)
