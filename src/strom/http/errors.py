"""Errors with a status, in the body that each interface has for errors."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any


class HttpError(Exception):
    """Raised to respond to a request with an error."""

    def __init__(
        self,
        status: int,
        message: str | None = None,
        *,
        code: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status = int(status)
        self.message = f"HTTP {self.status} {phrase_of(status)}" if message is None else message
        self.code = code or self.status
        """The interface's own error code, where it has more of them than HTTP has statuses."""
        self.headers = dict(headers or {})
        super().__init__(self.message)


class ClientDisconnected(Exception):
    """The client closed its connection before its request was complete: there is no response."""


@dataclass(frozen=True)
class ErrorFormat:
    """How one interface reports errors."""

    interface: str
    """As messages name it: "The schema registry"."""
    render: Callable[[HttpError], Any]
    """Returns the JSON value of the body."""
    translate: Callable[[Exception], HttpError | None] = lambda _: None
    """Maps the exceptions of the program behind the interface to errors; None if unexpected."""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    """What every error has in its head."""
    separators: tuple[str, str] = (",", ":")
    """Of JSON: clients compare whole bodies, and scripts search in them."""

    def to_http(self, error: Exception) -> HttpError | None:
        """Return the error that a client gets for an exception; None if it is unexpected."""
        return error if isinstance(error, HttpError) else self.translate(error)

    def unexpected(self) -> HttpError:
        """The error for an unexpected exception: its details go to the log, never to a client."""
        return HttpError(500, f"{self.interface} failed unexpectedly. See its log for the cause.")

    def body(self, error: HttpError) -> bytes:
        text = json.dumps(self.render(error), ensure_ascii=False, separators=self.separators)
        return text.encode("utf-8", "replace")


def phrase_of(status: int) -> str:
    """Return the reason phrase of a status, such as "Not Found"."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
