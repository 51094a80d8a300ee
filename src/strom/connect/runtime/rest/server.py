"""Serves REST for a worker, in a thread of its own."""

import socket
import threading

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from strom.connect.api import ConnectError
from strom.connect.runtime.commands import Commands
from strom.connect.runtime.measurements import make_worker_metrics
from strom.connect.runtime.rest import connectors, plugins
from strom.connect.runtime.rest.answers import EncodedPaths, not_an_endpoint
from strom.connect.runtime.worker import ConnectWorker
from strom.http.guard import Guard, Refusal
from strom.http.guarded_app import GuardedApp
from strom.metrics.exposition import MetricsEndpoint

_STOP_S = 5


def make_app(worker: ConnectWorker) -> Starlette:
    """The application, for any ASGI server."""
    settings = worker.settings
    guard = Guard.create(settings.host, settings.allowed_hosts, advertised=settings.advertised_host)
    metrics = Route("/metrics", MetricsEndpoint(make_worker_metrics(worker)))
    app = Starlette(
        routes=[*connectors.ROUTES, *plugins.ROUTES, metrics],
        middleware=[
            Middleware(GuardedApp, guard=guard, describe=_refused),
            Middleware(EncodedPaths),
        ],
        exception_handlers={HTTPException: not_an_endpoint},
    )
    app.state.commands = Commands(worker)
    return app


def _refused(refusal: Refusal) -> dict[str, object]:
    return {"error_code": refusal.status, "message": refusal.message}


def listen(host: str, port: int) -> socket.socket:
    """Take a port before anything else starts, so that the worker's id is right from the first."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)  # whoever comes early waits, and is not refused
    except OSError as error:
        listener.close()
        raise ConnectError(f"REST cannot listen at {host}:{port}: {error.strerror}.") from None
    return listener


class RestServer:
    """Answers requests from `start` to `stop`."""

    def __init__(self, worker: ConnectWorker, listener: socket.socket) -> None:
        self._listener = listener
        config = uvicorn.Config(
            make_app(worker), log_config=None, access_log=False, timeout_graceful_shutdown=_STOP_S
        )
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="connect-rest", daemon=True
        )

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.should_exit = True
        self._thread.join(2 * _STOP_S)
        self._listener.close()


class RunningWorker:
    """A worker with its REST interface: what `strom connect worker` runs."""

    def __init__(self, texts: dict[str, str]) -> None:
        from strom.connect.runtime.settings import WorkerSettings
        from strom.connect.runtime.worker import split_texts

        settings = WorkerSettings.read(split_texts(texts)[0])
        self._listener = listen(settings.host, settings.port)
        self.port: int = self._listener.getsockname()[1]
        try:
            self.worker = ConnectWorker(texts, port=self.port)
            self._rest = RestServer(self.worker, self._listener)
        except BaseException:
            self._listener.close()
            raise

    @property
    def url(self) -> str:
        """Where REST answers."""
        return f"http://{self.worker.worker_id}"

    def start(self) -> "RunningWorker":
        """Start both."""
        try:
            self.worker.start()
            self._rest.start()
        except BaseException:
            self._listener.close()
            raise
        return self

    def stop(self) -> None:
        """Stop both."""
        self._rest.stop()
        self.worker.stop()

    def __enter__(self) -> "RunningWorker":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
