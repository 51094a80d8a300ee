"""The connection options that client commands share, and clients that fail fast."""

import functools
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from strom.cli.options import EXISTING_FILE, assignments_option
from strom.cli.printing import notice
from strom.client.client_properties import parse_assignment, parse_properties, to_librdkafka
from strom.client.connection_settings import DEFAULT_PORT, ConnectionSettings, parse_address
from strom.client.factories import RESPONSE_S, KafkaClients, Properties
from strom.model.errors import UserError

if TYPE_CHECKING:
    from strom.client.protocol_client import ProtocolClient

DEFAULT_SERVERS = f"127.0.0.1:{DEFAULT_PORT}"
SERVERS_VARIABLE = "STROM_BOOTSTRAP_SERVERS"


@dataclass(frozen=True)
class CliConnection(KafkaClients):
    """The clients of a command: they fail at once if no broker listens."""

    client_id: str = "strom-cli"

    # A script should learn of a dead broker in half a minute, not in librdkafka's five.
    producer_defaults: ClassVar[Properties] = {"delivery.timeout.ms": 30_000}

    def protocol_client(self) -> "ProtocolClient":
        """A client that the running command closes."""
        self.check_reachable()
        client = super().protocol_client()
        if command := click.get_current_context(silent=True):
            command.call_on_close(client.close)
        return client

    def _consumer_defaults(self) -> Properties:
        """Report an outage to standard error, once for each consumer."""
        return {"error_cb": _notice_once()}

    def _properties(self, defaults: Properties, fixed: Properties) -> dict[str, Any]:
        self.check_reachable()
        return super()._properties(defaults, fixed)

    def check_reachable(self) -> None:
        """Raise UserError if no bootstrap server accepts a connection within RESPONSE_S."""
        deadline = time.monotonic() + RESPONSE_S
        for host, port in self.settings.addresses():
            left = deadline - time.monotonic()
            try:
                socket.create_connection((host, port), timeout=max(0.1, min(2.0, left))).close()
            except OSError:
                continue
            return
        raise UserError(f"No Kafka broker listens at {self.servers}. {_advice(self.servers)}")


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --bootstrap-server, --command-config and -X; it gets a `connection`."""

    @click.option(
        "-b",
        "--bootstrap-server",
        "servers",
        envvar=SERVERS_VARIABLE,
        default=DEFAULT_SERVERS,
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="The broker, or some of the brokers, to connect to.",
    )
    @click.option(
        "--command-config",
        type=EXISTING_FILE,
        help="A file of client properties, with Java's or librdkafka's names.",
    )
    @assignments_option("-X", "properties", doc="A client property; may be given several times.")
    @functools.wraps(command)
    def with_connection(
        *args: Any,
        servers: str,
        command_config: Path | None,
        properties: tuple[str, ...],
        **options: Any,
    ) -> Any:
        connection = make_connection(servers, command_config, properties)
        return command(*args, connection=connection, **options)

    return with_connection


def make_connection(
    servers: str, config_file: Path | None, properties: tuple[str, ...]
) -> CliConnection:
    """A connection from an address, a properties file and single properties, which take precedence."""
    given = parse_properties(config_file.read_text("utf-8")) if config_file else {}
    given |= dict(map(parse_assignment, properties))
    translation = to_librdkafka(given)
    if translation.ignored:
        notice(f"Ignored, because only Java clients use them: {', '.join(translation.ignored)}.")
    settings = dict(translation.settings)
    from_file = settings.pop("bootstrap.servers", None)
    if from_file and servers == DEFAULT_SERVERS:
        servers = from_file
    return CliConnection(ConnectionSettings(servers, settings))


def _advice(servers: str) -> str:
    """What to do if no server listens; only a local broker can be started from here."""
    host, port = parse_address(servers.split(",")[0])
    if "," in servers or host not in {"localhost", "127.0.0.1", "::1"}:
        return "Check the address, and that the broker is running and reachable."
    return "Start one with: strom start" + ("" if port == DEFAULT_PORT else f" --port {port}")


def _notice_once() -> Callable[[Any], None]:
    """Report once that no broker is connected; the client keeps reconnecting."""
    reported: list[Any] = []

    def on_error(error: Any) -> None:
        if error.name() == "_ALL_BROKERS_DOWN" and not reported:
            reported.append(error)
            notice("The connection to the broker was lost; reconnecting. Ctrl-C stops.")

    return on_error
