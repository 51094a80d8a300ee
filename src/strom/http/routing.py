"""Routes for Starlette's router, by paths that are still encoded."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Receive, Scope, Send

from strom.http.application import not_found
from strom.http.errors import HttpError


class EncodedRoute(Route):
    """A route whose parameters are decoded after matching: a name may contain a slash, sent as %2F."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match a request."""
        match, child = super().matches(scope)
        if match is not Match.NONE:
            parameters: dict[str, Any] = child["path_params"]
            for name, value in parameters.items():
                if isinstance(value, str):
                    parameters[name] = unquote(value)
        return match, child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request that matches by its path at least."""
        if self.methods and scope["method"] not in self.methods:
            raise HttpError(405, headers={"Allow": ", ".join(sorted(self.methods))})
        await super().handle(scope, receive, send)


def make_router(routes: Sequence[BaseRoute]) -> Router:
    """Make an ASGI application of routes; HttpError for a path that none of them has."""
    # The server has removed slashes at the end.
    return Router(routes, redirect_slashes=False, default=not_found)
