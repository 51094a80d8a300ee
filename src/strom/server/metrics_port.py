"""A port of its own for metrics, on the event loop of the node."""

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from strom.http.guard import Guard, Refusal
from strom.http.guarded_app import Application, GuardedApp, Receive, Scope, Send
from strom.metrics.exposition import MetricsEndpoint, MetricsRegistry
from strom.model.errors import UserError

if TYPE_CHECKING:
    import uvicorn

METRICS_PATH = "/metrics"
_MAX_CONNECTIONS = 16
_STOP_S = 2


class MetricsPort:
    """Serves /metrics until it is stopped."""

    def __init__(self, registry: MetricsRegistry, guard: Guard) -> None:
        self.port = 0
        self._app = GuardedApp(_only_metrics(MetricsEndpoint(registry)), guard, _describe)
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen; UserError with what to do if the port cannot be had."""
        import uvicorn

        try:
            family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
            listening = socket.create_server((host, port), family=family)
        except OSError as error:
            raise UserError(
                f"Cannot serve metrics on {host}:{port} ({error.strerror}). Choose another port with "
                "--metrics-port, or 0 for none."
            ) from error
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan="off",
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_STOP_S,
        )
        self._server = uvicorn.Server(config)
        # The node handles signals itself.
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[assignment, method-assign]
        self._serving = asyncio.get_running_loop().create_task(self._server.serve([listening]))

    async def stop(self) -> None:
        """Stop."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving


def _only_metrics(metrics: Application) -> Application:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != METRICS_PATH:
            headers = [(b"content-type", b"text/plain"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 404, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await metrics(scope, receive, send)

    return app


def _describe(refusal: Refusal) -> dict[str, object]:
    return {"error": refusal.message}
