"""Puts the guard in front of an ASGI application."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from strom.http.guard import HEADERS, Guard, Refusal, RequestHead

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_NAMES = {name.encode("ascii"): name for name in HEADERS}


class GuardedApp:
    """Passes allowed requests on; `describe` makes the JSON body of a refusal."""

    def __init__(
        self,
        app: Application,
        guard: Guard,
        describe: Callable[[Refusal], Any],
        content_type: str = "application/json",
    ) -> None:
        self._app = app
        self._guard = guard
        self._describe = describe
        self._content_type = content_type.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        refusal = self._guard.check(_head_of(scope)) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        body = json.dumps(self._describe(refusal)).encode()
        headers = [
            (b"content-type", self._content_type),
            (b"content-length", str(len(body)).encode("ascii")),
            # The rest of a body that nobody reads must not be taken for the next request.
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _head_of(scope: Scope) -> RequestHead:
    headers = [
        (_NAMES[name], value.decode("latin-1"))
        for name, value in scope["headers"]
        if name in _NAMES
    ]
    server = scope.get("server")
    return RequestHead.from_headers(scope["method"], headers, server[0] if server else None)
