"""`strom exchanges` and `strom bindings`: where messages are published, and how they are routed."""

import click

from strom.cli.management import (
    Management,
    arguments_option,
    management_options,
    read_arguments,
)
from strom.cli.printing import print_json, print_table

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_LETTERS = {"queue": "q", "exchange": "e"}


@click.group()
def exchanges() -> None:
    """List, declare and delete exchanges."""


@exchanges.command("list")
@json_option
@management_options
def list_exchanges(as_json: bool, management: Management) -> None:
    """List the exchanges of a virtual host."""
    found = management.call("GET", "exchanges", management.vhost)
    if as_json:
        print_json(found)
    else:
        print_table(
            ("EXCHANGE", "TYPE", "DURABLE"),
            [
                (one["name"] or "(default)", one["type"], "yes" if one["durable"] else "no")
                for one in sorted(found, key=lambda one: str(one["name"]))
            ],
        )


@exchanges.command("declare")
@click.argument("name")
@click.option("--type", "kind", default="direct", show_default=True, help="The exchange type.")
@click.option("--transient", is_flag=True, help="Delete it when the broker restarts.")
@arguments_option
@management_options
def declare_exchange(
    name: str, kind: str, transient: bool, arguments: tuple[str, ...], management: Management
) -> None:
    """Create an exchange if it does not exist."""
    given = {"type": kind, "durable": not transient, "arguments": read_arguments(arguments)}
    management.call("PUT", "exchanges", management.vhost, name, given=given)
    click.echo(f"Declared exchange {name}.")


@exchanges.command("delete")
@click.argument("name")
@management_options
def delete_exchange(name: str, management: Management) -> None:
    """Delete an exchange and its bindings."""
    management.call("DELETE", "exchanges", management.vhost, name)
    click.echo(f"Deleted exchange {name}.")


@click.group()
def bindings() -> None:
    """List, add and remove bindings between exchanges and queues."""


@bindings.command("list")
@json_option
@management_options
def list_bindings(as_json: bool, management: Management) -> None:
    """List the bindings of a virtual host."""
    found = management.call("GET", "bindings", management.vhost)
    if as_json:
        print_json(found)
    else:
        print_table(
            ("FROM", "TO", "KIND", "KEY"),
            [
                (one["source"], one["destination"], one["destination_type"], one["routing_key"])
                for one in found
            ],
        )


@bindings.command()
@click.argument("exchange")
@click.argument("destination")
@click.option("-k", "--key", default="", help="The routing key, or pattern.")
@click.option("--to", type=click.Choice(sorted(_LETTERS)), default="queue", show_default=True)
@arguments_option
@management_options
def add(
    exchange: str,
    destination: str,
    key: str,
    to: str,
    arguments: tuple[str, ...],
    management: Management,
) -> None:
    """Bind DESTINATION to EXCHANGE."""
    path = ("bindings", management.vhost, "e", exchange, _LETTERS[to], destination)
    given = {"routing_key": key, "arguments": read_arguments(arguments)}
    management.call("POST", *path, given=given)
    click.echo(f"Bound {destination} to {exchange}.")


@bindings.command()
@click.argument("exchange")
@click.argument("destination")
@click.option("-k", "--key", default="", help="The routing key, or pattern.")
@click.option("--to", type=click.Choice(sorted(_LETTERS)), default="queue", show_default=True)
@management_options
def remove(exchange: str, destination: str, key: str, to: str, management: Management) -> None:
    """Unbind DESTINATION from EXCHANGE."""
    path = ("bindings", management.vhost, "e", exchange, _LETTERS[to], destination, key or "~")
    management.call("DELETE", *path)
    click.echo(f"Unbound {destination} from {exchange}.")
