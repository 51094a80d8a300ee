"""`strom share-groups`: list, describe, reset-offsets and delete."""

import sys
from typing import Any

import click

from strom.cli.connection import CliConnection, connection_options
from strom.cli.group_reset import chosen_partitions, moved_to
from strom.cli.groups import POINTS, json_option, parse_point, print_moved, shown
from strom.cli.printing import notice, print_json, print_table
from strom.client.groups import GroupAdmin
from strom.client.share_groups import ShareGroupAdmin, ShareGroupDescription, ShareProgress
from strom.model.errors import UserError
from strom.model.topics import TopicPartition

ProgressByPartition = dict[TopicPartition, ShareProgress]


@click.group()
def share_groups() -> None:
    """Show the progress of share groups; reset their offsets."""


@share_groups.command("list")
@json_option
@connection_options
def list_share_groups(as_json: bool, connection: CliConnection) -> None:
    """List the share groups with their states."""
    found = ShareGroupAdmin(connection).groups()
    if as_json:
        print_json([{"name": one.name, "state": one.state} for one in found])
    elif not found:
        notice("There are no share groups yet. A share consumer of any Kafka client creates one.")
    else:
        print_table(("GROUP", "STATE"), [(one.name, one.state) for one in found])


@share_groups.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
@connection_options
def describe(names: tuple[str, ...], as_json: bool, connection: CliConnection) -> None:
    """Show state, members, and the start offset and lag of every partition."""
    admin = ShareGroupAdmin(connection)
    described = [(_existing(admin, name), admin.progress(name)) for name in names]
    if as_json:
        print_json([_as_json(group, progress) for group, progress in described])
        return
    for index, (group, progress) in enumerate(described):
        if index:
            click.echo()
        _print_description(group, progress)


@share_groups.command("reset-offsets")
@click.argument("name")
@click.argument("topics", nargs=-1, metavar="[TOPIC[:PARTITION,...]]...")
@click.option("--to", "point", required=True, help=f"The new start: {POINTS}.")
@click.option("--execute", is_flag=True, help="Reset the offsets; without it, only print them.")
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
    group = admin.describe(name)
    if group is not None and group.members:
        raise UserError(f"Share group {name} has members. Stop them, then reset its offsets.")
    progress = admin.progress(name)
    partitions = chosen_partitions(GroupAdmin(connection), topics) if topics else sorted(progress)
    if not partitions:
        raise UserError(f"Share group {name} has no offsets yet. Name the topics to reset.")
    moved = moved_to(connection, partitions, wanted)
    if execute:
        admin.set_offsets(name, moved)
    before = {one: at.start for one, at in progress.items() if at.start is not None}
    print_moved(moved, before, as_json=as_json)
    if not execute:
        notice("Nothing was changed. To reset the offsets, add --execute.")


@share_groups.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@connection_options
def delete(names: tuple[str, ...], yes: bool, connection: CliConnection) -> None:
    """Delete share groups without members, with their offsets."""
    admin = ShareGroupAdmin(connection)
    for name in names:
        if _existing(admin, name).members:
            raise UserError(f"Share group {name} has members. Stop them, then delete it.")
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("Deletion cannot be undone. To delete without confirmation, add --yes.")
        click.confirm(f"Delete {', '.join(names)}?", abort=True, err=True)
    for name in names:
        admin.delete(name)
        click.echo(f"Deleted share group {name}.")


def _existing(admin: ShareGroupAdmin, name: str) -> ShareGroupDescription:
    described = admin.describe(name)
    if described is None:
        raise UserError(
            f"Share group {name} does not exist. List the groups with: strom share-groups list"
        )
    return described


def _readers(group: ShareGroupDescription) -> dict[TopicPartition, list[str]]:
    readers: dict[TopicPartition, list[str]] = {}
    for member in group.members:
        for partition in member.partitions:
            readers.setdefault(partition, []).append(member.id)
    return readers


def _print_description(group: ShareGroupDescription, progress: ProgressByPartition) -> None:
    node = group.coordinator
    click.echo(f"Group        {group.name}")
    click.echo(f"State        {group.state}")
    click.echo(f"Members      {len(group.members)}")
    click.echo(f"Assignor     {group.assignor}")
    click.echo(f"Coordinator  {node.host}:{node.port} ({node.id})")
    click.echo()
    readers = _readers(group)
    print_table(
        ("TOPIC", "PARTITION", "START", "LAG", "MEMBERS"),
        [
            (
                one.topic,
                one.partition,
                shown(progress[one].start if one in progress else None),
                shown(progress[one].lag if one in progress else None),
                ", ".join(readers.get(one, ())) or "-",
            )
            for one in sorted({*progress, *readers})
        ],
    )


def _as_json(group: ShareGroupDescription, progress: ProgressByPartition) -> dict[str, Any]:
    readers = _readers(group)
    unknown = ShareProgress(None, None)
    return {
        "name": group.name,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": f"{group.coordinator.host}:{group.coordinator.port}",
        "members": [
            {"id": one.id, "client_id": one.client_id, "host": one.host} for one in group.members
        ],
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "start": progress.get(one, unknown).start,
                "lag": progress.get(one, unknown).lag,
                "members": readers.get(one, []),
            }
            for one in sorted({*progress, *readers})
        ],
    }
