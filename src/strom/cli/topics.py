"""`strom topics`: create, list, describe, alter and delete topics."""

import dataclasses
import difflib
from collections.abc import Sequence

import click

from strom.cli.connection import CliConnection, connection_options
from strom.cli.options import (
    assignments_option,
    confirm,
    json_option,
    names_argument,
    yes_option,
)
from strom.cli.printing import notice, print_facts, print_found, print_json, print_table
from strom.cli.segments import segments
from strom.client.client_properties import parse_assignment
from strom.client.kafka_errors import error_name
from strom.client.topics import TopicAdmin, TopicDescription
from strom.model.errors import UserError
from strom.model.topics import is_internal


@click.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics."""


topics.add_command(segments)


@topics.command()
@names_argument
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="The number of partitions.")
@click.option(
    "-r", "--replication-factor", type=click.IntRange(min=1), help="The replicas of each partition."
)
@assignments_option(
    "-c",
    "--config",
    "settings",
    doc="A topic setting, as in retention.ms=86400000; may be given several times.",
)
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the topic exists.")
@connection_options
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    connection: CliConnection,
) -> None:
    """Create topics, with the cluster's defaults for what is not given."""
    from confluent_kafka import KafkaException

    changed = dict(map(parse_assignment, settings))
    admin = TopicAdmin(connection)
    for name in names:
        try:
            admin.create(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                settings=changed,
            )
        except KafkaException as error:
            if not (if_not_exists and error_name(error) == "TOPIC_ALREADY_EXISTS"):
                raise
            notice(f"Topic {name} already exists.")
        else:
            click.echo(f"Created topic {name}.")


@topics.command("list")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@json_option
@connection_options
def list_topics(internal: bool, as_json: bool, connection: CliConnection) -> None:
    """List the topics with their partitions."""
    admin = TopicAdmin(connection)
    names = [name for name in admin.names() if internal or not is_internal(name)]
    rows = [
        (topic.name, len(topic.partitions), topic.replication_factor, topic.internal)
        for topic in admin.describe(names)
    ]
    fields = ("name", "partitions", "replication_factor", "internal")
    print_found(
        [dict(zip(fields, row, strict=True)) for row in rows],
        ("TOPIC", "PARTITIONS", "REPLICAS"),
        [row[:3] for row in rows],
        as_json=as_json,
        if_none="There are no topics yet. Create one with: strom topics create NAME",
    )


@topics.command()
@names_argument
@json_option
@connection_options
def describe(names: tuple[str, ...], as_json: bool, connection: CliConnection) -> None:
    """Show partitions, offsets, and settings that differ from the default."""
    admin = TopicAdmin(connection)
    _check_existence(admin, names)
    described = admin.describe(names, offsets=True)
    if as_json:
        print_json([dataclasses.asdict(topic) for topic in described])
        return
    for index, topic in enumerate(described):
        if index:
            click.echo()
        _print_description(topic)


@topics.command()
@click.argument("name")
@click.argument("changes", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--delete",
    "reset",
    multiple=True,
    metavar="NAME",
    help="A setting to reset to its default; may be given several times.",
)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="The new number of partitions; it can only grow.",
)
@connection_options
def alter(
    name: str,
    changes: tuple[str, ...],
    reset: tuple[str, ...],
    partitions: int | None,
    connection: CliConnection,
) -> None:
    """Change a topic's settings, or add partitions."""
    if not (changes or reset or partitions):
        raise click.UsageError("Nothing to change: give NAME=VALUE, --delete or --partitions.")
    settings = dict(map(parse_assignment, changes))
    admin = TopicAdmin(connection)
    _check_existence(admin, [name])
    if settings or reset:
        admin.alter(name, settings, reset)
    if partitions:
        admin.add_partitions(name, partitions)
    click.echo(f"Altered topic {name}.")


@topics.command()
@names_argument
@yes_option
@connection_options
def delete(names: tuple[str, ...], yes: bool, connection: CliConnection) -> None:
    """Delete topics with all their records."""
    admin = TopicAdmin(connection)
    _check_existence(admin, names)
    confirm(f"Delete {', '.join(names)} with all records? This cannot be undone.", yes)
    for name in names:
        admin.delete(name)
        click.echo(f"Deleted topic {name}.")


def missing_topic(name: str, existing: Sequence[str]) -> UserError:
    """The error for a topic that does not exist, with the nearest existing name."""
    near = difflib.get_close_matches(name, existing, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Create it with: strom topics create {name}"
    return UserError(f"Topic {name} does not exist. {hint}")


def _check_existence(admin: TopicAdmin, names: Sequence[str]) -> None:
    existing = admin.names()
    for name in names:
        if name not in existing:
            raise missing_topic(name, existing)


def _print_description(topic: TopicDescription) -> None:
    facts = {
        "Topic": topic.name,
        "Id": topic.topic_id,
        "Partitions": len(topic.partitions),
        "Replicas": topic.replication_factor,
    }
    print_facts(facts, width=12)
    for index, (name, value) in enumerate(topic.changed.items()):
        click.echo(f"{'' if index else 'Settings':<12}{name}={value}")
    click.echo()
    print_table(
        ("PARTITION", "LEADER", "REPLICAS", "IN SYNC", "FIRST OFFSET", "NEXT OFFSET", "RECORDS"),
        [
            (
                partition.number,
                "none" if partition.leader is None else partition.leader,
                ",".join(map(str, partition.replicas)),
                ",".join(map(str, partition.in_sync)),
                "?" if partition.earliest is None else partition.earliest,
                "?" if partition.latest is None else partition.latest,
                "?"
                if partition.earliest is None or partition.latest is None
                else partition.latest - partition.earliest,
            )
            for partition in topic.partitions
        ],
    )
