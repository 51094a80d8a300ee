"""Bodies of requests, and responses and errors as Kafka Connect sends them."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from strom.connect.api import ConnectError, InvalidSettings
from strom.connect.runtime.commands import AlreadyExists, BadRequest, Commands, NotFound
from strom.http.errors import ErrorFormat, HttpError
from strom.http.json_body import parse_json, read_body
from strom.http.routing import EncodedRoute

Call = Callable[[Commands, Request, Any], Response]


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(value, status, headers)


def empty_response(status: int = 204) -> Response:
    return Response(status_code=status)


def make_route(commands: Commands, method: str, path: str, call: Call) -> EncodedRoute:
    """Make a route of a function that takes the commands, the request and its JSON body."""

    async def endpoint(request: Request) -> Response:
        body = await read_body(request.receive)
        given = parse_json(body) if body else None
        return await run_in_threadpool(call, commands, request, given)

    return EncodedRoute(path, endpoint, methods=[method])


def make_error_format(hide: Callable[[str], str]) -> ErrorFormat:
    """Make errors in Kafka Connect's format; `hide` removes secrets from their messages."""

    def translate(error: Exception) -> HttpError | None:
        status = next((code for kind, code in _STATUSES if isinstance(error, kind)), None)
        return None if status is None else HttpError(status, hide(str(error)))

    return ErrorFormat(
        "The Connect worker",
        lambda error: {"error_code": error.code, "message": error.message},
        translate,
    )


_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (NotFound, 404),
    (AlreadyExists, 409),
    (BadRequest, 400),
    (InvalidSettings, 400),
    (ConnectError, 500),
    (KafkaException, 500),  # the broker is unavailable
    (ValueError, 400),
)


def object_of(given: Any) -> dict[str, Any]:
    """The body, which must be a JSON object."""
    if not isinstance(given, dict):
        raise BadRequest("The body of the request must be a JSON object.")
    return given


def texts_of(given: Any) -> dict[str, str]:
    """The body as settings: each JSON value is converted to its text."""
    texts = {}
    for name, value in object_of(given).items():
        if isinstance(value, dict | list):
            raise BadRequest(f"The value of {name} must be a string, a number or a boolean.")
        if value is not None:
            texts[name] = _text(value)
    return texts


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def flag(request: Request, name: str) -> bool:
    """A query parameter that is true or false; false if it is missing."""
    return request.query_params.get(name, "false").lower() == "true"
