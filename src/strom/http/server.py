"""One HTTP server: listens first, then serves in the caller's event loop or in its own thread."""

import asyncio
import errno
import signal
import socket
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self, cast

from strom.http.application import HttpApplication, Scope, Send
from strom.http.hosts import format_authority
from strom.http.json_body import BodyMemory, Receive
from strom.model.errors import UserError
from strom.model.http_settings import HttpLimits

if TYPE_CHECKING:
    from strom.http.protocol import LimitedHttpProtocol, Slots

STOP_S = 5.0
_START_S = 20.0
_BACKLOG = 1024
_POLL_S = 0.01
_NO_SUCH_FAMILY = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Without an address of the family, and without the family in the kernel."""


class HttpListener:
    """A port that listens: clients connect, and wait in the backlog until a server accepts them."""

    def __init__(self, host: str, port: int, *, interface: str, setting: str) -> None:
        """Listen at all addresses of the host; UserError, with the port's `setting`, if that fails."""
        self.host = host
        self.sockets: list[socket.socket] = []
        try:
            for family, address in _addresses(host, port):
                self._listen(family, (address, port))
                port = self.sockets[0].getsockname()[1]  # 0 becomes a free one, for all addresses
        except OSError as error:
            self.close()
            remedy = f"Change {setting}, or choose an address of this machine."
            if error.errno == errno.EADDRINUSE:
                remedy = f"Stop the process that uses this port, or change {setting}."
            raise UserError(
                f"{interface} cannot listen on {format_authority(host, port)} ({error.strerror}). "
                f"{remedy}",
                setting=setting,
            ) from error
        self.port = port

    def _listen(self, family: int, address: tuple[str, int]) -> None:
        try:
            listening = socket.create_server(address, family=family, backlog=_BACKLOG)
        except OSError as error:
            # "localhost" resolves to ::1 even on machines without IPv6.
            if not self.sockets or error.errno not in _NO_SUCH_FAMILY:
                raise
            return
        self.sockets.append(listening)

    @property
    def url(self) -> str:
        """The address, as in http://127.0.0.1:8081."""
        return f"http://{format_authority(self.host, self.port)}"

    def close(self) -> None:
        for one in self.sockets:
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class HttpServer:
    """Serves an application in the running event loop, from `start` to `stop`."""

    def __init__(
        self,
        app: HttpApplication,
        listener: HttpListener,
        *,
        limits: HttpLimits = HttpLimits(),  # noqa: B008 - it is frozen
        slots: "Slots | None" = None,
    ) -> None:
        self.listener = listener
        self._app = app
        self._limits = replace(limits, connections=min(limits.connections, _most_connections()))
        self._slots = slots
        self._bodies = BodyMemory(limits)
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        # Imported here: a program that serves no HTTP starts faster without it.
        import uvicorn
        from uvicorn.server import ServerState

        from strom.http.protocol import LimitedHttpProtocol

        config = uvicorn.Config(
            self._handle,
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            # Logins are restricted by the peer's address: X-Forwarded-For must not replace it.
            proxy_headers=False,
        )
        config.load()
        self._state = ServerState()

        def make_protocol() -> LimitedHttpProtocol:
            return LimitedHttpProtocol(
                config,
                self._state,
                limits=self._limits,
                errors=self._app.errors,
                slots=self._slots,
            )

        loop = asyncio.get_running_loop()
        for one in self.listener.sockets:
            self._servers.append(
                await loop.create_server(make_protocol, sock=one, backlog=_BACKLOG)
            )

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._bodies.counting(receive) as counted:
            await self._app(scope, counted, send)

    async def stop(self, grace_s: float = STOP_S) -> None:
        """Stop accepting, wait for open requests up to `grace_s`, and cancel the rest."""
        for server in self._servers:
            server.close()
        self.listener.close()
        if not self._servers:
            return
        state = self._state
        for connection in self._connections():
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                # uvicorn keeps sets, without an event for when they are empty.
                while state.connections or state.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
        for connection in self._connections():
            connection.abort()
        for task in tuple(state.tasks):
            task.cancel()

    def _connections(self) -> "tuple[LimitedHttpProtocol, ...]":
        return tuple(cast("set[LimitedHttpProtocol]", self._state.connections))


def _most_connections() -> int:
    """Half of the files that the process may open, as 256 on macOS; it needs the others for its work.

    Without any, a new connection is closed before one that waits for its client can make room.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft // 2


class HttpThread:
    """Runs a server in its own thread with its own event loop."""

    def __init__(self, server: HttpServer, name: str) -> None:
        self._server = server
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._stopping = asyncio.Event()
        self._grace_s = STOP_S

    def start(self) -> None:
        """Return when the server accepts connections, or raise what prevents it."""
        self._thread.start()
        self._started.result(_START_S)

    def stop(self, grace_s: float = STOP_S) -> None:
        """Stop and wait; a request that cannot be cancelled is abandoned with the thread."""
        self.ask_to_stop(grace_s)
        self.join(grace_s + STOP_S)

    def ask_to_stop(self, grace_s: float = STOP_S) -> None:
        """Begin to stop; does not wait."""
        self._grace_s = grace_s
        if not self._thread.ident:
            self._server.listener.close()
        elif self._thread.is_alive():
            with suppress(Exception):  # it could not start, or has just ended by itself
                self._started.result(_START_S).call_soon_threadsafe(self._stopping.set)

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread; True if it has ended."""
        if self._thread.ident:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        from uvicorn.loops.auto import auto_loop_factory

        with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        try:
            await self._server.start()
        except Exception as error:  # noqa: BLE001 - raised by `start`
            self._server.listener.close()
            self._started.set_exception(error)
            return
        self._started.set_result(asyncio.get_running_loop())
        await self._stopping.wait()
        await self._server.stop(self._grace_s)


def set_on_signal(stopping: threading.Event) -> None:
    """Set an event on SIGINT and SIGTERM, for a program that serves in the foreground."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())


def _addresses(host: str, port: int) -> list[tuple[int, str]]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))
