"""How client commands reach a Kafka: the options they share, and clients that fail clearly."""

import functools
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strom.cli.client_settings import parse_assignment, parse_properties, to_librdkafka
from strom.cli.printing import notice
from strom.model.errors import UserError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, ClusterMetadata

    from strom.client.protocol_client import ProtocolClient

DEFAULT_PORT = 9092
DEFAULT_SERVERS = f"127.0.0.1:{DEFAULT_PORT}"
SERVERS_VARIABLE = "STROM_BOOTSTRAP_SERVERS"
ANSWER_SECONDS = 5.0
# A script should hear of a dead broker in half a minute, not in librdkafka's five.
DELIVERY_TIMEOUT_MS = 30_000
# librdkafka waits a second whenever its local queue is full; that halves the rate of catching up.
QUEUE_BACKOFF_MS = 10


@dataclass(frozen=True)
class Connection:
    """Which Kafka to talk to, and how."""

    servers: str = DEFAULT_SERVERS
    settings: Mapping[str, str] = field(default_factory=dict)
    """librdkafka's settings, as the user gave them; they win over a command's own."""

    def admin(self) -> "AdminClient":
        """A client for topics and settings."""
        from confluent_kafka.admin import AdminClient

        return self._made(AdminClient, {})

    def producer(self, settings: Mapping[str, Any]) -> "Producer":
        """A client that sends records, and calls back only for those that failed."""
        from confluent_kafka import Producer

        own = {"delivery.timeout.ms": DELIVERY_TIMEOUT_MS, **settings}
        if own.get("acks", "all") in {"all", "-1", -1}:
            own.setdefault("enable.idempotence", "true")
        # librdkafka then reports only what failed: a million records need no million callbacks.
        return self._made(Producer, own, {"delivery.report.only.error": True})

    def consumer(self, settings: Mapping[str, Any]) -> "Consumer":
        """A client that reads records."""
        from confluent_kafka import Consumer

        own = {
            # A group id is demanded even of a consumer that never joins a group.
            "group.id": "strom-cli",
            "enable.auto.commit": "false",
            "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS,
            "error_cb": _tell_once(),
            **settings,
        }
        return self._made(Consumer, own)

    def protocol_client(self) -> "ProtocolClient":
        """A client for requests that librdkafka has no call for."""
        from strom.client.connection_settings import ConnectionSettings
        from strom.client.protocol_client import ProtocolClient

        self.check_reachable()
        client = ProtocolClient(ConnectionSettings(self.servers, self.settings), "strom-cli")
        if command := click.get_current_context(silent=True):
            command.call_on_close(client.close)
        return client

    def metadata(
        self, client: "AdminClient | Producer | Consumer", topic: str | None = None
    ) -> "ClusterMetadata":
        """What the cluster says about its brokers and topics (or about one topic)."""
        from confluent_kafka import KafkaException

        try:
            if topic is None:
                return client.list_topics(timeout=ANSWER_SECONDS)
            return client.list_topics(topic, timeout=ANSWER_SECONDS)
        except KafkaException as error:
            if error.args[0].name() in {"_TRANSPORT", "_TIMED_OUT"}:
                raise UserError(
                    f"What listens at {self.servers} does not answer as a Kafka broker. Check the "
                    "address, and security.protocol if the broker wants TLS or a login."
                ) from None
            raise

    def check_reachable(self) -> None:
        """Raise UserError, soon and in plain words, when nobody listens at any address."""
        deadline = time.monotonic() + ANSWER_SECONDS
        for host, port in self.addresses():
            left = deadline - time.monotonic()
            try:
                socket.create_connection((host, port), timeout=max(0.1, min(2.0, left))).close()
            except OSError:
                continue
            return
        raise UserError(f"No Kafka broker answers at {self.servers}. {_advice(self.servers)}")

    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of every broker that was named."""
        return [_host_and_port(server) for server in self.servers.split(",")]

    def with_settings(self, more: Mapping[str, str]) -> "Connection":
        """The same with more of the user's settings."""
        return Connection(self.servers, {**self.settings, **more})

    def _made(
        self,
        factory: Callable[[dict[str, Any]], Any],
        settings: Mapping[str, Any],
        fixed: Mapping[str, Any] | None = None,
    ) -> Any:
        self.check_reachable()
        return factory(
            {
                "client.id": "strom-cli",
                # librdkafka's own log lines are for developers: -X log_level=7 brings them back.
                "log_level": 0,
                **settings,
                **self.settings,
                **(fixed or {}),
                "bootstrap.servers": self.servers,
            }
        )


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
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file of client properties, in Java's or librdkafka's names.",
    )
    @click.option(
        "-X",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        help="A client property; may be given several times.",
    )
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
) -> Connection:
    """A connection from an address, a properties file and single properties, the last ones win."""
    given = parse_properties(config_file.read_text("utf-8")) if config_file else {}
    given |= dict(map(parse_assignment, properties))
    translation = to_librdkafka(given)
    if translation.ignored:
        notice(f"Only Java clients use {', '.join(translation.ignored)}: ignored.")
    settings = dict(translation.settings)
    from_file = settings.pop("bootstrap.servers", None)
    if from_file and servers == DEFAULT_SERVERS:
        servers = from_file
    return Connection(servers, settings)


def _host_and_port(server: str) -> tuple[str, int]:
    address = server.strip().rpartition("://")[2]
    host, colon, port = address.rpartition(":")
    if not colon:
        return address, DEFAULT_PORT
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"{server.strip()!r} is not an address of the form HOST:PORT.")
    return host.strip("[]"), int(port)


def _advice(servers: str) -> str:
    """What to type when nobody listens: only a broker of this machine can be started from here."""
    host, port = _host_and_port(servers.split(",")[0])
    if "," in servers or host not in {"localhost", "127.0.0.1", "::1"}:
        return "Check the address, and that the broker runs and can be reached."
    return "Start one with: strom start" + ("" if port == DEFAULT_PORT else f" --port {port}")


def _tell_once() -> Callable[[Any], None]:
    """Tell, once per outage, that the brokers are gone; the client itself keeps trying."""
    told: list[Any] = []

    def on_error(error: Any) -> None:
        if error.name() == "_ALL_BROKERS_DOWN" and not told:
            told.append(error)
            notice("The broker does not answer any more; waiting for it. Ctrl-C ends.")

    return on_error
