"""The application: all routes of the interface, for any ASGI server."""

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from strom.http.application import ROUTE, HttpApplication, respond
from strom.http.guard import Guard
from strom.http.routing import EncodedRoute, make_router
from strom.metrics.exposition import Rendered
from strom.metrics.http import HttpStats
from strom.registry.measurements import make_registry_metrics
from strom.registry.refusals import store_failed
from strom.registry.registry import Registry
from strom.registry.rest.compatibility import CompatibilityCalls
from strom.registry.rest.exchange import CONTENT_TYPE, ERRORS, json_response, whole_number
from strom.registry.rest.negotiation import HEALTH, Negotiation
from strom.registry.rest.schemas import SchemaCalls
from strom.registry.rest.settings import SettingsCalls
from strom.registry.rest.subjects import SubjectCalls

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def make_app(registry: Registry, guard: Guard) -> HttpApplication:
    """Make the interface of a started registry, for requests that the guard allows."""

    def root(request: Request) -> Response:
        return json_response({})

    def health(request: Request) -> Response:
        if registry.log.failure is not None:
            store_failed(str(registry.log.failure))
        with registry.reading() as subjects:
            return json_response({"status": "healthy", "subjects": len(subjects.subjects())})

    def contexts(request: Request) -> Response:
        return json_response(["."])

    routes = [
        EncodedRoute("/", root),
        EncodedRoute(HEALTH, health),
        EncodedRoute("/contexts", contexts),
        *SchemaCalls(registry).routes(),
        *SubjectCalls(registry).routes(),
        *SettingsCalls(registry).routes(),
        *CompatibilityCalls(registry).routes(),
    ]

    def not_ready() -> str | None:
        return None if registry.log.failure is None else "The topic of schemas is not followed."

    requests = HttpStats("registry")
    metrics = make_registry_metrics(registry, requests)

    async def scrape(accept: str) -> Rendered:
        # Not on the event loop: the state is locked as long as a compatibility check takes.
        return await run_in_threadpool(metrics.render, accept)

    return HttpApplication(
        Negotiation(RenderedSchemas(make_router(routes), registry)),
        guard=guard,
        errors=ERRORS,
        not_ready=not_ready,
        metrics=scrape,
        count=requests.count,
    )


class RenderedSchemas:
    """Serves GET /schemas/ids/ID from cached bytes, ahead of the router.

    It is the request of every consumer, and several times as fast without the router.
    """

    PREFIX = "/schemas/ids/"

    def __init__(self, app: "ASGIApp", registry: Registry) -> None:
        self._app = app
        self._rendered = registry.rendered

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        body = self._find(scope) if scope["type"] == "http" else None
        if body is None:
            await self._app(scope, receive, send)
            return
        scope[ROUTE] = f"{self.PREFIX}{{id}}"
        await respond(send, 200, body, CONTENT_TYPE)

    def _find(self, scope: "Scope") -> bytes | None:
        path: str = scope["path"]
        if scope["method"] != "GET" or scope["query_string"] or not path.startswith(self.PREFIX):
            return None
        number = whole_number(path[len(self.PREFIX) :])
        return None if number is None else self._rendered.get(number)
