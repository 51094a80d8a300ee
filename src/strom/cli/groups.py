"""`strom groups`: list, describe, reset-offsets and delete."""

import sys
import time
from typing import Any

import click

from strom.cli.connection import CliConnection, connection_options
from strom.cli.group_reset import chosen_partitions, moved_by, moved_to
from strom.cli.offsets import Point, parse_offset_range
from strom.cli.printing import Cell, notice, print_json, print_table
from strom.client.groups import (
    RESETTABLE,
    GroupAdmin,
    GroupDescription,
    PartitionLag,
)
from strom.model.errors import UserError
from strom.model.topics import TopicPartition

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
POINTS = "start, end, 47, +10, -10, @-1h, @2026-11-15T08:00:00Z"


@click.group()
def groups() -> None:
    """Show the lag of consumer groups; reset their offsets."""


@groups.command("list")
@json_option
@connection_options
def list_groups(as_json: bool, connection: CliConnection) -> None:
    """List the groups with their states."""
    found = GroupAdmin(connection).groups()
    if as_json:
        print_json([{"name": one.name, "state": one.state, "type": one.type} for one in found])
    elif not found:
        notice("There are no groups yet. Create one with: strom consume TOPIC --group NAME")
    else:
        print_table(("GROUP", "STATE", "TYPE"), [(one.name, one.state, one.type) for one in found])


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
@connection_options
def describe(names: tuple[str, ...], as_json: bool, connection: CliConnection) -> None:
    """Show state, members, and the offset and lag of every partition."""
    admin = GroupAdmin(connection)
    described = [_existing(admin, name) for name in names]
    if as_json:
        print_json([_as_json(group, admin.lags(group)) for group in described])
        return
    for index, group in enumerate(described):
        if index:
            click.echo()
        _print_description(group, admin.lags(group))


@groups.command("reset-offsets")
@click.argument("name")
@click.argument("topics", nargs=-1, metavar="[TOPIC[:PARTITION,...]]...")
@click.option("--to", "point", help=f"The new position: {POINTS}.")
@click.option("--by", type=int, help="Shift the offsets by this number, as in 10 or -10.")
@click.option("--execute", is_flag=True, help="Reset the offsets; without it, only print them.")
@json_option
@connection_options
def reset_offsets(
    name: str,
    topics: tuple[str, ...],
    point: str | None,
    by: int | None,
    execute: bool,
    as_json: bool,
    connection: CliConnection,
) -> None:
    """Reset the offsets of a group without members; without TOPICs, of all that it has read.

    A dry run unless --execute is given.
    """
    if (point is None) == (by is None):
        raise click.UsageError("Give either --to or --by.")
    wanted = None if point is None else parse_point(point)
    admin = GroupAdmin(connection)
    state = admin.describe(name).state
    if state not in RESETTABLE:
        raise UserError(f"Group {name} has members ({state}). Stop them, then reset its offsets.")
    committed = admin.committed(name)
    partitions = chosen_partitions(admin, topics) if topics else sorted(committed)
    if not partitions:
        raise UserError(f"Group {name} has no committed offsets. Name the topics to reset.")
    if wanted is not None:
        moved = moved_to(connection, partitions, wanted)
    else:
        known = {one: committed[one] for one in partitions if one in committed}
        moved = moved_by(admin, known, by or 0)
    if execute:
        admin.set_offsets(name, moved)
    print_moved(moved, {one: committed[one].offset for one in committed}, as_json=as_json)
    if not execute:
        notice("Nothing was changed. To reset the offsets, add --execute.")


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@connection_options
def delete(names: tuple[str, ...], yes: bool, connection: CliConnection) -> None:
    """Delete groups without members, with their offsets."""
    admin = GroupAdmin(connection)
    for name in names:
        _existing(admin, name)
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("Deletion cannot be undone. To delete without confirmation, add --yes.")
        click.confirm(f"Delete {', '.join(names)} with all offsets?", abort=True, err=True)
    for name in names:
        admin.delete(name)
        click.echo(f"Deleted group {name}.")


def _existing(admin: GroupAdmin, name: str) -> GroupDescription:
    described = admin.describe(name)
    if not described.exists:
        raise UserError(f"Group {name} does not exist. List the groups with: strom groups list")
    return described


def parse_point(text: str) -> Point:
    """Parse the value of --to; click.BadParameter if it is not one point."""
    try:
        wanted = parse_offset_range(text, time.time_ns() // 1_000_000)
        if wanted.end is not None:
            raise ValueError(f"{text!r} is a range; give one point: {POINTS}")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from None
    return wanted.begin


def print_moved(
    moved: dict[TopicPartition, int], before: dict[TopicPartition, int], *, as_json: bool
) -> None:
    """Print the offsets of a group before and after the reset."""
    if as_json:
        print_json(
            [
                {
                    "topic": one.topic,
                    "partition": one.partition,
                    "before": before.get(one),
                    "offset": offset,
                }
                for one, offset in moved.items()
            ]
        )
        return
    print_table(
        ("TOPIC", "PARTITION", "BEFORE", "OFFSET"),
        [
            (one.topic, one.partition, shown(before.get(one)), offset)
            for one, offset in moved.items()
        ],
    )


def _print_description(group: GroupDescription, rows: list[PartitionLag]) -> None:
    click.echo(f"Group        {group.name}")
    click.echo(f"Type         {group.type}")
    click.echo(f"State        {group.state}")
    click.echo(f"Members      {len(group.members)}")
    if group.assignor:
        click.echo(f"Assignor     {group.assignor}")
    if group.epoch is not None:
        click.echo(f"Epoch        {group.epoch} (assignment {group.target_epoch})")
    click.echo(f"Coordinator  {group.coordinator} ({group.coordinator_id})")
    click.echo()
    print_table(
        ("TOPIC", "PARTITION", "OFFSET", "END", "LAG", "MEMBER", "HOST"),
        [
            (
                row.partition.topic if row.partition else "-",
                row.partition.partition if row.partition else "-",
                shown(row.current),
                shown(row.end),
                shown(row.lag),
                row.member.id if row.member else "-",
                row.member.host if row.member else "-",
            )
            for row in rows
        ],
    )


def shown(number: int | None) -> Cell:
    """A number for a table; a dash for None."""
    return "-" if number is None else number


def _as_json(group: GroupDescription, rows: list[PartitionLag]) -> dict[str, Any]:
    return {
        "name": group.name,
        "type": group.type,
        "state": group.state,
        "epoch": group.epoch,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": [
            {
                "id": one.id,
                "instance": one.instance,
                "client_id": one.client_id,
                "host": one.host,
            }
            for one in group.members
        ],
        "partitions": [
            {
                "topic": row.partition.topic,
                "partition": row.partition.partition,
                "offset": row.current,
                "end": row.end,
                "lag": row.lag,
                "member": row.member.id if row.member else None,
            }
            for row in rows
            if row.partition is not None
        ],
    }
