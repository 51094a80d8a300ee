"""Requests in, answers out: JSON, and errors as Kafka Connect tells them."""

import functools
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from strom.connect.api import ConnectError, InvalidSettings, RetriableError
from strom.connect.runtime.commands import AlreadyThere, Commands, NotFound, Refused

log = logging.getLogger(__name__)

Answer = Response
Call = Callable[[Commands, Request, Any], Answer]


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """A JSON answer."""
    return JSONResponse(value, status, headers)


def nothing(status: int = 204) -> Answer:
    """An answer without a body."""
    return Response(status_code=status)


def refusal(status: int, message: str) -> Answer:
    """An error, in Kafka's form."""
    return JSONResponse({"error_code": status, "message": message}, status)


def endpoint(call: Call) -> Callable[[Request], Awaitable[Answer]]:
    """Make a route of a function that takes the commands, the request and its JSON body."""

    @functools.wraps(call)
    async def route(request: Request) -> Answer:
        commands: Commands = request.app.state.commands
        hide = commands.worker.secrets.hide
        try:
            body = await request.body()
            given = json.loads(body) if body else None
            return await run_in_threadpool(call, commands, request, given)
        except ValueError as error:
            return refusal(400, f"The request is not what it should be: {hide(str(error))}")
        except NotFound as error:
            return refusal(404, str(error))
        except AlreadyThere as error:
            return refusal(409, str(error))
        except (Refused, InvalidSettings) as error:
            return refusal(400, hide(str(error)))
        except (RetriableError, ConnectError) as error:
            return refusal(500, hide(str(error)))
        except Exception as error:
            log.exception("%s %s", request.method, request.url.path)
            return refusal(500, hide(f"{type(error).__name__}: {error}"))

    return route


async def not_an_endpoint(request: Request, error: Exception) -> Answer:
    """Tell an unknown path or method as Kafka does."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    return refusal(
        status, f"HTTP {status} {'Not Found' if status == 404 else 'Method Not Allowed'}"
    )


class EncodedPaths:
    """Has routes see paths as they were sent, so that a name may hold a slash, sent as %2F.

    `part_of` decodes. A slash at the end does not matter.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http":
            path = scope["raw_path"].decode("latin-1")
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await self._app(scope, receive, send)


def part_of(request: Request, part: str) -> str:
    """A part of the request's path, by its name in the route."""
    return unquote(str(request.path_params[part]))


def object_of(given: Any) -> dict[str, Any]:
    """The body as a JSON object."""
    if not isinstance(given, dict):
        raise Refused("The body of the request must be a JSON object.")
    return given


def texts_of(given: Any) -> dict[str, str]:
    """The body as settings: whatever JSON value stands there becomes its text."""
    texts = {}
    for name, value in object_of(given).items():
        if isinstance(value, dict | list):
            raise Refused(f"The value of {name} must be a text.")
        if value is not None:
            texts[name] = _text(value)
    return texts


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def flag(request: Request, name: str) -> bool:
    """A query parameter that is true or false."""
    return request.query_params.get(name, "false").lower() == "true"
