"""`strom produce`: send lines to a topic as records."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click

from strom.cli.connection import CliConnection, connection_options
from strom.cli.options import EXISTING_FILE, acks_option, assignments_option, codec_option
from strom.cli.outgoing import Headers, LineFormat, LineReader, OutgoingRecord, read_json_line
from strom.cli.printing import human_count, notice
from strom.cli.progress import progress_bar
from strom.cli.sending import RecordSender, read_lines
from strom.client.client_properties import parse_assignment
from strom.client.kafka_errors import kafka_exceptions, kafka_reason
from strom.model.errors import UserError


@click.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=EXISTING_FILE, metavar="[FILE]...")
@click.option(
    "-k",
    "--key-separator",
    metavar="TEXT",
    help="Split each line at the first TEXT into key and value; \\t is a tab.",
)
@click.option(
    "-f",
    "--format",
    "line_format",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help='The form of a line: a value, or a JSON object {"key", "value", "headers", "partition", '
    '"timestamp"}.',
)
@assignments_option("-H", "--header", "headers", doc="A header for every record.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Send all to this partition.")
@codec_option
@acks_option
@click.option("-q", "--quiet", is_flag=True, help="Print no summary.")
@connection_options
def produce(
    topic: str,
    files: tuple[Path, ...],
    key_separator: str | None,
    line_format: str,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str,
    acks: str,
    quiet: bool,
    connection: CliConnection,
) -> None:
    """Send lines to a topic.

    Reads standard input or the FILEs, one record per line.
    """
    read = _reader(key_separator, line_format)
    extra: Headers = [(name, value.encode()) for name, value in map(parse_assignment, headers)]
    interactive = not files and sys.stdin.isatty()
    settings = {
        "compression.type": compression,
        "acks": acks,
        # Interactive lines are sent at once; a file is sent in large batches.
        "linger.ms": 0 if interactive else 20,
    }
    sender = RecordSender(connection, topic, settings)
    started = time.monotonic()
    lines = read_lines(files, prompt=">" if interactive else None)
    with (
        _reported(sender, topic, started, quiet),
        progress_bar(None, "records", not interactive) as count,
    ):
        for number, line in enumerate(lines, 1):
            with numbered_line(number):
                sender.send(_completed(read(line), extra, partition))
            if interactive:
                sender.finish()
            count(sender.sent)
        sender.finish()


def _reader(key_separator: str | None, line_format: str) -> LineReader:
    if line_format == "json":
        if key_separator is not None:
            raise click.UsageError("--key-separator requires --format lines.")
        return read_json_line
    if key_separator is None:
        return LineFormat().read
    separator = key_separator.replace("\\t", "\t")
    if not separator:
        raise click.UsageError("--key-separator must not be empty.")
    return LineFormat(parse_key=True, key_separator=separator).read


@contextmanager
def numbered_line(number: int) -> Iterator[None]:
    """Prefix the error of a line that cannot be parsed or produced with its number."""
    try:
        yield
    except UserError as error:
        raise UserError(f"Line {number}: {error}") from None
    except kafka_exceptions() as error:
        raise UserError(f"Line {number}: {kafka_reason(error)}") from None


def _completed(record: OutgoingRecord, extra: Headers, partition: int | None) -> OutgoingRecord:
    if not extra and partition is None:
        return record
    where = record.partition if partition is None else partition
    return replace(record, headers=[*record.headers, *extra], partition=where)


@contextmanager
def _reported(sender: RecordSender, topic: str, started: float, quiet: bool) -> Iterator[None]:
    """Flush and print a summary, even after an error or Ctrl-C."""
    try:
        yield
    finally:
        sender.flush()
        if not quiet:
            seconds = time.monotonic() - started
            # The rate of a short run is meaningless.
            rate = f" ({human_count(sender.delivered / seconds)}/s)" if seconds > 1 else ""
            plural = "" if sender.delivered == 1 else "s"
            notice(
                f"Produced {human_count(sender.delivered)} record{plural} to {topic} "
                f"in {seconds:.1f} s{rate}."
            )
