"""`strom kafka-topics`: Kafka's topic tool."""

from collections.abc import Iterator
from typing import Any, NoReturn

import click

from strom.cli.connection import Connection
from strom.cli.kafka_tools.flags import server_flags
from strom.cli.printing import notice
from strom.client.client_properties import parse_assignment
from strom.client.kafka_errors import error_name, kafka_exceptions
from strom.client.topics import Partition, TopicAdmin, TopicDescription
from strom.model.errors import UserError
from strom.model.patterns import UserPattern, compile_pattern
from strom.model.topics import is_internal

ACTIONS = ("list", "describe", "create", "alter", "delete")


@click.command("kafka-topics")
@click.option("--create", is_flag=True, help="Create a topic.")
@click.option("--list", is_flag=True, help="List all topics.")
@click.option("--describe", is_flag=True, help="Show details of topics.")
@click.option("--alter", is_flag=True, help="Change the number of partitions.")
@click.option("--delete", is_flag=True, help="Delete a topic.")
@click.option("--topic", help="The topic; except with --create, a regular expression.")
@click.option("--partitions", type=click.IntRange(min=1), help="Number of partitions.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Number of replicas.")
@click.option(
    "--replica-assignment",
    metavar="1:2,2:3,...",
    help="Brokers of each partition's replicas.",
)
@click.option("--config", multiple=True, metavar="NAME=VALUE", help="A topic setting.")
@click.option("--delete-config", multiple=True, metavar="NAME", help="With --alter: reset one.")
@click.option("--if-exists", is_flag=True, help="No error if there is no such topic.")
@click.option("--if-not-exists", is_flag=True, help="No error if the topic exists.")
@click.option("--exclude-internal", is_flag=True, help="Leave out Kafka's own topics.")
@click.option("--topics-with-overrides", is_flag=True, help="Only topics with own settings.")
@click.option("--under-replicated-partitions", is_flag=True, help="Only those behind.")
@click.option("--unavailable-partitions", is_flag=True, help="Only those without a leader.")
@server_flags(config_flags=("--command-config",))
def kafka_topics(connection: Connection, **options: Any) -> None:
    """Create, delete, describe or change a topic."""
    chosen = [action for action in ACTIONS if options[action]]
    if len(chosen) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --list, --describe, --create, --alter or "
            "--delete."
        )
    action = chosen[0]
    if action in {"create", "alter", "delete"} and not options["topic"]:
        raise click.UsageError('Missing required argument "[topic]".')
    try:
        _RUN[action](TopicAdmin(connection), options)
    except UserError as error:
        _fail(str(error))
    except kafka_exceptions() as error:
        _fail(error.args[0].str())


def _fail(reason: str) -> NoReturn:
    notice(f"Error while executing topic command : {reason}")
    click.get_current_context().exit(1)


def _create(admin: TopicAdmin, options: dict[str, Any]) -> None:
    from confluent_kafka import KafkaException

    name = options["topic"]
    if "." in name or "_" in name:
        click.echo(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore "
            "('_') could collide. To avoid issues it is best to use either, but not both."
        )
    try:
        admin.create(
            name,
            partitions=options["partitions"],
            replication_factor=options["replication_factor"],
            settings=dict(map(parse_assignment, options["config"])),
            assignment=_assignment(options["replica_assignment"]),
        )
    except KafkaException as error:
        if not (options["if_not_exists"] and error_name(error) == "TOPIC_ALREADY_EXISTS"):
            raise
    else:
        click.echo(f"Created topic {name}.")


def _list(admin: TopicAdmin, options: dict[str, Any]) -> None:
    for name in _matching(admin, options):
        click.echo(name)


def _describe(admin: TopicAdmin, options: dict[str, Any]) -> None:
    names = _matching(admin, options)
    _expect(names, options)
    only_topics = options["topics_with_overrides"]
    only_partitions = options["under_replicated_partitions"] or options["unavailable_partitions"]
    for topic in admin.describe(names):
        if not only_partitions and (topic.changed or not only_topics):
            click.echo(_topic_line(topic))
        if not only_topics:
            for partition in _shown_partitions(topic, options):
                click.echo(_partition_line(topic.name, partition))


def _alter(admin: TopicAdmin, options: dict[str, Any]) -> None:
    names = _matching(admin, options)
    _expect(names, options)
    settings = dict(map(parse_assignment, options["config"]))
    reset = options["delete_config"]
    if settings or reset:
        notice("Note: topic settings are now changed by: strom topics alter TOPIC NAME=VALUE")
    for name in names:
        if settings or reset:
            admin.alter(name, settings, reset)
            click.echo(f"Updated config for topic {name}.")
        if options["partitions"]:
            admin.add_partitions(name, options["partitions"])


def _delete(admin: TopicAdmin, options: dict[str, Any]) -> None:
    names = _matching(admin, options | {"exclude_internal": True})
    _expect(names, options)
    for name in names:
        admin.delete(name)


_RUN = {
    "list": _list,
    "describe": _describe,
    "create": _create,
    "alter": _alter,
    "delete": _delete,
}


def _matching(admin: TopicAdmin, options: dict[str, Any]) -> list[str]:
    """The topics that the pattern of --topic fits, or all."""
    names = [
        name for name in admin.names() if not (options["exclude_internal"] and is_internal(name))
    ]
    if options["topic"] is None:
        return names
    pattern = topic_pattern(options["topic"])
    return [name for name in names if pattern.fullmatch(name)]


def topic_pattern(text: str) -> UserPattern:
    """A pattern as Kafka reads it: commas stand for `or`, quotes around it are dropped."""
    try:
        return compile_pattern(text.strip().strip("\"'").replace(",", "|").replace(" ", ""))
    except ValueError as error:
        raise UserError(f"{text!r} is not a regular expression: {error}.") from None


def _expect(names: list[str], options: dict[str, Any]) -> None:
    if options["topic"] is not None and not names and not options["if_exists"]:
        raise UserError(f"Topic '{options['topic']}' does not exist as expected")


def _assignment(text: str | None) -> list[list[int]] | None:
    if text is None:
        return None
    try:
        return [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise UserError(f"{text!r} is no replica assignment, such as 1:2,2:3.") from None


def _topic_line(topic: TopicDescription) -> str:
    settings = ",".join(f"{name}={value}" for name, value in topic.changed.items())
    return (
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {topic.replication_factor}\tConfigs: {settings}"
    )


def _shown_partitions(topic: TopicDescription, options: dict[str, Any]) -> Iterator[Partition]:
    for partition in topic.partitions:
        behind = len(partition.in_sync) < len(partition.replicas)
        if options["under_replicated_partitions"] and not behind:
            continue
        if options["unavailable_partitions"] and partition.leader is not None:
            continue
        yield partition


def _partition_line(topic: str, partition: Partition) -> str:
    # librdkafka cannot ask for the eligible leader replicas. While all replicas are in sync there
    # are none; otherwise Kafka's own tool says N/A too when a broker does not tell.
    eligible = "" if len(partition.in_sync) == len(partition.replicas) else "N/A"
    leader = "none" if partition.leader is None else partition.leader
    return (
        f"\tTopic: {topic}\tPartition: {partition.number}\tLeader: {leader}\t"
        f"Replicas: {','.join(map(str, partition.replicas))}\t"
        f"Isr: {','.join(map(str, partition.in_sync))}\tElr: {eligible}\tLastKnownElr: {eligible}"
    )
