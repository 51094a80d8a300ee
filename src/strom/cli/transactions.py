"""`strom transactions`: list, describe and abort."""

import time
from typing import Any

import click

from strom.cli.connection import CliConnection, connection_options
from strom.cli.options import confirm, json_option, names_argument, yes_option
from strom.cli.printing import notice, print_json, print_rows
from strom.client.transactions import TransactionAdmin
from strom.model.errors import UserError
from strom.wire.kafka.messages.k65_describe_transactions import TransactionState

ONGOING = "Ongoing"


@click.group()
def transactions() -> None:
    """Show transactional producers; abort open transactions."""


@transactions.command("list")
@click.option("--state", "states", multiple=True, help="Only those in this state, such as Ongoing.")
@json_option
@connection_options
def list_transactions(states: tuple[str, ...], as_json: bool, connection: CliConnection) -> None:
    """List the transactional ids with their states."""
    print_rows(
        {
            "name": "TRANSACTIONAL-ID",
            "coordinator": "COORDINATOR",
            "producer_id": "PRODUCER-ID",
            "state": "STATE",
        },
        [
            (one.name, one.coordinator, one.producer_id, one.state)
            for one in TransactionAdmin(connection).transactions(states)
        ],
        as_json=as_json,
        if_none="There are no such transactions. Producers with a transactional.id create them.",
    )


@transactions.command()
@names_argument
@json_option
@connection_options
def describe(names: tuple[str, ...], as_json: bool, connection: CliConnection) -> None:
    """Show the producer and the open transaction of a transactional id."""
    admin = TransactionAdmin(connection)
    described = [admin.describe(name) for name in names]
    now_ms = int(time.time() * 1000)
    if as_json:
        print_json([_as_json(one, now_ms) for one in described])
        return
    for index, one in enumerate(described):
        if index:
            click.echo()
        for title, value in _as_lines(one, now_ms):
            click.echo(f"{title:<13}{value}")


@transactions.command()
@click.argument("name")
@yes_option
@connection_options
def abort(name: str, yes: bool, connection: CliConnection) -> None:
    """Abort an open transaction; its producer is fenced and has to initialize again."""
    admin = TransactionAdmin(connection)
    state = admin.describe(name).transaction_state
    if state != ONGOING:
        raise UserError(f"Transactional id {name} has no open transaction ({state}).")
    confirm(f"Abort {name}, and fence its producer?", yes, action="An abort", verb="abort")
    admin.abort(name)
    notice(f"Aborted {name}.")


def _as_json(one: TransactionState, now_ms: int) -> dict[str, Any]:
    is_open = one.transaction_state == ONGOING
    return {
        "name": one.transactional_id,
        "state": one.transaction_state,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.transaction_timeout_ms,
        "started_ms": one.transaction_start_time_ms if is_open else None,
        "open_for_ms": now_ms - one.transaction_start_time_ms if is_open else None,
        "partitions": [
            {"topic": topic.topic, "partition": index}
            for topic in one.topics
            for index in topic.partitions
        ],
    }


def _as_lines(one: TransactionState, now_ms: int) -> list[tuple[str, str]]:
    lines = [
        ("Transaction", one.transactional_id),
        ("State", one.transaction_state),
        ("Producer", f"{one.producer_id}, epoch {one.producer_epoch}"),
        ("Timeout", f"{one.transaction_timeout_ms / 1000:g} s"),
    ]
    if one.transaction_state == ONGOING:
        lines.append(("Open for", f"{(now_ms - one.transaction_start_time_ms) / 1000:.1f} s"))
    lines += [
        ("Writes to", f"{topic.topic}-{index}")
        for topic in one.topics
        for index in topic.partitions
    ]
    return lines
