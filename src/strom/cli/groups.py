"""`strom groups`: list, describe, reset-offsets and delete. `strom share-groups` does the same."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from strom.cli.connection import CliConnection, connection_options
from strom.cli.offsets import OffsetRange, Point, parse_offset_range
from strom.cli.options import confirm, json_option, names_argument, yes_option
from strom.cli.printing import notice, print_facts, print_json, print_rows, print_table
from strom.cli.reading import resolve_ranges
from strom.cli.topics import missing_topic
from strom.client.groups import (
    RESETTABLE,
    Committed,
    GroupAdmin,
    GroupDescription,
    PartitionLag,
)
from strom.client.offsets import offset_bounds
from strom.client.share_groups import ShareGroupAdmin
from strom.model.errors import UserError
from strom.model.topics import TopicPartition

POINTS = "start, end, 47, +10, -10, @-1h, @2026-11-15T08:00:00Z"

topics_argument = click.argument("topics", nargs=-1, metavar="[TOPIC[:PARTITION,...]]...")
execute_option = click.option(
    "--execute", is_flag=True, help="Reset the offsets; without it, only print them."
)


@click.group()
def groups() -> None:
    """Show the lag of consumer groups; reset their offsets."""


@groups.command("list")
@json_option
@connection_options
def list_groups(as_json: bool, connection: CliConnection) -> None:
    """List the groups with their states."""
    print_rows(
        {"name": "GROUP", "state": "STATE", "type": "TYPE"},
        [(one.name, one.state, one.type) for one in GroupAdmin(connection).groups()],
        as_json=as_json,
        if_none="There are no groups yet. Create one with: strom consume TOPIC --group NAME",
    )


@groups.command()
@names_argument
@json_option
@connection_options
def describe(names: tuple[str, ...], as_json: bool, connection: CliConnection) -> None:
    """Show state, members, and the offset and lag of every partition."""
    admin = GroupAdmin(connection)
    described = [existing_group(admin, name) for name in names]
    if as_json:
        print_json([_as_json(group, admin.lags(group)) for group in described])
        return
    for index, group in enumerate(described):
        if index:
            click.echo()
        _print_description(group, admin.lags(group))


@groups.command("reset-offsets")
@click.argument("name")
@topics_argument
@click.option("--to", "point", help=f"The new position: {POINTS}.")
@click.option("--by", type=int, help="Shift the offsets by this number, as in 10 or -10.")
@execute_option
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
    before = {one: at.offset for one, at in committed.items()}
    reset(admin, name, before, moved, execute=execute, as_json=as_json)


@groups.command()
@names_argument
@yes_option
@connection_options
def delete(names: tuple[str, ...], yes: bool, connection: CliConnection) -> None:
    """Delete groups without members, with their offsets."""
    admin = GroupAdmin(connection)
    for name in names:
        existing_group(admin, name)
    delete_groups(admin, names, yes, "group")


def existing_group(admin: GroupAdmin | ShareGroupAdmin, name: str) -> GroupDescription:
    """Describe a group; UserError if it does not exist."""
    described = admin.describe(name)
    if not described.exists:
        noun, command = "Group", "groups"
        if isinstance(admin, ShareGroupAdmin):
            noun, command = "Share group", "share-groups"
        raise UserError(f"{noun} {name} does not exist. List the groups with: strom {command} list")
    return described


def delete_groups(
    admin: GroupAdmin | ShareGroupAdmin, names: Sequence[str], yes: bool, noun: str
) -> None:
    """Delete groups after confirmation."""
    confirm(f"Delete {', '.join(names)} with all offsets?", yes)
    for name in names:
        admin.delete(name)
        click.echo(f"Deleted {noun} {name}.")


def reset(
    admin: GroupAdmin | ShareGroupAdmin,
    name: str,
    before: Mapping[TopicPartition, int],
    moved: Mapping[TopicPartition, int],
    *,
    execute: bool,
    as_json: bool,
) -> None:
    """Set the offsets of a group if `execute`, and print those before and after."""
    if execute:
        admin.set_offsets(name, moved)
    print_rows(
        {"topic": "TOPIC", "partition": "PARTITION", "before": "BEFORE", "offset": "OFFSET"},
        [(one.topic, one.partition, before.get(one), offset) for one, offset in moved.items()],
        as_json=as_json,
    )
    if not execute:
        notice("Nothing was changed. To reset the offsets, add --execute.")


def parse_point(text: str) -> Point:
    """Parse the value of --to; click.BadParameter if it is not one point."""
    try:
        wanted = parse_offset_range(text, time.time_ns() // 1_000_000)
        if wanted.end is not None:
            raise ValueError(f"{text!r} is a range; give one point: {POINTS}")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from None
    return wanted.begin


def chosen_partitions(admin: GroupAdmin, names: Sequence[str]) -> list[TopicPartition]:
    """The partitions that `TOPIC` or `TOPIC:0,1` name; UserError if one does not exist."""
    found: list[TopicPartition] = []
    for name in names:
        topic, colon, numbers = name.partition(":")
        known = admin.partitions_of([topic]).get(topic)
        if known is None:
            raise missing_topic(topic, [])
        wanted = [TopicPartition(topic, one) for one in _numbers(name, numbers)] if colon else known
        for partition in wanted:
            if partition not in known:
                raise UserError(
                    f"Topic {topic} has no partition {partition.partition}, "
                    f"only 0 to {len(known) - 1}."
                )
        found += wanted
    return sorted(set(found))


def _numbers(name: str, text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise UserError(
            f"{name!r} is not of the form TOPIC:PARTITION,…, as in clicks:0,1."
        ) from None


def moved_to(
    connection: CliConnection, partitions: Sequence[TopicPartition], point: Point
) -> dict[TopicPartition, int]:
    """The offset of a point in each partition, limited to its start and end."""
    ranges = resolve_ranges(connection, partitions, OffsetRange(point))
    return {partition: ranges[partition].begin for partition in partitions}


def moved_by(
    admin: GroupAdmin, committed: Mapping[TopicPartition, Committed], by: int
) -> dict[TopicPartition, int]:
    """Committed offsets shifted by a number, limited to each partition's start and end."""
    wanted = {partition: one.offset + by for partition, one in committed.items()}
    return within_bounds(admin, wanted)


def within_bounds(
    admin: GroupAdmin, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Offsets limited to each partition's start and end."""
    first, last = offset_bounds(admin.client, list(wanted))
    return {
        partition: min(max(offset, first[partition]), last[partition])
        for partition, offset in wanted.items()
    }


def print_group(group: GroupDescription, **more: object) -> None:
    """Print what is common to all groups."""
    facts = {"Group": group.name, **more, "State": group.state, "Members": len(group.members)}
    if group.assignor:
        facts["Assignor"] = group.assignor
    if group.epoch is not None:
        facts["Epoch"] = f"{group.epoch} (assignment {group.target_epoch})"
    print_facts(facts | {"Coordinator": f"{group.coordinator} ({group.coordinator_id})"})
    click.echo()


def _print_description(group: GroupDescription, rows: list[PartitionLag]) -> None:
    print_group(group, Type=group.type)
    print_table(
        ("TOPIC", "PARTITION", "OFFSET", "END", "LAG", "MEMBER", "HOST"),
        [
            (
                *(row.partition or (None, None)),
                row.current,
                row.end,
                row.lag,
                *((row.member.id, row.member.host) if row.member else (None, None)),
            )
            for row in rows
        ],
    )


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
