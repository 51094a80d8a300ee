"""The serving API: GET /views, GET /views/NAME?page=/cart&views.gte=10&order=-views, GET /query?sql=…"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from strom.http.application import CountRequest, HttpApplication, Scrape
from strom.http.errors import ErrorFormat, HttpError
from strom.http.guard import Guard
from strom.http.server import HttpListener, HttpServer, HttpThread
from strom.model.errors import UserError
from strom.pipelines.serving.cancellation import Cancellation, StatementCancelled
from strom.pipelines.serving.formats import MEDIA_TYPES, encode_batches
from strom.pipelines.serving.limits import ResultsFull
from strom.pipelines.serving.queries import QueryEngine
from strom.pipelines.set_aside import reason_set_aside
from strom.pipelines.views.manifests import Manifests

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_RESERVED = {"select", "order", "limit", "format"}
_CANCEL_INTERVAL_S = 0.05
_QUERIES = 4
"""How many queries run at the same time: each may hold some vectors of DuckDB beside its memory limit.

Further ones wait, and other requests do not.
"""
_WAIT_S = 10.0
"""How long a query waits for others to end."""
STOP_SECONDS = 5.0


def make_app(
    manifests: Manifests,
    engine: QueryEngine,
    guard: Guard,
    metrics: Scrape | None = None,
    count: CountRequest = lambda route, method, status, seconds: None,
) -> HttpApplication:
    """The ASGI application of the serving API."""
    from starlette.responses import JSONResponse

    from strom.http.routing import EncodedRoute, make_router

    def views(request: "Request") -> "Response":
        return JSONResponse([_describe(manifests, name) for name in manifests.names()])

    def view(request: "Request", cancellation: Cancellation) -> "Response":
        name = request.path_params["name"]
        manifests.existing(name)
        columns = {
            row["column_name"]: row["column_type"]
            for row in engine.query(f'DESCRIBE "{name}"', (), cancellation).to_pylist()
        }
        sql, values = view_query(name, columns, dict(request.query_params))
        return _respond(engine, sql, values, request.query_params.get("format"), cancellation)

    def query(request: "Request", cancellation: Cancellation) -> "Response":
        sql = request.query_params.get("sql", "")
        return _respond(engine, sql, [], request.query_params.get("format"), cancellation)

    running = asyncio.Semaphore(_QUERIES)
    routes = [
        EncodedRoute("/", views),
        EncodedRoute("/views", views),
        EncodedRoute("/views/{name}", _cancellable(view, running)),
        EncodedRoute("/query", _cancellable(query, running)),
    ]
    return HttpApplication(
        make_router(routes), guard=guard, errors=ERRORS, metrics=metrics, count=count
    )


def _translate(error: Exception) -> HttpError | None:
    if isinstance(error, StatementCancelled):
        return HttpError(503, str(error))
    if isinstance(error, ResultsFull):
        return HttpError(503, str(error), headers={"Retry-After": "1"})
    return HttpError(400, str(error)) if isinstance(error, UserError) else None


ERRORS = ErrorFormat("The serving API", lambda error: {"error": error.message}, _translate)


def _cancellable(
    work: Callable[["Request", Cancellation], "Response"], running: asyncio.Semaphore
) -> Callable[["Request"], Awaitable["Response"]]:
    """An endpoint that runs in a thread; its statement is cancelled when the client disconnects."""
    from anyio import to_thread

    async def endpoint(request: "Request") -> "Response":
        cancellation = Cancellation()
        watching = asyncio.create_task(_cancel_on_disconnect(request, cancellation))
        try:
            async with _turn(running):
                return await to_thread.run_sync(work, request, cancellation)
        finally:
            watching.cancel()

    return endpoint


@contextlib.asynccontextmanager
async def _turn(running: asyncio.Semaphore) -> AsyncIterator[None]:
    """Wait for one of the queries in flight to end; HttpError with status 503 if none does."""
    try:
        async with asyncio.timeout(_WAIT_S):
            await running.acquire()
    except TimeoutError:
        raise HttpError(
            503,
            f"{_QUERIES} other queries have been running for {_WAIT_S:g} seconds. Retry later.",
            headers={"Retry-After": "1"},
        ) from None
    try:
        yield
    finally:
        running.release()


async def _cancel_on_disconnect(request: "Request", cancellation: Cancellation) -> None:
    with contextlib.suppress(HttpError):  # other requests hold all the memory for bodies
        while (await request.receive())["type"] != "http.disconnect":
            pass
    while True:
        cancellation.cancel()
        await asyncio.sleep(_CANCEL_INTERVAL_S)


def view_query(
    name: str, columns: Mapping[str, str], parameters: Mapping[str, str]
) -> tuple[str, list[str]]:
    """The SELECT statement for the URL parameters of a view, and the values of its placeholders."""
    conditions, values = [], []
    for parameter, value in parameters.items():
        if parameter in _RESERVED:
            continue
        column, _, comparison = parameter.partition(".")
        operator = _COMPARISONS.get(comparison or "eq")
        if operator is None:
            raise UserError(f"Unknown comparison {comparison!r}: use {', '.join(_COMPARISONS)}.")
        conditions.append(f"{_column(column, columns)} {operator} CAST(? AS {columns[column]})")
        values.append(value)
    chosen = [_column(one, columns) for one in _split(parameters.get("select"))] or ["*"]
    sql = f'SELECT {", ".join(chosen)} FROM "{name}"'
    if conditions:
        sql += f" WHERE {' AND '.join(conditions)}"
    order = [
        _column(one.lstrip("-"), columns) + (" DESC" if one.startswith("-") else "")
        for one in _split(parameters.get("order"))
    ]
    if order:
        sql += f" ORDER BY {', '.join(order)}"
    limit = parameters.get("limit", "1000")
    if not limit.isdigit():
        raise UserError(f"limit must be a number, not {limit!r}.")
    return f"{sql} LIMIT {limit}", values


def listen(host: str, port: int) -> HttpListener:
    """Bind the port; UserError if it is in use."""
    return HttpListener(host, port, interface="The serving API", setting="serving.port")


class ServingServer:
    """Runs the serving API in its own thread."""

    def __init__(
        self,
        manifests: Manifests,
        engine: QueryEngine,
        listener: HttpListener,
        allowed_hosts: Sequence[str] = (),
        metrics: Scrape | None = None,
        count: CountRequest = lambda route, method, status, seconds: None,
    ) -> None:
        guard = Guard.create(listener.host, allowed_hosts)
        app = make_app(manifests, engine, guard, metrics, count)
        self._listener = listener
        self._http = HttpThread(HttpServer(app, self._listener), "http")
        self._engine = engine

    def start(self) -> str:
        """Start the server; returns its URL."""
        self._http.start()
        return self._listener.url

    def stop(self) -> None:
        """Cancel running statements, and drop clients that do not read their responses in time."""
        self._http.ask_to_stop(STOP_SECONDS)
        deadline = time.monotonic() + STOP_SECONDS
        while not self._http.join(_CANCEL_INTERVAL_S) and time.monotonic() < deadline:
            # The HTTP server waits for its requests, and they wait for their statements.
            self._engine.cancel_running()


def _respond(
    engine: QueryEngine, sql: str, values: list[str], form: str | None, cancellation: Cancellation
) -> "Response":
    from strom.pipelines.serving.responses import ResultResponse

    form = form or "json"
    if form not in MEDIA_TYPES:
        raise UserError(f"Unknown format {form!r}: use {', '.join(MEDIA_TYPES)}.")
    result = engine.query_within_limits(
        sql,
        lambda schema, batches: engine.results.write(encode_batches(schema, batches, form)),
        values,
        cancellation,
    )
    return ResultResponse(result, MEDIA_TYPES[form])


def _describe(manifests: Manifests, name: str) -> dict[str, Any]:
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


def _split(text: str | None) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()] if text else []


def _column(name: str, columns: Mapping[str, str]) -> str:
    if name not in columns:
        raise UserError(f"Unknown column {name!r}. The columns are {', '.join(columns)}.")
    return f'"{name}"'
