"""Bodies of requests, parsed as strict JSON."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NoReturn, TypeAlias

from strom.http.errors import ClientDisconnected, HttpError

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]


async def read_body(receive: Receive) -> bytes:
    """Read the whole body of a request; the server limits its size."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def parse_json(body: bytes) -> Any:
    """Parse a body; HttpError with status 400 if it is not JSON.

    Python's parser accepts NaN and lone surrogates. Neither can be written as JSON or UTF-8, so they
    would fail later as an internal error.
    """
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
        if b"\\ud" in body or b"\\uD" in body:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise HttpError(400, "The body is nested too deeply.") from None
    except ValueError as error:
        reason = "not UTF-8" if isinstance(error, UnicodeError) else error
        raise HttpError(400, f"The body is not valid JSON: {reason}.") from None
    return value


def parse_json_object(body: bytes) -> dict[str, Any]:
    """Parse a body; HttpError with status 400 if it is not a JSON object."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise HttpError(400, "The body is not a JSON object.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
