"""`strom demo --broker`: a broker, a million clicks in and out, and the rates."""

import json
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from strom.cli.clicks import invent_clicks
from strom.cli.connection import CliConnection
from strom.cli.printing import human_bytes, human_count, print_table
from strom.cli.progress import progress_bar
from strom.cli.throughput import BulkProducer, consume_all
from strom.client.connection_settings import ConnectionSettings
from strom.client.topics import TopicAdmin
from strom.model.errors import UserError

if TYPE_CHECKING:
    from confluent_kafka import Message

TOPIC = "clicks"
PARTITIONS = 3
SHOWN_CLICKS = 3
SHOWN_PAGES = 5


def demonstrate_broker(records: int, keep: bool) -> None:
    """Start a broker, produce and consume clicks, and remove the broker with its data."""
    from strom.supervision.broker_process import BrokerProcess
    from strom.supervision.child_process import StartFailed

    click.echo("Starting a broker …")
    broker = BrokerProcess()
    try:
        broker.start()
    except StartFailed as error:
        raise UserError(str(error)) from None
    try:
        connection = CliConnection(ConnectionSettings(broker.bootstrap_servers))
        click.echo(f"It listens on {broker.bootstrap_servers}. Topic: {TOPIC}.\n")
        TopicAdmin(connection).create(TOPIC, partitions=PARTITIONS)
        run_demo(connection, records)
        _print_next_steps(broker.bootstrap_servers, keep)
        if keep:
            wait_for_interrupt()
    finally:
        broker.stop()


def run_demo(connection: CliConnection, records: int) -> None:
    """Produce and consume clicks; print some of them and the most visited pages."""
    producer = BulkProducer(connection, TOPIC, {})
    with progress_bar(records, "produce") as report:
        producer.send(invent_clicks(records), report)
    pages: Counter[str] = Counter()
    size: Counter[str] = Counter()
    first: list[bytes] = []

    def count_pages(batch: Sequence["Message"]) -> None:
        values = [message.value() for message in batch]
        pages.update(json.loads(value.decode())["page"] for value in values)
        size.update(values=sum(map(len, values)))
        if len(first) < SHOWN_CLICKS:
            first.extend(values[: SHOWN_CLICKS - len(first)])

    with progress_bar(records, "consume") as report:
        received, seconds = consume_all(connection, TOPIC, records, report, count_pages)
    if received != records:
        raise UserError(f"{records} clicks were produced, but {received} were consumed.")
    click.echo("\nSome clicks:")
    for value in first:
        click.echo(f"  {value.decode()}")
    click.echo("\nThe most visited pages:")
    print_table(("PAGE", "CLICKS"), pages.most_common(SHOWN_PAGES))
    click.echo(
        f"\nProduced {human_count(records)} clicks ({human_bytes(size['values'])}), each durable "
        f"before its acknowledgement: {human_count(records / producer.seconds)}/s\n"
        f"Consumed and counted them: {human_count(records / seconds)}/s"
    )


def _print_next_steps(servers: str, keep: bool) -> None:
    if keep:
        click.echo(
            f"\nThe broker is still running. In another terminal:\n"
            f"  strom topics describe {TOPIC} -b {servers}\n"
            f"  strom consume {TOPIC} -o -10 -b {servers}\n\nCtrl-C stops it."
        )
    else:
        click.echo(
            "\nStart your own broker: strom start\nThen, in another terminal:\n"
            f"  strom produce {TOPIC}\n  strom consume {TOPIC} --from-beginning"
        )


def wait_for_interrupt() -> None:
    """Wait for Ctrl-C or SIGTERM and return, so that the caller stops the broker cleanly."""
    ended = threading.Event()
    previous = {
        number: signal.signal(number, lambda *_: ended.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        # A bounded wait: on Windows, signals do not interrupt an unbounded one.
        while not ended.wait(1.0):
            pass
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
