"""Talking to Connect's REST interface: strom's own, or Kafka's."""

import functools
import json
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import click

from strom.cli.rest import ask_json

DEFAULT_URL = "http://127.0.0.1:8083"
URL_VARIABLE = "STROM_CONNECT_URL"
PATIENCE_SECONDS = 90


@dataclass(frozen=True)
class ConnectRest:
    """Where a worker answers."""

    url: str = DEFAULT_URL

    def ask(self, method: str, *path: str, given: Any = None, query: str = "") -> Any:
        """One call; what it answers. UserError says what went wrong."""
        target = "/".join(["", *(quote(part, safe="") for part in path)]) + query
        return ask_json(
            method,
            self.url,
            target,
            given,
            patience_s=PATIENCE_SECONDS,
            reason=_reason,
            if_nobody="Is a worker running there? Start one with: strom connect worker; or name it "
            "with --url.",
        )


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        lines = str(json.loads(error.read())["message"]).splitlines()
    except (ValueError, KeyError, TypeError):
        return f"Refused: {error.code} {error.reason}."
    # The first and last lines of a refused configuration are Kafka's frame around the reasons.
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
        help="A worker's REST interface.",
    )
    @functools.wraps(command)
    def with_rest(url: str, **others: Any) -> Any:
        return command(rest=ConnectRest(url), **others)

    return with_rest
