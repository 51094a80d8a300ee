"""Routes for Starlette's router that match percent-encoded paths."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Receive, Scope, Send

from strom.http.application import ROUTE, not_found
from strom.http.errors import HttpError


class EncodedRoute(Route):
    """A route whose parameters are decoded after matching: a name may contain a slash, sent as %2F."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        if match is not Match.NONE:
            child[ROUTE] = self.path
            parameters: dict[str, Any] = child["path_params"]
            for name, value in parameters.items():
                if isinstance(value, str):
                    parameters[name] = unquote(value)
        return match, child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Starlette calls it for a partial match too: the path matches, the method does not.
        if self.methods and scope["method"] not in self.methods:
            raise HttpError(405, headers={"Allow": ", ".join(sorted(self.methods))})
        await super().handle(scope, receive, send)


def make_router(routes: Sequence[BaseRoute]) -> Router:
    """Make an ASGI application of routes; HttpError with status 404 for an unknown path."""
    # HttpApplication has removed trailing slashes.
    return Router(routes, redirect_slashes=False, default=not_found)
