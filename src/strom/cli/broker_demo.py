"""`strom demo --broker`: a broker, a million clicks in and out, and the rates."""

import json
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from strom.cli.clicks import invent_clicks
from strom.cli.connection import Connection
from strom.cli.printing import human_bytes, human_count, print_table
from strom.cli.progress import towards
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
    """A broker takes and gives clicks; it and its data are gone afterwards."""
    from strom.supervision.broker_process import BrokerProcess
    from strom.supervision.child_process import StartFailed

    click.echo("Starting a broker …")
    broker = BrokerProcess()
    try:
        broker.start()
    except StartFailed as error:
        raise UserError(str(error)) from None
    try:
        connection = Connection(ConnectionSettings(broker.bootstrap_servers))
        click.echo(f"It listens at {broker.bootstrap_servers}. Topic: {TOPIC}.\n")
        TopicAdmin(connection).create(TOPIC, partitions=PARTITIONS)
        run_demo(connection, records)
        _tell_what_next(broker.bootstrap_servers, keep)
        if keep:
            wait_for_interrupt()
    finally:
        broker.stop()


def run_demo(connection: Connection, records: int) -> None:
    """Produce and consume clicks, show some of them and the most visited pages."""
    producer = BulkProducer(connection, TOPIC, {})
    with towards(records, "produce") as report:
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

    with towards(records, "consume") as report:
        received, seconds = consume_all(connection, TOPIC, records, report, count_pages)
    if received != records:
        raise UserError(f"{records} clicks were sent, but {received} came back.")
    click.echo("\nSome clicks:")
    for value in first:
        click.echo(f"  {value.decode()}")
    click.echo("\nThe most visited pages:")
    print_table(("PAGE", "CLICKS"), pages.most_common(SHOWN_PAGES))
    click.echo(
        f"\nProduced {human_count(records)} clicks ({human_bytes(size['values'])}), each on disk "
        f"before it was acknowledged: {human_count(records / producer.seconds)}/s\n"
        f"Consumed and counted them: {human_count(records / seconds)}/s"
    )


def _tell_what_next(servers: str, keep: bool) -> None:
    if keep:
        click.echo(
            f"\nThe broker is still there. In another terminal:\n"
            f"  strom topics describe {TOPIC} -b {servers}\n"
            f"  strom consume {TOPIC} -o -10 -b {servers}\n\nCtrl-C ends it."
        )
    else:
        click.echo(
            "\nNow your own broker: strom start\nThen, in another terminal:\n"
            f"  strom produce {TOPIC}\n  strom consume {TOPIC} --from-beginning"
        )


def wait_for_interrupt() -> None:
    """Sleep until Ctrl-C or SIGTERM, and then go on, so that the broker is ended properly."""
    ended = threading.Event()
    previous = {
        number: signal.signal(number, lambda *_: ended.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        # A bounded wait, for an unbounded one is deaf to signals on Windows.
        while not ended.wait(1.0):
            pass
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
