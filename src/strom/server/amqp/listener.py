"""The listener of AMQP clients, with the checks that concern all its connections."""

import asyncio
import ssl

from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import QueueBroker
from strom.model.broker_settings import BrokerSettings
from strom.server.amqp.ack_timeout import CONNECTIONS_AT_ONCE, close_overdue, interval_ms
from strom.server.amqp.connection import AmqpConnection
from strom.server.amqp.session import QueueServices
from strom.server.memory import NetworkMemory
from strom.server.process_limits import ConnectionSlots
from strom.server.transport.socket_listener import BindAddress, SocketListener

SWEEP_SECONDS = 1.0


class AmqpListener:
    """The listening socket of AMQP clients with its connections."""

    def __init__(
        self, settings: BrokerSettings, queues: QueueBroker, slots: ConnectionSlots
    ) -> None:
        self.declarations = Declarations(queues)
        self.port = 0
        self._settings = settings
        self._queues = queues
        self._timer: asyncio.TimerHandle | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        capacity = settings.max_bytes_in_flight
        self.memory = NetworkMemory(capacity, buffers=capacity // 8)
        services = QueueServices(
            queues, self.declarations, settings, f"strom@{settings.host}", self.memory
        )
        self._socket: SocketListener[AmqpConnection] = SocketListener(
            lambda transport: AmqpConnection(transport, services),
            slots,
            self.memory,
        )
        self.connections = self._socket.connections
        self.dropped = self._socket.dropped
        queues.block.listeners.append(self._set_blocked)

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Listen; UserError with what to do if the port cannot be bound."""
        address = BindAddress(
            self._settings.host,
            max(0, self._settings.amqp_port),
            "queue clients (AMQP)",
            port_setting="amqp.port",
        )
        await self._socket.bind(address, tls)
        self.port = self._socket.port
        self.declarations.resume()
        await self._socket.start_serving()
        self._schedule_check()
        self._sweep()

    async def stop(self) -> None:
        """Stop listening and close all connections."""
        self._socket.stop_serving()
        for timer in (self._timer, self._sweeper):
            if timer is not None:
                timer.cancel()
        self.declarations.stop()
        for connection in tuple(self.connections):
            connection.shut_down()
        await asyncio.sleep(0)

    def _sweep(self) -> None:
        for connection in self.connections:
            connection.release_buffer()
        self._socket.drop_slow_uploads()
        self._sweeper = self._queues.loop.call_later(SWEEP_SECONDS, self._sweep)

    def _schedule_check(self) -> None:
        seconds = interval_ms(self._settings.amqp_consumer_timeout_ms) / 1000
        self._timer = self._queues.loop.call_later(seconds, self._check)

    def _check(self) -> None:
        self.close_overdue_channels()
        self._schedule_check()

    def close_overdue_channels(self) -> None:
        """Close channels with deliveries that exceed the acknowledgement timeout."""
        left = list(self.connections)
        timeout_ms = self._settings.amqp_consumer_timeout_ms
        now_ms = int(self._queues.loop.time() * 1000)  # monotonic: the wall clock may be set

        def step() -> bool:
            close_overdue(left[-CONNECTIONS_AT_ONCE:], timeout_ms, now_ms)
            del left[-CONNECTIONS_AT_ONCE:]
            return bool(left)

        self._queues.slices.add(step)

    def _set_blocked(self, reason: str | None) -> None:
        for connection in tuple(self.connections):
            connection.set_blocked(reason)
