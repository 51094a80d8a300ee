"""The flags that Kafka's tools have in common: brokers and properties."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from strom.cli.connection import DEFAULT_SERVERS, SERVERS_VARIABLE, make_connection
from strom.cli.options import EXISTING_FILE, assignments_option
from strom.cli.printing import notice
from strom.client.client_properties import parse_assignment, parse_properties


def server_flags(*property_flags: str, config_flags: tuple[str, ...]) -> Callable[..., Any]:
    """Give a command the flags that name a broker and client properties; it gets a `connection`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--bootstrap-server",
            envvar=SERVERS_VARIABLE,
            metavar="HOST:PORT,...",
            help=f"The broker to connect to. [default: {DEFAULT_SERVERS}]",
        )
        @click.option("--broker-list", metavar="HOST:PORT,...", help="Old: --bootstrap-server.")
        @click.option("--zookeeper", metavar="HOST:PORT", help="Old: accepted and ignored.")
        @click.option(
            *config_flags,
            "config_file",
            type=EXISTING_FILE,
            help="A file of client properties.",
        )
        @functools.wraps(command)
        def with_connection(
            *args: Any,
            bootstrap_server: str | None,
            broker_list: str | None,
            zookeeper: str | None,
            config_file: Path | None,
            client_properties: tuple[str, ...] = (),
            **options: Any,
        ) -> Any:
            servers = choose_servers(bootstrap_server, broker_list, zookeeper)
            connection = make_connection(servers, config_file, client_properties)
            return command(*args, connection=connection, **options)

        if not property_flags:
            return with_connection
        option = assignments_option(*property_flags, "client_properties", doc="A client property.")
        return option(with_connection)

    return decorate


def choose_servers(
    bootstrap_server: str | None, broker_list: str | None, zookeeper: str | None
) -> str:
    """The bootstrap servers; prints a note about obsolete flags."""
    servers = bootstrap_server or broker_list or DEFAULT_SERVERS
    if zookeeper is not None:
        notice(
            f"Note: Kafka needs no ZooKeeper any more. --zookeeper {zookeeper} is ignored, and the "
            f"broker at {servers} is used (--bootstrap-server names another)."
        )
    elif broker_list is not None:
        notice("Note: --broker-list is now called --bootstrap-server.")
    return servers


def properties_of(
    assignments: tuple[str, ...], config_file: Path | None, known: Mapping[str, Any]
) -> dict[str, str]:
    """Properties from a file and from flags, which take precedence; unknown names are reported."""
    found = parse_properties(config_file.read_text("utf-8")) if config_file else {}
    found |= dict(map(parse_assignment, assignments))
    for name in found.keys() - known.keys():
        notice(f"Note: there is no property {name} here; it is ignored.")
    return {name: value for name, value in found.items() if name in known}


def is_true(text: str) -> bool:
    """Java's Boolean.parseBoolean: `true` in any case is true, everything else is false."""
    return text.strip().lower() == "true"
