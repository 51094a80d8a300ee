"""Produces records, with back-pressure and delivery failures; reads lines from files or a terminal."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strom.cli.connection import CliConnection
from strom.cli.outgoing import OutgoingRecord
from strom.client.kafka_errors import kafka_reason
from strom.model.errors import UserError

if TYPE_CHECKING:
    from confluent_kafka import Producer


class RecordSender:
    """Sends records to one topic and keeps the reason of the first failure."""

    def __init__(self, connection: CliConnection, topic: str, settings: Mapping[str, Any]) -> None:
        # One callback for the producer: one for each record would cost more than the rest of sending.
        self._producer: Producer = connection.producer(settings, self._on_delivery)
        connection.metadata(self._producer)
        self._topic = topic
        self._failed = 0
        self._reason = ""
        self.sent = 0

    @property
    def delivered(self) -> int:
        """The number of acknowledged records; exact after `flush`."""
        return self.sent - self._failed

    def send(self, record: OutgoingRecord) -> None:
        """Queue a record; waits while the queue is full. UserError if an earlier delivery failed."""
        arguments: dict[str, Any] = {"value": record.value, "key": record.key}
        if record.headers:
            arguments["headers"] = record.headers
        if record.partition is not None:
            arguments["partition"] = record.partition
        if record.timestamp is not None:
            arguments["timestamp"] = record.timestamp
        while True:
            try:
                self._producer.produce(self._topic, **arguments)
                break
            except BufferError:
                self._wait_for_room()
        self.sent += 1
        self._producer.poll(0)
        self.check()

    def send_all(self, records: Iterable[tuple[bytes | None, bytes]]) -> None:
        """Queue many (key, value) pairs; faster than `send`."""
        produce, topic = self._producer.produce, self._topic
        for key, value in records:
            while True:
                try:
                    produce(topic, value, key)
                    break
                except BufferError:
                    self._wait_for_room()
            self.sent += 1

    def _wait_for_room(self) -> None:
        self._producer.poll(0.1)
        self.check()

    def flush(self) -> None:
        """Wait until every record is acknowledged or has failed."""
        # In slices, so that Ctrl-C can interrupt it.
        while self._producer.flush(0.2):
            pass

    def check(self) -> None:
        """Raise UserError if a delivery failed."""
        if self._failed:
            raise UserError(
                f"{self._failed} of {self.sent} records could not be delivered to "
                f"{self._topic}: {self._reason}"
            )

    def finish(self) -> None:
        """Flush, and raise UserError if a delivery failed."""
        self.flush()
        self.check()

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is None:
            return
        self._failed += 1
        self._reason = self._reason or kafka_reason(error)


def read_lines(files: Iterable[Path], prompt: str | None = None) -> Iterator[bytes]:
    """Lines without their ends, from files or standard input; `prompt` is for a terminal."""
    names = list(files)
    if names:
        for name in names:
            with name.open("rb") as file:
                yield from map(_without_end, file)
    elif prompt is not None:
        yield from _prompted(prompt)
    else:
        yield from map(_without_end, sys.stdin.buffer)


def _prompted(prompt: str) -> Iterator[bytes]:
    while True:
        sys.stdout.write(prompt)
        sys.stdout.flush()
        line = sys.stdin.buffer.readline()
        if not line:
            sys.stdout.write("\n")
            return
        yield _without_end(line)


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")
