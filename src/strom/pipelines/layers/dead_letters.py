"""Sends dead letters and waits for each acknowledgement, however large or many they are."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strom.client.factories import KafkaClients
from strom.pipelines.failures import TransientError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

DEFAULT_LIMIT = 1_000_000
"""librdkafka's `message.max.bytes`; Kafka's default for topics is a little more."""
FRAMING = 4_096
"""The overhead of a record batch beside key and value: its header, lengths, and our headers' names."""
REASON_CHARACTERS = 1_000
_POLL_S = 0.1


class DeadLettersRefused(TransientError):
    """Dead letters that the broker has not acknowledged: they must be sent again."""


@dataclass(frozen=True)
class DeadLetter:
    """A record that could not be read or computed, with its reason."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    reason: str
    view: str | None = None
    """The view that could not compute it; None if it is malformed for every view."""

    def headers(self, topic: str) -> dict[str, bytes]:
        """The record's origin and the reason."""
        headers = {
            "strom.reason": self.reason[:REASON_CHARACTERS].encode(errors="replace"),
            "strom.topic": topic.encode(),
            "strom.partition": str(self.partition).encode(),
            "strom.offset": str(self.offset).encode(),
        }
        return headers | ({"strom.view": self.view.encode()} if self.view else {})


def fitted(
    letter: DeadLetter, topic: str, limit: int
) -> tuple[bytes | None, bytes | None, dict[str, bytes]]:
    """Key, value and headers within the limit in bytes: the value is truncated first.

    A truncated letter has headers with the full lengths. Topic, partition and offset identify the record.
    """
    headers = letter.headers(topic)
    room = max(0, limit - FRAMING - sum(map(len, headers.values())))
    key, value = letter.key, letter.value
    if len(key or b"") + len(value or b"") <= room:
        return key, value, headers
    headers |= {"strom.truncated": b"true", "strom.value.bytes": str(len(value or b"")).encode()}
    if key is not None:
        headers["strom.key.bytes"] = str(len(key)).encode()
        key = key[: max(room // 2, room - len(value or b""))]
    if value is not None:
        value = value[: room - len(key or b"")]
    return key, value, headers


class DeadLetterProducer:
    """Sends letters and waits for their acknowledgements; the producer is recreated after a failure."""

    def __init__(self, clients: KafkaClients, limit: int, seconds: float) -> None:
        # The order of letters, and no letter twice, depend on it.
        self._producer = clients.reporting_producer(fixed={"enable.idempotence": True})
        properties = clients.settings.properties
        self._limit = min(limit, int(properties.get("message.max.bytes", DEFAULT_LIMIT)))
        self._seconds = seconds

    def send(self, topic: str, target: str, letters: Iterable[DeadLetter]) -> None:
        """Send letters, and wait until all are durable; DeadLettersRefused if one is not.

        `seconds` limits the time without any delivery report, not the whole: many letters take long. If
        the local queue is full, this waits for space.
        """
        from confluent_kafka import KafkaException

        reports = _Reports()
        sent = 0
        for letter in letters:
            key, value, headers = fitted(letter, topic, self._limit)
            while True:
                try:
                    self._producer.produce(
                        target,
                        value,
                        key,
                        headers=list(headers.items()),
                        on_delivery=reports.on_delivery,
                    )
                    break
                except BufferError:
                    self._wait(target, reports, lambda before=reports.count: reports.count > before)  # type: ignore[misc]
                except KafkaException as error:
                    self._give_up(target, error.args[0].str())
            sent += 1
            self._producer.poll(0)
            self._check(target, reports)
        self._wait(target, reports, lambda: reports.count == sent)

    def _wait(self, target: str, reports: "_Reports", done: Callable[[], bool]) -> None:
        """Serve delivery reports until `done`, as long as there is progress."""
        seen, deadline = reports.count, time.monotonic() + self._seconds
        while not done():
            self._producer.poll(_POLL_S)
            self._check(target, reports)
            if reports.count > seen:
                seen, deadline = reports.count, time.monotonic() + self._seconds
            elif time.monotonic() > deadline:
                self._give_up(target, f"no response within {self._seconds:g} s")
        self._check(target, reports)

    def _check(self, target: str, reports: "_Reports") -> None:
        if reports.refused is not None:
            self._give_up(target, reports.refused)

    def _give_up(self, target: str, reason: str) -> None:
        self._producer.purge()  # these letters are sent again by a new producer
        raise DeadLettersRefused(f"Dead letters could not be written to topic {target}: {reason}.")


class _Reports:
    """The delivery reports so far."""

    def __init__(self) -> None:
        self.count = 0
        self.refused: str | None = None

    def on_delivery(self, error: "KafkaError | None", message: "Message") -> None:
        """Count a report, and keep the first error."""
        self.count += 1
        if error is not None and self.refused is None:
            self.refused = error.str()
