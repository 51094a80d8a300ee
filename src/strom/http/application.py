"""What every HTTP interface has before its routes: guard, authentication, errors, health, metrics."""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

from strom.http.authentication import Authenticate
from strom.http.errors import ClientDisconnected, ErrorFormat, HttpError
from strom.http.guard import HEADERS, Guard, RequestHead
from strom.http.json_body import Receive
from strom.http.paths import path_of_target

log = logging.getLogger(__name__)

Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

Scrape: TypeAlias = Callable[[str], Awaitable[tuple[bytes, str]]]
"""Takes an Accept header, and returns all metrics with their content type. It must not block."""
NotReady: TypeAlias = Callable[[], str | None]
"""Returns why the interface cannot serve at present, or None if it can. It must not block."""

CountRequest: TypeAlias = Callable[[str | None, str, int, float], None]
"""Counts a request: the template of its route, its method, its status (0 without one), and seconds."""
ROUTE = "strom.route"
"""Where an application leaves the template of the route in the scope; None if no route matches."""

_NAMES = {name.encode("ascii"): name for name in HEADERS}
_HEALTH = "/health/"


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond that there is no such path."""
    raise HttpError(404)


class HttpApplication:
    """An ASGI application that passes allowed requests to `app`, with their path still encoded."""

    def __init__(
        self,
        app: Asgi = not_found,
        *,
        guard: Guard,
        errors: ErrorFormat,
        authenticate: Authenticate | None = None,
        not_ready: NotReady = lambda: None,
        metrics: Scrape | None = None,
        count: CountRequest = lambda route, method, status, seconds: None,
    ) -> None:
        self.errors = errors
        self._app = app
        self._guard = guard
        self._authenticate = authenticate
        self._not_ready = not_ready
        self._metrics = metrics
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.perf_counter(), 0
        scope = {**scope, ROUTE: None}

        async def send_on(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._respond(scope, receive, send_on, lambda: status != 0)
        finally:
            self._count(scope[ROUTE], scope["method"], status, time.perf_counter() - began)

    async def _respond(
        self, scope: Scope, receive: Receive, send: Send, is_started: Callable[[], bool]
    ) -> None:
        try:
            await self._handle(scope, receive, send)
        except (ClientDisconnected, asyncio.CancelledError):
            return  # the client is gone, or the server stops: only that cancels requests
        except Exception as error:
            found = self.errors.to_http(error)
            if found is None:
                log.exception(
                    "%s failed: %s %r", self.errors.interface, scope["method"], scope["path"]
                )
                found = self.errors.unexpected()
            if is_started():  # too late for a status: the server cuts the response short
                raise
            await self._refuse(found, scope, send)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = _head_of(scope)
        path = path_of_target(scope["raw_path"].decode("latin-1"), head.hosts)
        # Before the guard: an orchestrator probes by any address it has, and learns little.
        if path.startswith(_HEALTH) and await self._respond_health(path, scope, send):
            return
        refusal = self._guard.check(head)
        if refusal is not None:
            raise refusal
        user = await self._authenticate(head) if self._authenticate is not None else None
        if path == "/metrics" and self._metrics is not None:
            scope[ROUTE] = path
            _check_is_read(scope)
            accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
            await respond(send, 200, *await self._metrics(accept))
            return
        scope.update(path=path, user=user)
        await self._app(scope, receive, send)

    async def _respond_health(self, path: str, scope: Scope, send: Send) -> bool:
        if path == "/health/live":
            reason = None
        elif path == "/health/ready":
            reason = self._not_ready()
        else:
            return False
        scope[ROUTE] = path
        _check_is_read(scope)
        status = {"status": "ok"} if reason is None else {"status": "unavailable", "reason": reason}
        await respond(send, 200 if reason is None else 503, json.dumps(status).encode())
        return True

    async def _refuse(self, error: HttpError, scope: Scope, send: Send) -> None:
        fields = {**self.errors.headers, **error.headers}
        headers = [(k.lower().encode(), v.encode("latin-1")) for k, v in fields.items()]
        if any(name == b"expect" for name, _ in scope["headers"]):
            # RFC 9110, section 10.1.1: after `Expect: 100-continue` the client may send its body or
            # not, so where the next request begins is unknown.
            headers.append((b"connection", b"close"))
        body = self.errors.body(error)
        await respond(send, error.status, body, self.errors.content_type, headers)


async def respond(
    send: Send,
    status: int,
    body: bytes,
    content_type: str = "application/json",
    headers: Headers = (),
) -> None:
    """Send a whole response."""
    fields = [
        (b"content-type", content_type.encode("ascii")),
        (b"content-length", str(len(body)).encode("ascii")),
        (b"x-content-type-options", b"nosniff"),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def _check_is_read(scope: Scope) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        raise HttpError(405, headers={"Allow": "GET, HEAD"})


def _head_of(scope: Scope) -> RequestHead:
    headers = [
        (_NAMES[name], value.decode("latin-1"))
        for name, value in scope["headers"]
        if name in _NAMES
    ]
    server, client = scope.get("server"), scope.get("client")
    return RequestHead.from_headers(
        scope["method"], headers, server[0] if server else None, client[0] if client else None
    )
