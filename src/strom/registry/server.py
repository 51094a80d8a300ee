"""A registry that answers on a port, in threads of its own or in the foreground."""

import contextlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from strom.http.guard import Guard
from strom.model.errors import UserError
from strom.registry.registry import Registry
from strom.registry.schemas_log import TOPIC

if TYPE_CHECKING:
    import uvicorn

DEFAULT_PORT = 8081
LOOPBACK = "127.0.0.1"
_START_S = 20
_OTHER_MEDIA_TYPES = ("application/octet-stream",)
"""Confluent's registry takes bodies of this type too."""


class RegistryServer:
    """A schema registry on a Kafka.

    with RegistryServer(broker.bootstrap_servers) as registry:
        client = RegistryClient(registry.url)
    """

    def __init__(
        self,
        servers: str,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        topic: str = TOPIC,
        settings: Mapping[str, str] | None = None,
        allowed_hosts: Sequence[str] = (),
    ) -> None:
        self._guard = Guard.create(host, allowed_hosts, other_media_types=_OTHER_MEDIA_TYPES)
        self.registry = Registry(servers, topic=topic, settings=settings)
        self.host = host
        self._port = port
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it answers, as in http://127.0.0.1:8081."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self._port}"

    def start(self) -> Self:
        """Read the topic and answer from then on."""
        server, listening = self._made()
        self._thread = threading.Thread(
            target=server.run, args=([listening],), name="registry-http", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START_S
        while not server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise UserError(f"The schema registry cannot answer on {self.url}.")
            time.sleep(0.005)
        return self

    def run(self, on_ready: Callable[[str], None]) -> None:
        """Answer until a signal or `ask_to_stop`; the address is told when clients can connect."""
        server, listening = self._made()
        # uvicorn's own handlers come later, and pass the signal on when all is done.
        server.capture_signals = contextlib.nullcontext  # type: ignore[assignment, method-assign]
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.ask_to_stop())
        on_ready(self.url)
        try:
            server.run([listening])
        finally:
            self.registry.stop()

    def ask_to_stop(self) -> None:
        """Have it end soon."""
        if self._server is not None:
            self._server.should_exit = True

    def stop(self) -> None:
        """Stop."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.registry.stop()
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _made(self) -> "tuple[uvicorn.Server, socket.socket]":
        import uvicorn

        from strom.registry.rest.app import make_app

        # The port is taken first: a mistake in it is told before the topic is read.
        self._socket = _listen(self.host, self._port)
        self._port = self._socket.getsockname()[1]
        try:
            self.registry.start()
        except BaseException:
            self._socket.close()
            raise
        config = uvicorn.Config(
            make_app(self.registry, self._guard),
            log_level=logging.ERROR,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=5,
        )
        self._server = uvicorn.Server(config)
        return self._server, self._socket


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise UserError(
            f"The schema registry cannot listen on {host}:{port} ({error.strerror}). "
            "Choose another port with --port."
        ) from error
