"""The application: all calls of the interface, for any ASGI server."""

from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from strom.http.guard import Guard
from strom.http.guarded_app import GuardedApp
from strom.registry.refusals import RestError, store_failed
from strom.registry.registry import Registry
from strom.registry.rest.compatibility import CompatibilityCalls
from strom.registry.rest.exchange import CONTENT_TYPE, answer, refused
from strom.registry.rest.schemas import SchemaCalls
from strom.registry.rest.settings import SettingsCalls
from strom.registry.rest.subjects import SubjectCalls

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LONGEST_ID = 10


def make_app(registry: Registry, guard: Guard) -> "ASGIApp":
    """The interface over a registry that has been started, for requests that the guard allows."""

    def root(request: Request) -> Response:
        return answer({})

    def health(request: Request) -> Response:
        if registry.log.failure is not None:
            store_failed(str(registry.log.failure))
        with registry.reading() as subjects:
            return answer({"status": "healthy", "subjects": len(subjects.subjects())})

    def contexts(request: Request) -> Response:
        return answer(["."])

    routes = [
        Route("/", root),
        Route("/health", health),
        Route("/contexts", contexts),
        *SchemaCalls(registry).routes(),
        *SubjectCalls(registry).routes(),
        *SettingsCalls(registry).routes(),
        *CompatibilityCalls(registry).routes(),
    ]
    handlers: Any = {RestError: refused, HTTPException: _http_error, Exception: _unexpected}
    app = EncodedPaths(Starlette(routes=routes, exception_handlers=handlers))
    return GuardedApp(
        ReadyAnswers(app, registry),
        guard,
        lambda refusal: {"error_code": refusal.status, "message": refusal.message},
        CONTENT_TYPE,
    )


class ReadyAnswers:
    """Answers the plain question for an id from bytes that lie ready, before anything else is done.

    It is what every consumer asks; the way through the routes takes several times as long.
    """

    PREFIX = "/schemas/ids/"

    def __init__(self, app: "ASGIApp", registry: Registry) -> None:
        self._app = app
        self._rendered = registry.rendered

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer, or pass a request on."""
        ready = self._ready(scope) if scope["type"] == "http" else None
        if ready is None:
            await self._app(scope, receive, send)
            return
        headers = [
            (b"content-type", CONTENT_TYPE.encode()),
            (b"content-length", str(len(ready)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": ready})

    def _ready(self, scope: "Scope") -> bytes | None:
        path: str = scope["path"]
        if scope["method"] != "GET" or scope["query_string"] or not path.startswith(self.PREFIX):
            return None
        number = path[len(self.PREFIX) :]
        is_number = number.isascii() and number.isdigit() and len(number) <= LONGEST_ID
        return self._rendered.get(int(number)) if is_number else None


class EncodedPaths:
    """Routes by the path as it was sent: a subject may have an encoded slash in its name."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass a request on."""
        if scope["type"] == "http" and scope.get("raw_path"):
            path = scope["raw_path"].decode("ascii", "replace").partition("?")[0]
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)


def _http_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    return answer({"error_code": status, "message": f"HTTP {error}"}, status)


def _unexpected(request: Request, error: Exception) -> Response:
    return answer({"error_code": 500, "message": "The registry failed; its log says more."}, 500)
