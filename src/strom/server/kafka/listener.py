"""The listener of Kafka clients, which keeps every connection within its limits."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from strom.model.broker_settings import BrokerSettings
from strom.server.kafka.connection import Dispatch, KafkaConnection
from strom.server.memory import NetworkMemory
from strom.server.process_limits import ConnectionSlots, make_connection_slots
from strom.server.transport.drop_reason import DropReason
from strom.server.transport.slow_uploads import SLOWEST_BYTES_PER_SECOND
from strom.server.transport.socket_listener import BindAddress, SocketListener

SWEEP_SECONDS = 1.0


class KafkaListener:
    """The listening socket of Kafka clients with its connections."""

    def __init__(
        self, settings: BrokerSettings, dispatch: Dispatch, slots: ConnectionSlots | None = None
    ) -> None:
        self.memory = NetworkMemory(settings.max_bytes_in_flight)
        self._settings = settings
        self._socket: SocketListener[KafkaConnection] = SocketListener(
            lambda transport: KafkaConnection(transport, self, dispatch),
            slots or make_connection_slots(settings, segment_files=0),
            self.memory,
            # Reported as soon as the socket accepts no more, and again when all is sent: then the
            # kernel can send from a file.
            high_water=0,
        )
        self.loop: asyncio.AbstractEventLoop = self._socket.loop
        self.connections = self._socket.connections
        self.dropped = self._socket.dropped
        self.port = settings.port
        self._sweeper: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.end_waits: Callable[[], None] = lambda: None
        """Has requests respond that wait for records, because a stop finishes them all."""

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
        self.end_waits()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=10)
        for connection in tuple(self.connections):
            connection.close("the broker is shutting down")
        await asyncio.sleep(0)

    def frame_limit(self, *, trusted: bool) -> int:
        """The largest request that a connection may send, at most all memory of large requests."""
        settings = self._settings
        limit = settings.max_request_bytes if trusted else settings.max_first_request_bytes
        return min(limit, self.memory.largest_request)

    def reclaim(self, size: int) -> bool:
        """Release empty buffers for a request of this size; True if there were any.

        While others wait there are none: each is released as soon as it is empty.
        """
        pool = self.memory.pool_of(size)
        if pool.is_wanted:
            return False
        idle = [one for one in self.connections if one.reservation.pool is pool]
        return sum(connection.shrink_buffer() for connection in idle) > 0

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
            if connection.is_receiving and now - connection.frame_began > allowed:
                text = f"a request was incomplete after {allowed:.0f} seconds"
                connection.drop(DropReason.REQUEST_TIMEOUT, text)
            elif now - connection.last_active > idle and not connection.is_waiting:
                text = f"idle for {idle:.0f} seconds (connections.max.idle.ms)"
                connection.drop(DropReason.IDLE, text)
        self._socket.drop_slow_uploads()
        self._sweeper = self.loop.call_later(min(SWEEP_SECONDS, patience / 4), self._sweep)
