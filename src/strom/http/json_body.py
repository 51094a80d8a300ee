"""Bodies of requests, parsed as strict JSON."""

import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, NoReturn, TypeAlias

from strom.http.errors import ClientDisconnected, HttpError
from strom.model.http_settings import HttpLimits

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

MAX_VALUES = 1_000_000
"""The limit on values in a JSON body: that many take a tenth of a second and 100 MB."""


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


class BodyMemory:
    """Limits the memory of all bodies that the requests in flight of a server hold."""

    def __init__(self, limits: HttpLimits) -> None:
        self._small = limits.small_body_bytes
        self._limit = limits.all_bodies_bytes
        self._held = 0

    @contextlib.contextmanager
    def counting(self, receive: Receive) -> Iterator[Receive]:
        """Count what one request receives, until it ends; HttpError with status 503 at the limit."""
        received = held = 0

        async def counted() -> MutableMapping[str, Any]:
            nonlocal received, held
            message = await receive()
            received += len(message.get("body", b""))
            more = max(0, received - self._small) - held
            if more and self._held + more > self._limit:
                raise HttpError(
                    503,
                    f"Bodies of other requests hold {self._held} of {self._limit} bytes at present. "
                    "Retry later.",
                    headers={"Retry-After": "1"},
                )
            held += more
            self._held += more
            return message

        try:
            yield counted
        finally:
            self._held -= held


def parse_json(body: bytes) -> Any:
    """Parse a body; HttpError with status 400 if it is not JSON.

    Python's parser accepts NaN and lone surrogates. Neither can be written as JSON or UTF-8, so they
    would fail later as an internal error.
    """
    if len(body) > MAX_VALUES:
        _check_values(body)
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


def _check_values(body: bytes) -> None:
    """Limit the number of values: 16 MiB of `[],[],…` would become 400 MiB of Python objects."""
    if _separators(body) <= MAX_VALUES:
        return
    # Those inside strings count for nothing. Without escapes, every second quote ends a string.
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if sum(map(_separators, unescaped.split(b'"')[::2])) > MAX_VALUES:
        raise HttpError(413, f"The body has more than {MAX_VALUES} JSON values.")


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
