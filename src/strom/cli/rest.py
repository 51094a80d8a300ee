"""Clients of REST interfaces: Connect's, strom's or Kafka's; that of queues, strom's or RabbitMQ's."""

import base64
import functools
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

import click

from strom.model.errors import UserError


@dataclass(frozen=True)
class RestClient:
    """Sends requests to one interface."""

    url: str

    prefix: ClassVar[str] = ""
    timeout_s: ClassVar[float]
    if_unreachable: ClassVar[str]
    """What to do if there is no server."""

    def call(self, method: str, *path: str, given: Any = None, query: str = "") -> Any:
        """Send one request; the response's body. UserError if it fails."""
        target = "/".join((self.prefix, *(quote(part, safe="") for part in path)))
        request = urllib.request.Request(  # noqa: S310 - checked below
            self.url.rstrip("/") + target + query,
            None if given is None else json.dumps(given).encode(),
            {"Content-Type": "application/json", **self._headers()},
            method=method,
        )
        if request.type not in ("http", "https"):
            raise UserError(f"{self.url} is not an HTTP URL.")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as response:  # noqa: S310
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                raise UserError(self._reason(error)) from error
        except OSError as error:
            cause = getattr(error, "reason", error)
            raise UserError(
                f"Cannot connect to {self.url} ({cause}). {self.if_unreachable}"
            ) from error

    def _headers(self) -> dict[str, str]:
        return {}

    def _reason(self, error: urllib.error.HTTPError) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class ConnectRest(RestClient):
    """The REST interface of a worker."""

    url: str = "http://127.0.0.1:8083"

    timeout_s: ClassVar[float] = 90
    if_unreachable: ClassVar[str] = (
        "Start a worker with: strom connect worker, or name its URL with --url."
    )

    def _reason(self, error: urllib.error.HTTPError) -> str:
        try:
            lines = str(json.loads(error.read())["message"]).splitlines()
        except (ValueError, KeyError, TypeError):
            return f"The worker rejected the request: {error.code} {error.reason}."
        # Kafka puts a line before and a line after the errors of an invalid configuration.
        if len(lines) > 2 and lines[0].startswith("Connector configuration is invalid"):
            lines = lines[1:-1]
        return " ".join(lines)


@dataclass(frozen=True)
class Management(RestClient):
    """The management interface of queues, with a login and a virtual host."""

    login: str
    vhost: str

    prefix: ClassVar[str] = "/api"
    timeout_s: ClassVar[float] = 30
    if_unreachable: ClassVar[str] = (
        "Start a broker with: strom start, or name the URL of its management interface with --url."
    )

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Basic {base64.b64encode(self.login.encode()).decode()}"}

    def _reason(self, error: urllib.error.HTTPError) -> str:
        try:
            body = json.loads(error.read())
            reason = body.get("reason") or body.get("error")
        except (ValueError, AttributeError):
            reason = f"{error.code} {error.reason}"
        return f"The broker rejected the request: {reason}."


def connect_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --url; it gets a `rest`."""

    @click.option(
        "--url",
        envvar="STROM_CONNECT_URL",
        default=ConnectRest.url,
        show_default=True,
        show_envvar=True,
        help="The REST interface of a worker.",
    )
    @functools.wraps(command)
    def with_rest(url: str, **others: Any) -> Any:
        return command(rest=ConnectRest(url), **others)

    return with_rest


def management_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --url, --login and --vhost; it gets a `management`."""

    @click.option(
        "--url",
        envvar="STROM_MANAGEMENT_URL",
        default="http://127.0.0.1:15672",
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
