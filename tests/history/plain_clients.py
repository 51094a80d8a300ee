"""Producers and consumers without groups and transactions, that write down what they do and see."""

import time
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from strom.client.transactional_producer import TransactionalProducer
from strom.testing.history import Outcome, Read, Recorder, Running, Send
from tests.history.workers import (
    PATIENCE_SECONDS,
    TOPIC,
    Worker,
    client_settings,
    key_of,
)

NEVER_SENT = frozenset({KafkaError._PURGE_QUEUE, KafkaError.MSG_SIZE_TOO_LARGE})
PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 1,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "delivery.timeout.ms": 60_000,
}
CONSUMER = {
    "group.id": "none",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 20,
    "check.crcs": True,
}


class Sender(Worker):
    """An idempotent producer: each record is an operation, and many are in flight at once."""

    burst = 5

    def __init__(
        self, name: str, recorder: Recorder, chance: Random, address: str, partitions: int
    ) -> None:
        super().__init__(name, recorder, chance)
        self._settings = client_settings(address, **PRODUCER)
        self._partitions = partitions
        self._producer = TransactionalProducer(self._settings)
        self._number = 0

    def turn(self) -> None:
        """Send a few records, to any partitions."""
        try:
            for _ in range(self.chance.randint(1, self.burst)):
                self._number += 1
                partition = self.chance.randrange(self._partitions)
                self._send(Send(key_of(partition), f"{self.name}-{self._number}"), partition)
            self._producer.poll(0)
        except KafkaException:
            # What was in flight keeps an unknown outcome.
            self._producer = TransactionalProducer(self._settings)
            self.begin_new_life()

    def finish(self) -> None:
        """Wait for the answers."""
        try:
            left = self._producer.flush(PATIENCE_SECONDS)
        except KafkaException:
            return
        assert left == 0, f"{self.name} waits for answers"

    def _send(self, send: Send, partition: int) -> None:
        running = self.recorder.begin(self.process, send)
        self._producer.produce(
            TOPIC,
            send.value,
            partition=partition,
            on_delivery=lambda error, message: note_answer(running, error, message),
        )


def note_answer(running: Running, error: Any, message: Any) -> None:
    """A delivery report of a send that is an operation of its own."""
    if error is None:
        (send,) = running.operation.sends
        running.end(Outcome.OK, [send._replace(offset=told_offset(message))])
    else:
        failed = error.code() in NEVER_SENT
        running.end(Outcome.FAILED if failed else Outcome.UNKNOWN)


def told_offset(message: Any) -> int | None:
    """The offset in a delivery report; None if the broker only knew that it has the record."""
    offset: int = message.offset()
    return offset if offset >= 0 else None


class Reader(Worker):
    """A consumer that chooses its partitions and places by hand."""

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        chance: Random,
        address: str,
        partitions: int,
        *,
        seeks: bool = True,
    ) -> None:
        super().__init__(name, recorder, chance)
        self._partitions = partitions
        self._seeks = seeks
        self._consumer = Consumer(client_settings(address, **CONSUMER))
        self._read = 0
        self._assign(dict.fromkeys(range(partitions), 0))

    def turn(self) -> None:
        """Poll, or now and then begin again somewhere else."""
        if self._seeks and self.chance.random() < 0.02:
            some = self.chance.sample(
                range(self._partitions), self.chance.randint(1, self._partitions)
            )
            self._assign({partition: self.chance.randint(0, self._read) for partition in some})
            return
        running = self.recorder.begin(self.process)
        reads = poll(self._consumer, self.chance.randint(1, 50), 0.05)
        running.end(Outcome.OK, reads)
        self._read = max([self._read, *(read.offset for read in reads)])

    def finish(self) -> None:
        """Go."""
        self._consumer.close()

    def _assign(self, places: dict[int, int]) -> None:
        places_wanted = [TopicPartition(TOPIC, *place) for place in places.items()]
        self._consumer.assign(places_wanted)
        self.recorder.note(self.process, moved=map(key_of, range(self._partitions)))


def poll(consumer: Consumer, limit: int, seconds: float) -> list[Read]:
    """What a poll returns, without its complaints."""
    return [
        Read(key_of(message.partition(), message.topic()), message.offset(), value_of(message))
        for message in consumer.consume(limit, seconds)
        if message.error() is None
    ]


def value_of(message: Any) -> str:
    """A record's value; what cannot be one of ours is shown as it is."""
    value: bytes = message.value() or b""
    return value.decode(errors="backslashreplace")


def read_everything(
    recorder: Recorder,
    address: str,
    partitions: int,
    *,
    topic: str = TOPIC,
    process: str = "judge",
    seconds: float = PATIENCE_SECONDS,
) -> None:
    """Read all that is committed, from the beginning to the end, as the last word of a history."""
    settings = {**CONSUMER, "enable.partition.eof": True}
    consumer = Consumer(client_settings(address, **settings))
    left = set(range(partitions))
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline:
            running = recorder.begin(process)
            messages = consumer.consume(1000, 0.2)
            reads = []
            for message in messages:
                error = message.error()
                if error is None:
                    key = key_of(message.partition(), topic)
                    reads.append(Read(key, message.offset(), value_of(message)))
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
            running.end(Outcome.OK, reads)
    finally:
        consumer.close()
    assert not left, f"the end of {sorted(left)} was not reached"
