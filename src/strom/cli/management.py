"""Talking to the management interface of queues: strom's own, or RabbitMQ's."""

import base64
import functools
import json
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import click

from strom.cli.rest import ask_json
from strom.model.errors import UserError

DEFAULT_URL = "http://127.0.0.1:15672"
PATIENCE_SECONDS = 30


@dataclass(frozen=True)
class Management:
    """Where it is, and who asks."""

    url: str
    login: str
    vhost: str

    def ask(self, method: str, *path: str, given: Any = None) -> Any:
        """One call; what it answers. UserError says what went wrong."""
        target = "/".join(["", "api", *(quote(part, safe="") for part in path)])
        login = base64.b64encode(self.login.encode()).decode()
        return ask_json(
            method,
            self.url,
            target,
            given,
            headers={"Authorization": f"Basic {login}"},
            patience_s=PATIENCE_SECONDS,
            reason=_reason,
            if_nobody="Is a broker running there? Start one with: strom start; or name its management "
            "interface with --url.",
        )


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        told = json.loads(error.read())
        return f"Refused: {told.get('reason') or told.get('error')}."
    except (ValueError, AttributeError):
        return f"Refused: {error.code} {error.reason}."


def management_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where the queues are, as one argument `management`."""

    @click.option(
        "--url",
        envvar="STROM_MANAGEMENT_URL",
        default=DEFAULT_URL,
        show_default=True,
        help="The management interface.",
    )
    @click.option(
        "--login",
        envvar="STROM_MANAGEMENT_LOGIN",
        default="guest:guest",
        metavar="USER:PASSWORD",
        help="Who asks. [default: guest:guest]",
    )
    @click.option("--vhost", default="/", show_default=True, help="The virtual host.")
    @functools.wraps(command)
    def with_management(url: str, login: str, vhost: str, **others: Any) -> Any:
        return command(management=Management(url, login, vhost), **others)

    return with_management


def read_arguments(assignments: tuple[str, ...]) -> dict[str, Any]:
    """Arguments as in x-max-length=1000; what looks like JSON is taken as such."""
    found: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise UserError(f"{assignment!r} is not NAME=VALUE.")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


arguments_option = click.option(
    "-a",
    "--argument",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="An argument, as in x-max-length=1000; may be given several times.",
)
