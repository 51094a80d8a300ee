"""Requests with their JSON bodies, and responses and errors as Kafka Connect sends them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from strom.connect.api import ConnectError, InvalidSettings
from strom.connect.runtime.commands import AlreadyExists, BadRequest, Commands, NotFound
from strom.connect.runtime.offset_commands import OffsetCommands
from strom.http.errors import ErrorFormat, HttpError
from strom.http.json_body import read_body
from strom.http.json_thread import load_json
from strom.http.routing import EncodedRoute


@dataclass(frozen=True)
class Call:
    """One request, and the commands that serve it."""

    commands: Commands
    request: Request
    body: Any
    """The JSON body; None if there is none."""

    @property
    def name(self) -> str:
        """The connector, plugin or logger in the path."""
        return str(self.request.path_params["name"])

    @property
    def task(self) -> int:
        return int(self.request.path_params["task"])

    @property
    def offsets(self) -> OffsetCommands:
        return OffsetCommands(self.commands)

    def flag(self, name: str) -> bool:
        """A query parameter that is true or false; false if it is missing."""
        return self.request.query_params.get(name, "false").lower() == "true"

    def fields(self) -> dict[str, Any]:
        """The body, which must be a JSON object."""
        return _object(self.body)

    def texts(self) -> dict[str, str]:
        """The body as settings."""
        return to_texts(self.body)


Handler = Callable[[Call], Any]
"""Returns the JSON of the response, None for an empty one, or a whole response."""


def make_route(
    commands: Commands, method: str, path: str, handler: Handler, status: int = 200
) -> EncodedRoute:
    """Make a route whose handler runs in a thread; `status` is that of a success."""

    async def endpoint(request: Request) -> Response:
        body = await read_body(request.receive)
        call = Call(commands, request, await load_json(body) if body else None)
        found = await run_in_threadpool(handler, call)
        if isinstance(found, Response):
            return found
        return Response(status_code=status) if found is None else JSONResponse(found, status)

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


def _object(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise BadRequest("The body of the request must be a JSON object.")
    return given


def to_texts(given: Any) -> dict[str, str]:
    """Settings in JSON as texts; a null is left out."""
    texts = {}
    for name, value in _object(given).items():
        if isinstance(value, dict | list):
            raise BadRequest(f"The value of {name} must be a string, a number or a boolean.")
        if value is not None:
            texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts
