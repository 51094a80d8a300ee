"""`strom exchanges` and `strom bindings`: where messages are published, and how they are routed."""

import click

from strom.cli.options import json_option
from strom.cli.printing import print_found
from strom.cli.queues import arguments_option, read_arguments
from strom.cli.rest import Management, management_options

_LETTERS = {"queue": "q", "exchange": "e"}
_key_option = click.option("-k", "--key", default="", help="The routing key, or pattern.")
_to_option = click.option(
    "--to", type=click.Choice(sorted(_LETTERS)), default="queue", show_default=True
)


@click.group()
def exchanges() -> None:
    """List, declare and delete exchanges."""


@exchanges.command("list")
@json_option
@management_options
def list_exchanges(as_json: bool, management: Management) -> None:
    """List the exchanges of a virtual host."""
    found = management.call("GET", "exchanges", management.vhost)
    rows = [
        (one["name"] or "(default)", one["type"], "yes" if one["durable"] else "no")
        for one in sorted(found, key=lambda one: str(one["name"]))
    ]
    print_found(found, ("EXCHANGE", "TYPE", "DURABLE"), rows, as_json=as_json)


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
    rows = [
        (one["source"], one["destination"], one["destination_type"], one["routing_key"])
        for one in found
    ]
    print_found(found, ("FROM", "TO", "KIND", "KEY"), rows, as_json=as_json)


@bindings.command()
@click.argument("exchange")
@click.argument("destination")
@_key_option
@_to_option
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
@_key_option
@_to_option
@management_options
def remove(exchange: str, destination: str, key: str, to: str, management: Management) -> None:
    """Unbind DESTINATION from EXCHANGE."""
    path = ("bindings", management.vhost, "e", exchange, _LETTERS[to], destination, key or "~")
    management.call("DELETE", *path)
    click.echo(f"Unbound {destination} from {exchange}.")
