"""A listening socket: accepts connections while there are slots for them, over TCP or TLS."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from strom.model.errors import UserError
from strom.server.memory import NetworkMemory
from strom.server.process_limits import ConnectionSlots
from strom.server.transport.client_transport import ClientTransport, H
from strom.server.transport.drop_reason import DropReason
from strom.server.transport.slow_uploads import SlowUploads

BACKLOG = 1024
URGENT_SWEEP_SECONDS = 0.1
"""How often uploads are observed while requests wait for memory."""


@dataclass(frozen=True)
class BindAddress:
    """Where to listen, and which setting has the port."""

    host: str
    port: int
    purpose: str
    """The clients that connect there, for messages."""
    port_setting: str


class SocketListener(Generic[H]):
    """One listening socket with its connections.

    `high_water` is how many unsent bytes make a connection `is_write_paused`; None for asyncio's default.
    """

    def __init__(
        self,
        make_handler: Callable[[ClientTransport[Any]], H],
        slots: ConnectionSlots,
        memory: NetworkMemory,
        *,
        high_water: int | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.port = 0
        self.memory = memory
        self.high_water = high_water
        self.connections: set[H] = set()
        self.dropped = dict.fromkeys(DropReason, 0)
        """The number of connections that were dropped, by reason."""
        self.make_handler = make_handler
        self._slots = slots
        self._slow_uploads = SlowUploads()
        self._sweeper: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None

    async def bind(self, address: BindAddress, tls: ssl.SSLContext | None = None) -> None:
        """Bind the address; UserError with what to do if it fails. Nothing is accepted yet."""
        try:
            self._server = await self.loop.create_server(
                lambda: ClientTransport(self),
                address.host,
                address.port,
                backlog=BACKLOG,
                reuse_address=True,
                start_serving=False,
                ssl=tls,
            )
        except OSError as error:
            raise _problem(address, error) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def start_serving(self) -> None:
        """Accept connections from now on."""
        assert self._server is not None  # noqa: S101 - bind() comes first
        await self._server.start_serving()

    def stop_serving(self) -> None:
        """Stop accepting; connections stay open."""
        self._cancel_sweep()
        if self._server is not None:
            self._server.close()

    def admit(self, connection: H, host: str) -> bool:
        """Register a connection; False if a limit is reached, of the process or of the address."""
        self.connections.add(connection)
        return self._slots.take(connection, host)

    def forget(self, connection: H) -> None:
        self.connections.discard(connection)
        self._slots.release(connection)

    def drop_slow_uploads(self) -> None:
        """Free memory that requests wait for. To be called every second; repeats itself while they do."""
        self._cancel_sweep()
        if not self.memory.is_wanted:
            self._slow_uploads.forget()
            return
        uploads = [one.upload for one in self.connections]
        self._slow_uploads.drop(filter(None, uploads), self.loop.time())
        self._sweeper = self.loop.call_later(URGENT_SWEEP_SECONDS, self.drop_slow_uploads)

    def _cancel_sweep(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None


def _problem(address: BindAddress, error: OSError) -> UserError:
    host, port, setting = address.host, address.port, address.port_setting
    if error.errno == errno.EADDRINUSE:
        return UserError(
            f"Port {port} on {host}, for {address.purpose}, is in use. Stop the process that uses it, "
            "or choose another port.",
            setting=setting,
        )
    if error.errno == errno.EACCES:
        text = f"Not allowed to listen on port {port}. Choose one above 1023."
        return UserError(text, setting=setting)
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        text = f"{host} is not an address of this machine. Choose another."
        return UserError(text, setting="host")
    return UserError(f"Cannot listen for {address.purpose} on {host}:{port}: {error.strerror}.")
