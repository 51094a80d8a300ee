"""The registry as an HTTP server, in its own threads or in the foreground."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from strom.http.guard import Guard
from strom.http.server import HttpListener, HttpServer, HttpThread, set_on_signal
from strom.registry.registry import Registry
from strom.registry.schemas_log import TOPIC

DEFAULT_PORT = 8081
LOOPBACK = "127.0.0.1"
_OTHER_MEDIA_TYPES = ("application/octet-stream",)
"""Confluent's registry accepts bodies of this type too; see `rest/negotiation.py`."""


class RegistryServer:
    """A schema registry that stores its schemas in a Kafka topic.

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
        self._host, self._port = host, port
        self._listener: HttpListener | None = None
        self._http: HttpThread | None = None
        self._stopping = threading.Event()

    @property
    def url(self) -> str:
        """The address, as in http://127.0.0.1:8081; known after the start."""
        if self._listener is None:
            raise RuntimeError("The registry has not been started.")
        return self._listener.url

    def start(self) -> Self:
        """Read the topic, then serve."""
        from strom.registry.rest.app import make_app

        # First, so that a port in use is reported before the topic is read.
        self._listener = HttpListener(
            self._host, self._port, interface="The schema registry", setting="port"
        )
        try:
            self.registry.start()
            app = make_app(self.registry, self._guard)
            self._http = HttpThread(HttpServer(app, self._listener), "registry-http")
            self._http.start()
        except BaseException:
            self.stop()
            raise
        return self

    def run(self, on_ready: Callable[[str], None]) -> None:
        """Serve until SIGINT, SIGTERM or `ask_to_stop`; `on_ready` gets the address."""
        self.start()
        try:
            set_on_signal(self._stopping)
            on_ready(self.url)
            while not self._stopping.wait(3600):
                pass  # Windows delivers no signal during a wait without a timeout
        finally:
            self.stop()

    def ask_to_stop(self) -> None:
        """Let `run` return soon."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop serving, then following the topic."""
        if self._http is not None:
            self._http.stop()
        elif self._listener is not None:
            self._listener.close()
        self.registry.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
