"""Produces and consumes many records at full speed, for `bench` and `demo`."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from strom.cli.connection import CliConnection
from strom.cli.progress import Report
from strom.cli.reading import AssignedReader, Limits, ResolvedRange, partitions_of, read
from strom.cli.sending import RecordSender

if TYPE_CHECKING:
    from confluent_kafka import Message

# Large batches, and queues deep enough that the broker never waits for the client.
FAST_PRODUCER = {
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 500_000,
}
FAST_CONSUMER = {
    "fetch.queue.backoff.ms": 0,
    "queued.min.messages": 500_000,
    "queued.max.messages.kbytes": 131_072,
    "auto.offset.reset": "earliest",
}
IDLE_MS = 30_000

KeyAndValue = tuple[bytes | None, bytes]


class BulkProducer:
    """Sends chunks of records; `seconds` sums up the times until their last acknowledgements."""

    def __init__(self, connection: CliConnection, topic: str, settings: Mapping[str, Any]) -> None:
        self._sender = RecordSender(connection, topic, {**FAST_PRODUCER, **settings})
        self.seconds = 0.0

    def warm_up(self, value: bytes) -> None:
        """Send one record without timing it: connecting and InitProducerId take a while."""
        self._sender.send_all([(None, value)])
        self._sender.finish()

    def send(self, chunks: Iterable[Sequence[KeyAndValue]], report: Report) -> None:
        """Send all chunks, each acknowledged before the next, so that making them is not timed."""
        done = 0
        for chunk in chunks:
            started = time.perf_counter()
            self._sender.send_all(chunk)
            self._sender.finish()
            self.seconds += time.perf_counter() - started
            done += len(chunk)
            report(done)


def consume_all(
    connection: CliConnection,
    topic: str,
    count: int,
    report: Report,
    on_batch: Callable[[Sequence["Message"]], None] = lambda batch: None,
) -> tuple[int, float]:
    """Read `count` records from the start; returns the number received, and the seconds it took."""
    consumer = connection.consumer(FAST_CONSUMER)
    partitions = partitions_of(connection, consumer, [topic])
    received = 0
    started = time.perf_counter()
    reader = AssignedReader(
        consumer, {partition: ResolvedRange(0, None) for partition in partitions}
    )
    try:
        for batch in read(consumer, reader, Limits(max_messages=count, idle_ms=IDLE_MS)):
            on_batch(batch)
            received += len(batch)
            report(received)
        return received, time.perf_counter() - started
    finally:
        consumer.close()
