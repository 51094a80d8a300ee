"""Views over HTTP: GET /views, GET /views/NAME?page=/cart&views.gte=10&order=-views, GET /query?sql=…"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from strom.http.guard import Guard
from strom.http.guarded_app import GuardedApp
from strom.metrics.exposition import MetricsEndpoint, MetricsRegistry
from strom.model.errors import UserError
from strom.pipelines.serving.cancellation import Cancellation, StatementCancelled
from strom.pipelines.serving.formats import MEDIA_TYPES, written
from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.set_aside import reason_set_aside
from strom.pipelines.views.manifests import Manifests

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_OWN = {"select", "order", "limit", "format"}
_START_SECONDS = 20
_CANCEL_AGAIN_S = 0.05
STOP_SECONDS = 5.0


def make_app(
    manifests: Manifests, server: QueryEngine, guard: Guard, metrics: MetricsRegistry | None = None
) -> "Starlette":
    """The application; run it with any ASGI server."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def views(request: "Request") -> "Response":
        return JSONResponse([_described(manifests, name) for name in manifests.names()])

    def view(request: "Request", cancellation: Cancellation) -> "Response":
        name = request.path_params["name"]
        manifests.existing(name)
        columns = {
            row["column_name"]: row["column_type"]
            for row in server.query(f'DESCRIBE "{name}"', (), cancellation).to_pylist()
        }
        sql, values = view_query(name, columns, dict(request.query_params))
        return _answer(server, sql, values, request.query_params.get("format"), cancellation)

    def query(request: "Request", cancellation: Cancellation) -> "Response":
        sql = request.query_params.get("sql", "")
        return _answer(server, sql, [], request.query_params.get("format"), cancellation)

    def mistake(request: "Request", error: Exception) -> "Response":
        return JSONResponse({"error": str(error)}, status_code=400)

    def cancelled(request: "Request", error: Exception) -> "Response":
        return JSONResponse({"error": str(error)}, status_code=503)

    routes = [
        Route("/", views),
        Route("/views", views),
        Route("/views/{name}", _cancellable(view)),
        Route("/query", _cancellable(query)),
    ]
    if metrics is not None:
        routes.append(Route("/metrics", MetricsEndpoint(metrics)))
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(GuardedApp, guard=guard, describe=lambda refusal: {"error": refusal.message})
        ],
        exception_handlers={UserError: mistake, StatementCancelled: cancelled},
    )


def _cancellable(
    work: Callable[["Request", Cancellation], "Response"],
) -> Callable[["Request"], Awaitable["Response"]]:
    """An endpoint that works in a thread, and whose statement is cancelled when the client has gone."""
    from starlette.concurrency import run_in_threadpool

    async def endpoint(request: "Request") -> "Response":
        cancellation = Cancellation()
        watching = asyncio.create_task(_cancel_when_gone(request, cancellation))
        try:
            return await run_in_threadpool(work, request, cancellation)
        finally:
            watching.cancel()

    return endpoint


async def _cancel_when_gone(request: "Request", cancellation: Cancellation) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    while True:
        cancellation.cancel()
        await asyncio.sleep(_CANCEL_AGAIN_S)


def view_query(
    name: str, columns: Mapping[str, str], parameters: Mapping[str, str]
) -> tuple[str, list[str]]:
    """The SELECT for a view's URL parameters, and the values for its question marks."""
    conditions, values = [], []
    for parameter, value in parameters.items():
        if parameter in _OWN:
            continue
        column, _, comparison = parameter.partition(".")
        operator = _COMPARISONS.get(comparison or "eq")
        if operator is None:
            raise UserError(f"There is no comparison {comparison!r}: {', '.join(_COMPARISONS)}.")
        conditions.append(f"{_column(column, columns)} {operator} CAST(? AS {columns[column]})")
        values.append(value)
    chosen = [_column(one, columns) for one in _listed(parameters.get("select"))] or ["*"]
    sql = f'SELECT {", ".join(chosen)} FROM "{name}"'
    if conditions:
        sql += f" WHERE {' AND '.join(conditions)}"
    order = [
        _column(one.lstrip("-"), columns) + (" DESC" if one.startswith("-") else "")
        for one in _listed(parameters.get("order"))
    ]
    if order:
        sql += f" ORDER BY {', '.join(order)}"
    limit = parameters.get("limit", "1000")
    if not limit.isdigit():
        raise UserError(f"limit must be a number, not {limit!r}.")
    return f"{sql} LIMIT {limit}", values


class HttpServer:
    """The serving API in a thread of its own."""

    def __init__(
        self,
        manifests: Manifests,
        server: QueryEngine,
        host: str,
        port: int,
        allowed_hosts: Sequence[str] = (),
        metrics: MetricsRegistry | None = None,
    ) -> None:
        import uvicorn

        guard = Guard.create(host, allowed_hosts)
        config = uvicorn.Config(
            make_app(manifests, server, guard, metrics),
            host=host,
            port=port,
            log_level="error",
            access_log=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="http", daemon=True)
        self._statements = server
        self._host, self._port = host, port

    def start(self) -> str:
        """Start; the address."""
        self._thread.start()
        began = time.monotonic()
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() - began > _START_SECONDS:
                raise UserError(f"The serving API cannot listen on {self._host}:{self._port}.")
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://{self._host}:{port}"

    def stop(self) -> None:
        """Stop; running statements are cancelled, and clients that do not read their responses left."""
        self._server.should_exit = True
        deadline = time.monotonic() + STOP_SECONDS
        while self._thread.is_alive() and time.monotonic() < deadline:
            # It waits for requests, which wait for their statements.
            self._statements.cancel_running()
            self._thread.join(_CANCEL_AGAIN_S)
        self._server.force_exit = True


def _answer(
    server: QueryEngine, sql: str, values: list[str], form: str | None, cancellation: Cancellation
) -> "Response":
    from starlette.responses import Response

    form = form or "json"
    if form not in MEDIA_TYPES:
        raise UserError(f"There is no format {form!r}: {', '.join(MEDIA_TYPES)}.")
    table = server.query(sql, values, cancellation)
    return Response(written(table, form), media_type=MEDIA_TYPES[form])


def _described(manifests: Manifests, name: str) -> dict[str, Any]:
    manifest = manifests.existing(name)
    version = manifest.active_version
    return {
        "name": name,
        "topic": manifest.topic,
        "version": manifest.active,
        "versions": [
            {"version": one.number, "state": manifest.state_of(one.number)}
            for one in manifest.versions
        ],
        "definition": version.definition if version else None,
        "position": list(version.position.next) if version else None,
        "set_aside": reason_set_aside(manifests, name),
    }


def _listed(text: str | None) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()] if text else []


def _column(name: str, columns: Mapping[str, str]) -> str:
    if name not in columns:
        raise UserError(f"There is no column {name!r}. The columns are {', '.join(columns)}.")
    return f'"{name}"'
