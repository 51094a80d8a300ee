"""Listens for queue clients."""

import asyncio
import errno

from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import QueueBroker
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import UserError
from strom.server.amqp.ack_timeout import CONNECTIONS_AT_ONCE, close_overdue, interval_ms
from strom.server.amqp.connection import AmqpConnection
from strom.server.amqp.context import HalfReceived, QueueServices
from strom.server.process_limits import ConnectionSlots


class AmqpListener:
    """One listening socket with its connections."""

    def __init__(
        self, settings: BrokerSettings, queues: QueueBroker, slots: ConnectionSlots
    ) -> None:
        self.connections: set[AmqpConnection] = set()
        self.declarations = Declarations(queues)
        self.port = 0
        self._settings = settings
        self._queues = queues
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._services = QueueServices(
            queues,
            self.declarations,
            settings,
            f"strom@{settings.host}",
            HalfReceived(settings.max_bytes_in_flight),
            slots,
        )
        queues.when_blocked.append(self._tell_blocked)

    async def start(self) -> None:
        """Listen; UserError with what to do if the port cannot be had."""
        host, port = self._settings.host, max(0, self._settings.amqp_port)
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: AmqpConnection(self._services, self.connections),
                host,
                port,
                backlog=1024,
                reuse_address=True,
            )
        except OSError as error:
            raise UserError(_problem(host, port, error)) from error
        self.port = self._server.sockets[0].getsockname()[1]
        self.declarations.resume()
        self._look_soon()

    async def stop(self) -> None:
        """Say goodbye to everyone."""
        if self._server is not None:
            self._server.close()
        if self._timer is not None:
            self._timer.cancel()
        self.declarations.stop()
        for connection in tuple(self.connections):
            connection.shut_down()
        await asyncio.sleep(0)

    def _look_soon(self) -> None:
        seconds = interval_ms(self._settings.amqp_consumer_timeout_ms) / 1000
        self._timer = self._queues.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self.close_overdue_channels()
        self._look_soon()

    def close_overdue_channels(self) -> None:
        """Close the channels of clients that keep messages without acknowledging them."""
        left = list(self.connections)
        timeout_ms = self._settings.amqp_consumer_timeout_ms
        now_ms = int(self._queues.loop.time() * 1000)  # not the time of day, which may be set

        def step() -> bool:
            close_overdue(left[-CONNECTIONS_AT_ONCE:], timeout_ms, now_ms)
            del left[-CONNECTIONS_AT_ONCE:]
            return bool(left)

        self._queues.slices.add(step)

    def _tell_blocked(self, reason: str | None) -> None:
        for connection in tuple(self.connections):
            connection.tell_blocked(reason)


def _problem(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host}, for queue clients (AMQP), is in use. Stop whoever uses it, choose "
            "another with --amqp-port, or do without queues by --amqp-port 0."
        )
    return f"Cannot listen for queue clients (AMQP) on {host}:{port}: {error.strerror}."
