"""`strom share-groups`: list, describe, reset-offsets and delete."""

from typing import Any

import click

from strom.cli.connection import CliConnection, connection_options
from strom.cli.groups import (
    POINTS,
    chosen_partitions,
    delete_groups,
    execute_option,
    existing_group,
    moved_to,
    parse_point,
    print_group,
    reset,
    topics_argument,
)
from strom.cli.options import json_option, names_argument, yes_option
from strom.cli.printing import print_json, print_rows
from strom.client.groups import GroupAdmin, GroupDescription
from strom.client.share_groups import ShareGroupAdmin, ShareProgress
from strom.model.errors import UserError
from strom.model.topics import TopicPartition

ProgressByPartition = dict[TopicPartition, ShareProgress]
COLUMNS = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "start": "START",
    "lag": "LAG",
    "members": "MEMBERS",
}
Row = tuple[str, int, int | None, int | None, list[str]]


@click.group()
def share_groups() -> None:
    """Show the progress of share groups; reset their offsets."""


@share_groups.command("list")
@json_option
@connection_options
def list_share_groups(as_json: bool, connection: CliConnection) -> None:
    """List the share groups with their states."""
    print_rows(
        {"name": "GROUP", "state": "STATE"},
        [(one.name, one.state) for one in ShareGroupAdmin(connection).groups()],
        as_json=as_json,
        if_none="There are no share groups yet. A share consumer of any Kafka client creates one.",
    )


@share_groups.command()
@names_argument
@json_option
@connection_options
def describe(names: tuple[str, ...], as_json: bool, connection: CliConnection) -> None:
    """Show state, members, and the start offset and lag of every partition."""
    admin = ShareGroupAdmin(connection)
    described = [(existing_group(admin, name), admin.progress(name)) for name in names]
    if as_json:
        print_json([_as_json(group, _rows(group, progress)) for group, progress in described])
        return
    for index, (group, progress) in enumerate(described):
        if index:
            click.echo()
        print_group(group)
        rows = [(*row[:4], ", ".join(row[4]) or None) for row in _rows(group, progress)]
        print_rows(COLUMNS, rows, as_json=False)


@share_groups.command("reset-offsets")
@click.argument("name")
@topics_argument
@click.option("--to", "point", required=True, help=f"The new start: {POINTS}.")
@execute_option
@json_option
@connection_options
def reset_offsets(
    name: str,
    topics: tuple[str, ...],
    point: str,
    execute: bool,
    as_json: bool,
    connection: CliConnection,
) -> None:
    """Reset the offsets of a group without members; without TOPICs, of all that it has read.

    Records after the new offset are delivered again. A dry run unless --execute is given.
    """
    wanted = parse_point(point)
    admin = ShareGroupAdmin(connection)
    if admin.describe(name).members:
        raise UserError(f"Share group {name} has members. Stop them, then reset its offsets.")
    progress = admin.progress(name)
    partitions = chosen_partitions(GroupAdmin(connection), topics) if topics else sorted(progress)
    if not partitions:
        raise UserError(f"Share group {name} has no offsets yet. Name the topics to reset.")
    before = {one: at.start for one, at in progress.items() if at.start is not None}
    moved = moved_to(connection, partitions, wanted)
    reset(admin, name, before, moved, execute=execute, as_json=as_json)


@share_groups.command()
@names_argument
@yes_option
@connection_options
def delete(names: tuple[str, ...], yes: bool, connection: CliConnection) -> None:
    """Delete share groups without members, with their offsets."""
    admin = ShareGroupAdmin(connection)
    for name in names:
        if existing_group(admin, name).members:
            raise UserError(f"Share group {name} has members. Stop them, then delete it.")
    delete_groups(admin, names, yes, "share group")


def _rows(group: GroupDescription, progress: ProgressByPartition) -> list[Row]:
    readers: dict[TopicPartition, list[str]] = {}
    for member in group.members:
        for partition in member.partitions:
            readers.setdefault(partition, []).append(member.id)
    unknown = ShareProgress(None, None)
    rows = []
    for one in sorted({*progress, *readers}):
        at = progress.get(one, unknown)
        rows.append((one.topic, one.partition, at.start, at.lag, readers.get(one, [])))
    return rows


def _as_json(group: GroupDescription, rows: list[Row]) -> dict[str, Any]:
    return {
        "name": group.name,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": [
            {"id": one.id, "client_id": one.client_id, "host": one.host} for one in group.members
        ],
        "partitions": [dict(zip(COLUMNS, row, strict=True)) for row in rows],
    }
