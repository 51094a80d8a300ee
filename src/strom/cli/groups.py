"""`strom groups`: list, describe, reset-offsets and delete."""

import sys
import time
from typing import Any

import click

from strom.cli.connection import Connection, connection_options
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
    """See how far consumer groups have read; move them."""


@groups.command("list")
@json_option
@connection_options
def list_groups(as_json: bool, connection: Connection) -> None:
    """List the groups with their states."""
    found = GroupAdmin(connection).groups()
    if as_json:
        print_json([{"name": one.name, "state": one.state, "type": one.type} for one in found])
    elif not found:
        notice("There are no groups yet. Start one with: strom consume TOPIC --group NAME")
    else:
        print_table(("GROUP", "STATE", "TYPE"), [(one.name, one.state, one.type) for one in found])


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
@connection_options
def describe(names: tuple[str, ...], as_json: bool, connection: Connection) -> None:
    """Show state, members, and how far every partition is read."""
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
@click.option("--to", "point", help=f"Where to go on: {POINTS}.")
@click.option("--by", type=int, help="Go on so many records later, or (-10) earlier.")
@click.option("--execute", is_flag=True, help="Really do it; without, only show what would be.")
@json_option
@connection_options
def reset_offsets(
    name: str,
    topics: tuple[str, ...],
    point: str | None,
    by: int | None,
    execute: bool,
    as_json: bool,
    connection: Connection,
) -> None:
    """Move a group that has no members; without TOPICs, in all that it has read.

    A dry run unless --execute is given.
    """
    if (point is None) == (by is None):
        raise click.UsageError("Say where to go on, with either --to or --by.")
    wanted = None if point is None else parse_point(point)
    admin = GroupAdmin(connection)
    state = admin.describe(name).state
    if state not in RESETTABLE:
        raise UserError(f"Group {name} has members ({state}). Stop them, then move it.")
    committed = admin.committed(name)
    partitions = chosen_partitions(admin, topics) if topics else sorted(committed)
    if not partitions:
        raise UserError(f"Group {name} has read nothing yet: say which topics to move it in.")
    if wanted is not None:
        moved = moved_to(connection, partitions, wanted)
    else:
        known = {one: committed[one] for one in partitions if one in committed}
        moved = moved_by(admin, known, by or 0)
    if execute:
        admin.set_offsets(name, moved)
    print_moved(moved, {one: committed[one].offset for one in committed}, as_json=as_json)
    if not execute:
        notice("Nothing was changed. To do it, add --execute.")


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connection_options
def delete(names: tuple[str, ...], yes: bool, connection: Connection) -> None:
    """Delete groups that have no members, with their offsets."""
    admin = GroupAdmin(connection)
    for name in names:
        _existing(admin, name)
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("Deleting cannot be undone. To do it without a question, add --yes.")
        click.confirm(f"Delete {', '.join(names)} with all offsets?", abort=True, err=True)
    for name in names:
        admin.delete(name)
        click.echo(f"Deleted group {name}.")


def _existing(admin: GroupAdmin, name: str) -> GroupDescription:
    described = admin.describe(name)
    if not described.exists:
        raise UserError(f"There is no group {name}. List them with: strom groups list")
    return described


def parse_point(text: str) -> Point:
    """One place to go on from, as a user names it."""
    try:
        wanted = parse_offset_range(text, time.time_ns() // 1_000_000)
        if wanted.end is not None:
            raise ValueError(f"{text!r} is a range; name one point: {POINTS}")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from None
    return wanted.begin


def print_moved(
    moved: dict[TopicPartition, int], before: dict[TopicPartition, int], *, as_json: bool
) -> None:
    """Show from where to where a group is moved."""
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
    """A number for a table, where there may be none."""
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
