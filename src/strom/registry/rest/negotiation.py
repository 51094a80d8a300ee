"""Which media types requests may have, and which one a response gets: those of Confluent's registry."""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from strom.http.errors import HttpError
from strom.registry.rest.exchange import CONTENT_TYPE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

NOT_ACCEPTABLE = 406
UNSUPPORTED_MEDIA_TYPE = 415
HEALTH = "/health"
OCTET_STREAM = "application/octet-stream"
RESPONSE_TYPES = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
"""The first one is preferred."""
REQUEST_TYPES = frozenset((*RESPONSE_TYPES, OCTET_STREAM))


class Negotiation:
    """Passes a request on if its media types are known, and sets that of the response."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if has_body(headers) and not is_known(_joined(headers, b"content-type")):
            raise HttpError(UNSUPPORTED_MEDIA_TYPE)
        chosen = choose(_joined(headers, b"accept"))
        if chosen is None and scope["path"] == HEALTH:
            chosen = CONTENT_TYPE  # a probe needs the status only
        if chosen is None:
            raise HttpError(NOT_ACCEPTABLE)
        if chosen == CONTENT_TYPE:
            await self._app(scope, receive, send)
            return
        other = chosen.encode("ascii")

        async def send_as_chosen(message: "Message") -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    (name, other if name.lower() == b"content-type" else value)
                    for name, value in message["headers"]
                ]
            await send(message)

        await self._app(scope, receive, send_as_chosen)


def has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in headers
    )


def is_known(content_type: str) -> bool:
    """Whether a body may have this type."""
    return content_type.partition(";")[0].strip().lower() in REQUEST_TYPES


@lru_cache(100)
def choose(accept: str) -> str | None:
    """The type of the response to an Accept header; None if it allows none."""
    if not accept.strip():
        return RESPONSE_TYPES[0]
    ranges = dict(map(_range, accept.split(",")))
    best = max(RESPONSE_TYPES, key=lambda one: _quality(one, ranges))  # the first of equal ones
    return best if _quality(best, ranges) > 0 else None


def _quality(media_type: str, ranges: dict[str, float]) -> float:
    """The quality that the most specific range gives a type (RFC 9110, section 12.5.1)."""
    for name in (media_type, "application/*", "*/*", "*"):
        if name in ranges:
            return ranges[name]
    return 0.0


def _range(text: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
    try:
        return name, float(quality)
    except ValueError:
        return name, 0.0


def _joined(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    return ",".join(value.decode("latin-1") for key, value in headers if key == name)
