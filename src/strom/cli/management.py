"""A client of the management interface of queues, strom's or RabbitMQ's."""

import base64
import functools
import json
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import click

from strom.cli.rest import call_json
from strom.model.errors import UserError

DEFAULT_URL = "http://127.0.0.1:15672"
TIMEOUT_S = 30


@dataclass(frozen=True)
class Management:
    """The URL of the management interface, the login and the virtual host."""

    url: str
    login: str
    vhost: str

    def call(self, method: str, *path: str, given: Any = None) -> Any:
        """Send one request; the response's body. UserError if it fails."""
        target = "/".join(["", "api", *(quote(part, safe="") for part in path)])
        login = base64.b64encode(self.login.encode()).decode()
        return call_json(
            method,
            self.url,
            target,
            given,
            headers={"Authorization": f"Basic {login}"},
            timeout_s=TIMEOUT_S,
            reason=_reason,
            if_unreachable="Start a broker with: strom start, or name the URL of its management "
            "interface with --url.",
        )


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        body = json.loads(error.read())
        reason = body.get("reason") or body.get("error")
    except (ValueError, AttributeError):
        reason = f"{error.code} {error.reason}"
    return f"The broker rejected the request: {reason}."


def management_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --url, --login and --vhost; it gets a `management`."""

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
        help="The user to authenticate as. [default: guest:guest]",
    )
    @click.option("--vhost", default="/", show_default=True, help="The virtual host.")
    @functools.wraps(command)
    def with_management(url: str, login: str, vhost: str, **others: Any) -> Any:
        return command(management=Management(url, login, vhost), **others)

    return with_management


def read_arguments(assignments: tuple[str, ...]) -> dict[str, Any]:
    """Parse arguments as in x-max-length=1000; a value that is JSON is decoded."""
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
