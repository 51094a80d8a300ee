"""A client of Connect's REST interface, strom's or Kafka's."""

import functools
import json
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import click

from strom.cli.rest import call_json

DEFAULT_URL = "http://127.0.0.1:8083"
URL_VARIABLE = "STROM_CONNECT_URL"
TIMEOUT_S = 90


@dataclass(frozen=True)
class ConnectRest:
    """The REST interface of a worker."""

    url: str = DEFAULT_URL

    def call(self, method: str, *path: str, given: Any = None, query: str = "") -> Any:
        """Send one request; the response's body. UserError if it fails."""
        target = "/".join(["", *(quote(part, safe="") for part in path)]) + query
        return call_json(
            method,
            self.url,
            target,
            given,
            timeout_s=TIMEOUT_S,
            reason=_reason,
            if_unreachable="Start a worker with: strom connect worker, or name its URL with --url.",
        )


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        lines = str(json.loads(error.read())["message"]).splitlines()
    except (ValueError, KeyError, TypeError):
        return f"The worker rejected the request: {error.code} {error.reason}."
    # Kafka puts a line before and a line after the errors of an invalid configuration.
    if len(lines) > 2 and lines[0].startswith("Connector configuration is invalid"):
        lines = lines[1:-1]
    return " ".join(lines)


def rest_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --url; it gets a `rest`."""

    @click.option(
        "--url",
        envvar=URL_VARIABLE,
        default=DEFAULT_URL,
        show_default=True,
        show_envvar=True,
        help="The REST interface of a worker.",
    )
    @functools.wraps(command)
    def with_rest(url: str, **others: Any) -> Any:
        return command(rest=ConnectRest(url), **others)

    return with_rest
