"""`strom queues`: list, declare, publish to, inspect, purge and delete message queues."""

import json
from typing import Any

import click

from strom.cli.options import assignments_option, json_option
from strom.cli.printing import print_found, print_json
from strom.cli.rest import Management, management_options
from strom.client.client_properties import parse_assignment

arguments_option = assignments_option(
    "-a",
    "--argument",
    "arguments",
    doc="An argument, as in x-max-length=1000; may be given several times.",
)


@click.group()
def queues() -> None:
    """List, declare, inspect, purge and delete message queues."""


@queues.command("list")
@json_option
@management_options
def list_queues(as_json: bool, management: Management) -> None:
    """List the queues with the numbers of their messages."""
    found = management.call("GET", "queues", management.vhost)
    columns = ("name", "messages_ready", "messages_unacknowledged", "consumers")
    print_found(
        found,
        ("QUEUE", "READY", "UNACKNOWLEDGED", "CONSUMERS"),
        sorted(tuple(one[name] for name in columns) for one in found),
        as_json=as_json,
        if_none="There are no queues yet. Declare one with: strom queues declare NAME",
    )


@queues.command()
@click.argument("name")
@click.option("--transient", is_flag=True, help="Delete it when the broker restarts.")
@click.option("--auto-delete", is_flag=True, help="Delete it with its last consumer.")
@arguments_option
@management_options
def declare(
    name: str,
    transient: bool,
    auto_delete: bool,
    arguments: tuple[str, ...],
    management: Management,
) -> None:
    """Create a queue if it does not exist."""
    given = {
        "durable": not transient,
        "auto_delete": auto_delete,
        "arguments": read_arguments(arguments),
    }
    management.call("PUT", "queues", management.vhost, name, given=given)
    click.echo(f"Declared queue {name}.")


@queues.command()
@click.argument("name")
@management_options
def delete(name: str, management: Management) -> None:
    """Delete a queue and its messages."""
    management.call("DELETE", "queues", management.vhost, name)
    click.echo(f"Deleted queue {name}.")


@queues.command()
@click.argument("name")
@management_options
def purge(name: str, management: Management) -> None:
    """Remove the ready messages of a queue."""
    management.call("DELETE", "queues", management.vhost, name, "contents")
    click.echo(f"Purged queue {name}.")


@queues.command()
@click.argument("name")
@click.argument("text")
@click.option("--exchange", default="amq.default", help="Publish here, with NAME as routing key.")
@management_options
def publish(name: str, text: str, exchange: str, management: Management) -> None:
    """Publish a persistent message to a queue."""
    given = {"routing_key": name, "payload": text, "properties": {"delivery_mode": 2}}
    result = management.call(
        "POST", "exchanges", management.vhost, exchange, "publish", given=given
    )
    click.echo("Published." if result["routed"] else "Published, but not routed to any queue.")


@queues.command()
@click.argument("name")
@click.option("-n", "--count", default=1, show_default=True, help="The maximum of messages.")
@click.option("--take", is_flag=True, help="Acknowledge them; otherwise they are requeued.")
@json_option
@management_options
def get(name: str, count: int, take: bool, as_json: bool, management: Management) -> None:
    """Show the next messages of a queue."""
    mode = "ack_requeue_false" if take else "ack_requeue_true"
    given = {"count": count, "ackmode": mode, "encoding": "auto"}
    for message in management.call("POST", "queues", management.vhost, name, "get", given=given):
        if as_json:
            print_json(message)
        else:
            click.echo(message["payload"])


def read_arguments(assignments: tuple[str, ...]) -> dict[str, Any]:
    """Parse arguments as in x-max-length=1000; a value that is JSON is decoded."""
    found: dict[str, Any] = {}
    for name, text in map(parse_assignment, assignments):
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found
