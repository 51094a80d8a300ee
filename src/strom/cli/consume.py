"""`strom consume`: print the records of topics."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from strom.cli.connection import CliConnection, connection_options
from strom.cli.offsets import END, EXAMPLES, START, Anchor, OffsetRange, parse_offset_range
from strom.cli.printing import notice, write_bytes
from strom.cli.reading import (
    AssignedReader,
    GroupReader,
    Limits,
    ResolvedRange,
    group_settings,
    partitions_of,
    read,
    resolve_ranges,
)
from strom.cli.record_format import Formatter, format_json, template_formatter, value_formatter
from strom.cli.topics import missing_topic
from strom.model.errors import UserError
from strom.model.topics import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer

READ_ONLY = {"enable.partition.eof": "true", "auto.offset.reset": "earliest"}


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option("--from-beginning", is_flag=True, help="Start with the oldest record.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Read this partition only.")
@click.option("-o", "--offset", help=f"Where to start and end: {EXAMPLES}.")
@click.option(
    "-g", "--group", help="Read as a member of this consumer group, and commit what was printed."
)
@click.option(
    "-n", "--max-messages", type=click.IntRange(min=1), help="Stop after this many records."
)
@click.option(
    "--timeout-ms", type=click.IntRange(min=1), help="Stop after this time without a record."
)
@click.option(
    "-f",
    "--format",
    "record_format",
    default="value",
    show_default=True,
    help="value, json, or a template of %t topic, %p partition, %o offset, %k key, %v value, "
    "%h headers, %T timestamp, as in '%o %k=%v\\n'.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="Whether to skip records of open and aborted transactions.",
)
@connection_options
def consume(
    topics: tuple[str, ...],
    from_beginning: bool,
    partition: int | None,
    offset: str | None,
    group: str | None,
    max_messages: int | None,
    timeout_ms: int | None,
    record_format: str,
    as_json: bool,
    isolation_level: str,
    connection: CliConnection,
) -> None:
    """Print the records of topics.

    Without an offset, only records that arrive from now on. Ctrl-C stops.
    """
    formatter = choose_formatter("json" if as_json else record_format)
    wanted = _wanted_range(offset, from_beginning, group, partition)
    settings: dict[str, Any] = {"isolation.level": isolation_level}
    limits = Limits(max_messages, timeout_ms)
    if group is not None:
        consumer = connection.consumer(settings | group_settings(group, wanted.begin == START))
        _check_topics(connection, consumer, topics)
        print_records(consumer, GroupReader(consumer, topics), formatter, limits)
        return
    consumer = connection.consumer(settings | READ_ONLY)
    partitions = _check_topics(connection, consumer, topics)
    if partition is not None:
        partitions = _only(partition, partitions, topics)
    committed = isolation_level == "read_committed"
    ranges = resolve_ranges(connection, partitions, wanted, committed=committed)
    _report_moved_starts(ranges, wanted)
    discover = None
    if wanted.end is None and partition is None:
        discover = _discovery(connection, consumer, topics)
    if sys.stdout.isatty() and wanted == OffsetRange(END):
        notice("Waiting for new records (--from-beginning prints existing ones). Ctrl-C stops.")
    print_records(consumer, AssignedReader(consumer, ranges, discover), formatter, limits)


def print_records(
    consumer: "Consumer",
    reader: AssignedReader | GroupReader,
    formatter: Formatter,
    limits: Limits,
    on_end: Callable[[int], None] = lambda printed: None,
) -> None:
    """Write records to stdout as they arrive; `on_end` gets their number, however it ends."""
    printed = 0
    try:
        for batch in read(consumer, reader, limits):
            # Counted before writing: Ctrl-C may arrive as soon as the records are visible.
            printed += len(batch)
            write_bytes(b"".join(map(formatter, batch)))
    finally:
        consumer.close()
        on_end(printed)


def choose_formatter(record_format: str) -> Formatter:
    """The formatter for `value`, `json` or a template."""
    terminal = sys.stdout.isatty()
    if record_format == "value":
        return value_formatter(terminal=terminal)
    if record_format == "json":
        return format_json
    if "%" not in record_format:
        raise click.BadParameter(
            f"{record_format!r} is neither value nor json nor a template with % fields.",
            param_hint="--format",
        )
    try:
        return template_formatter(record_format, terminal=terminal)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


def _wanted_range(
    offset: str | None, from_beginning: bool, group: str | None, partition: int | None
) -> OffsetRange:
    if offset is None:
        wanted = OffsetRange(START if from_beginning else END)
    elif from_beginning:
        raise click.UsageError("Give --from-beginning or --offset, not both.")
    else:
        try:
            wanted = parse_offset_range(offset, time.time_ns() // 1_000_000)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--offset") from None
    if group is not None and partition is not None:
        raise click.UsageError("A group assigns the partitions to its members: omit --partition.")
    if group is not None and wanted not in (OffsetRange(START), OffsetRange(END)):
        raise click.UsageError("A group stores its offsets: with --group, only start and end.")
    return wanted


def _check_topics(
    connection: CliConnection, client: Any, topics: Sequence[str]
) -> list[TopicPartition]:
    partitions = partitions_of(connection, client, topics)
    found = {partition.topic for partition in partitions}
    for topic in topics:
        if topic not in found:
            raise missing_topic(topic, sorted(connection.metadata(client).topics))
    return partitions


def _only(
    number: int, partitions: Sequence[TopicPartition], topics: Sequence[str]
) -> list[TopicPartition]:
    for topic in topics:
        count = sum(partition.topic == topic for partition in partitions)
        if number >= count:
            raise UserError(f"Topic {topic} has no partition {number}, only 0 to {count - 1}.")
    return [partition for partition in partitions if partition.partition == number]


def _report_moved_starts(ranges: dict[TopicPartition, ResolvedRange], wanted: OffsetRange) -> None:
    """Report an offset that was deleted or does not exist yet, instead of silently moving it."""
    if wanted.begin.anchor is not Anchor.OFFSET:
        return
    for partition, resolved in ranges.items():
        if resolved.begin != wanted.begin.number:
            notice(
                f"{partition} has no offset {wanted.begin.number}: reading from {resolved.begin} on."
            )


def _discovery(
    connection: CliConnection, consumer: "Consumer", topics: Sequence[str]
) -> Callable[[], Sequence[TopicPartition]]:
    return lambda: partitions_of(connection, consumer, topics)
