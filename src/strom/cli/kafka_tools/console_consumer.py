"""`strom kafka-console-consumer`: Kafka's console consumer."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strom.cli.connection import CliConnection
from strom.cli.consume import print_records
from strom.cli.kafka_tools.console_format import FORMATTER_PROPERTIES, ConsoleFormat
from strom.cli.kafka_tools.flags import properties_of, server_flags
from strom.cli.kafka_tools.topics import topic_pattern
from strom.cli.offsets import END, START, Anchor, OffsetRange, Point
from strom.cli.options import EXISTING_FILE, assignments_option
from strom.cli.printing import notice
from strom.cli.reading import (
    AssignedReader,
    GroupReader,
    Limits,
    group_settings,
    partitions_of,
    resolve_ranges,
)
from strom.model.errors import UserError
from strom.model.topics import TopicPartition, is_internal

if TYPE_CHECKING:
    from confluent_kafka import Consumer


@click.command("kafka-console-consumer")
@click.option("--topic", help="The topic to read.")
@click.option("--include", "--whitelist", "include", help="A regular expression for topics.")
@click.option("--from-beginning", is_flag=True, help="Start with the earliest record.")
@click.option("--partition", type=click.IntRange(min=0), help="Read this partition only.")
@click.option("--offset", help="A number, 'earliest' or 'latest'; needs --partition.")
@click.option("--group", help="The consumer group to join.")
@click.option("--max-messages", type=int, help="Stop after so many records.")
@click.option("--timeout-ms", type=int, help="Stop when no record came for so long.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_uncommitted",
    help="Whether to leave out records of open and aborted transactions.",
)
@assignments_option(
    "--formatter-property",
    "--property",
    "formatter_properties",
    doc=f"How to print: {', '.join(FORMATTER_PROPERTIES)}.",
)
@click.option("--formatter-config", type=EXISTING_FILE, help="A file of formatter properties.")
@click.option("--formatter", help="Only the default formatter is here.")
@click.option("--key-deserializer", help="As --property key.deserializer=…")
@click.option("--value-deserializer", help="As --property value.deserializer=…")
@click.option("--skip-message-on-error", is_flag=True, help="Accepted.")
@server_flags(
    "--command-property",
    "--consumer-property",
    config_flags=("--command-config", "--consumer.config"),
)
def kafka_console_consumer(
    topic: str | None,
    include: str | None,
    from_beginning: bool,
    partition: int | None,
    offset: str | None,
    group: str | None,
    max_messages: int | None,
    timeout_ms: int | None,
    isolation_level: str,
    connection: CliConnection,
    **printing: Any,
) -> None:
    """Read a topic and write it to standard output."""
    _check_flags(topic, include, partition, offset, from_beginning)
    formatter = _console_format(**printing).formatter()
    wanted = OffsetRange(_begin(offset, from_beginning))
    limits = Limits(_no_limit_below_zero(max_messages), _no_limit_below_zero(timeout_ms))
    settings = {"isolation.level": isolation_level}
    group = group or connection.settings.properties.get("group.id")
    if group is not None and partition is None:
        consumer = connection.consumer(settings | group_settings(group, wanted.begin == START))
        connection.metadata(consumer)
        reader: AssignedReader | GroupReader = GroupReader(consumer, [topic or f"^{include}"])
    else:
        consumer = connection.consumer(settings | {"auto.offset.reset": "earliest"})
        find = _finder(connection, consumer, topic, include, partition)
        found = find()
        if not found:
            notice(f"Note: there is no topic {topic or include} yet; waiting for it.")
        committed = isolation_level == "read_committed"
        ranges = resolve_ranges(connection, found, wanted, committed=committed)
        reader = AssignedReader(consumer, ranges, find)
    print_records(consumer, reader, formatter, limits, on_end=_print_total)


def _print_total(printed: int) -> None:
    notice(f"Processed a total of {printed} messages")


def _finder(
    connection: CliConnection,
    consumer: "Consumer",
    topic: str | None,
    include: str | None,
    partition: int | None,
) -> Callable[[], Sequence[TopicPartition]]:
    """A function that lists the partitions to read that exist at the moment."""
    pattern = topic_pattern(include) if include is not None else None

    def find() -> list[TopicPartition]:
        if pattern is None:
            names = [topic] if topic else []
        else:
            existing = connection.metadata(consumer).topics
            names = [
                name
                for name in sorted(existing)
                if pattern.fullmatch(name) and not is_internal(name)
            ]
        found = partitions_of(connection, consumer, names)
        return [tp for tp in found if partition is None or tp.partition == partition]

    return find


def _check_flags(
    topic: str | None,
    include: str | None,
    partition: int | None,
    offset: str | None,
    from_beginning: bool,
) -> None:
    if (topic is None) == (include is None):
        raise click.UsageError(
            "Exactly one of the following arguments is required: [topic], [include]."
        )
    if offset is not None and partition is None:
        raise click.UsageError("The partition is required when offset is specified.")
    if partition is not None and topic is None:
        raise click.UsageError("The topic is required when partition is specified.")
    if offset is not None and from_beginning:
        raise click.UsageError("from-beginning and offset cannot be specified together.")


def _begin(offset: str | None, from_beginning: bool) -> Point:
    if offset is None:
        return START if from_beginning else END
    if offset.lower() in {"earliest", "latest"}:
        return START if offset.lower() == "earliest" else END
    if not offset.isdigit():
        raise click.UsageError(
            f"The provided offset value '{offset}' is incorrect. Valid values are 'earliest', "
            "'latest', or a non-negative long."
        )
    return Point(Anchor.OFFSET, int(offset))


def _console_format(
    formatter_properties: tuple[str, ...],
    formatter_config: Path | None,
    formatter: str | None,
    key_deserializer: str | None,
    value_deserializer: str | None,
    skip_message_on_error: bool,
) -> ConsoleFormat:
    del skip_message_on_error  # every record can be printed as text
    if formatter is not None and not formatter.endswith("DefaultMessageFormatter"):
        raise UserError(f"There is no formatter {formatter} here, only the default one.")
    properties = properties_of(formatter_properties, formatter_config, FORMATTER_PROPERTIES)
    if key_deserializer is not None:
        properties.setdefault("key.deserializer", key_deserializer)
    if value_deserializer is not None:
        properties.setdefault("value.deserializer", value_deserializer)
    return ConsoleFormat(properties, terminal=sys.stdout.isatty())


def _no_limit_below_zero(number: int | None) -> int | None:
    """A negative number means no limit in Kafka's tools."""
    return None if number is None or number < 0 else number
