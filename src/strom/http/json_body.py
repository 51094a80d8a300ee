"""Bodies of requests, parsed as strict JSON."""

import contextlib
import json
import json.scanner
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, NoReturn, TypeAlias

from strom.http.errors import ClientDisconnected, HttpError
from strom.model.http_settings import HttpLimits

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

MAX_VALUES = 1_000_000
"""The limit on values in a JSON body: that many take some 100 MB."""
FEW_VALUES = 30_000
"""Up to this number of values, Python's parser in C takes a few milliseconds."""


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


class _YieldingDecoder(json.JSONDecoder):
    """Parses in Python, so that other threads run meanwhile: the parser in C never releases the GIL."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]


def parse_json(body: bytes) -> Any:
    """Parse a body; HttpError with status 400 if it is not JSON in UTF-8 (RFC 8259, section 8.1).

    Given bytes, Python would detect UTF-16 and UTF-32.
    Python's parser accepts NaN and lone surrogates. Neither can be written as JSON or UTF-8, so they
    would fail later as an internal error.
    """
    has_few = len(body) <= FEW_VALUES or _has_few_values(body)
    decoder = json.JSONDecoder if has_few else _YieldingDecoder
    try:
        value = json.loads(body.decode(), cls=decoder, parse_constant=_refuse_constant)
        if b"\\ud" in body or b"\\uD" in body:
            for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
                piece.encode()
    except RecursionError:
        raise HttpError(400, "The body is nested too deeply.") from None
    except ValueError as error:
        reason = "not UTF-8" if isinstance(error, UnicodeError) else error
        raise HttpError(400, f"The body is not valid JSON: {reason}.") from None
    return value


def _has_few_values(body: bytes) -> bool:
    """Whether the body has at most FEW_VALUES; HttpError with status 413 above MAX_VALUES.

    16 MiB of `[],[],…` would become 400 MiB of Python objects.
    """
    if _separators(body) <= FEW_VALUES:
        return True
    # Those inside strings count for nothing. Without escapes, every second quote ends a string.
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    values = sum(map(_separators, unescaped.split(b'"')[::2]))
    if values > MAX_VALUES:
        raise HttpError(413, f"The body has more than {MAX_VALUES} JSON values.")
    return values <= FEW_VALUES


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
