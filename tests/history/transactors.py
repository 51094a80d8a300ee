"""Transactional producers that read, send and commit offsets, and are pushed aside by a successor."""

from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from strom.client.transactional_producer import TransactionalProducer
from strom.testing.history import Commit, OffsetFetch, Outcome, Recorder, Send, Step
from tests.history.plain_clients import CONSUMER, PRODUCER, poll, told_offset
from tests.history.workers import (
    PATIENCE_SECONDS,
    TOPIC,
    Worker,
    client_settings,
    key_of,
    partition_of,
)

ATTEMPTS = 30
CALL_SECONDS = 5.0
TRANSACTION_TIMEOUT_MS = 10_000


class Transaction:
    """What one transaction has done so far."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def send(self, producer: Producer, send: Send) -> None:
        """Send a record; its offset is added when the broker has acknowledged it."""
        place = len(self.steps)
        self.steps.append(send)

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                self.steps[place] = send._replace(offset=told_offset(message))

        producer.produce(TOPIC, send.value, partition=partition_of(send.key), on_delivery=delivered)


class Transactor(Worker):
    """Begins, does a few things, and commits or aborts, again and again."""

    def __init__(
        self, name: str, recorder: Recorder, chance: Random, address: str, partitions: int
    ) -> None:
        super().__init__(name, recorder, chance)
        self._address = address
        self._partitions = partitions
        self._number = 0
        self._group = f"group-of-{name}"
        settings = {**CONSUMER, "group.id": self._group}
        self._consumer = Consumer(client_settings(address, **settings))
        self._consumer.assign(
            [TopicPartition(TOPIC, partition, 0) for partition in range(partitions)]
        )
        self._positions: dict[str, int] = {}
        self._producer: Producer | None = None

    def turn(self) -> None:
        """One transaction."""
        if self._producer is None:
            self._producer = new_producer(self._address, self.name)
        running = self.recorder.begin(self.process)
        transaction, producer = Transaction(), self._producer
        commits = self.chance.random() < 0.7
        try:
            producer.begin_transaction()
            for _ in range(self.chance.randint(1, 4)):
                self._step(producer, transaction)
            producer.flush(CALL_SECONDS)
            if self.chance.random() < 0.2:
                self._be_pushed_aside(producer, transaction)
        except KafkaException:
            commits = False
        outcome, is_usable = decide(producer, commit=commits)
        running.end(outcome, transaction.steps)
        if self._producer is not producer or not is_usable:
            self._producer = self._producer if self._producer is not producer else None
            self.begin_new_life()
        if self.chance.random() < 0.5:
            self._ask()

    def finish(self) -> None:
        """Leave no transaction open."""
        self._producer = None
        new_producer(self._address, self.name)
        self._consumer.close()

    def _step(self, producer: Producer, transaction: Transaction) -> None:
        act = self.chance.random()
        if act < 0.6:
            self._send(producer, transaction)
        elif act < 0.8 or not self._positions:
            reads = poll(self._consumer, self.chance.randint(1, 20), 0.02)
            transaction.steps += reads
            self._positions |= {read.key: read.offset + 1 for read in reads}
        else:
            transaction.steps += [
                Commit(self._group, key, offset) for key, offset in self._positions.items()
            ]
            producer.send_offsets_to_transaction(
                [
                    TopicPartition(TOPIC, partition_of(key), offset)
                    for key, offset in self._positions.items()
                ],
                self._consumer.consumer_group_metadata(),
                CALL_SECONDS,
            )

    def _send(self, producer: Producer, transaction: Transaction) -> None:
        self._number += 1
        key = key_of(self.chance.randrange(self._partitions))
        transaction.send(producer, Send(key, f"{self.name}-{self._number}"))

    def _be_pushed_aside(self, producer: Producer, transaction: Transaction) -> None:
        """Another producer of the same name comes; this one does not know, and goes on."""
        self._producer = new_producer(self._address, self.name)
        self._send(producer, transaction)
        producer.flush(CALL_SECONDS)

    def _ask(self) -> None:
        running = self.recorder.begin(self.process)
        places = [TopicPartition(TOPIC, partition) for partition in range(self._partitions)]
        try:
            told = self._consumer.committed(places, timeout=PATIENCE_SECONDS)
        except KafkaException:
            running.end(Outcome.UNKNOWN)
            return
        running.end(
            Outcome.OK,
            [
                OffsetFetch(
                    self._group, key_of(one.partition), one.offset if one.offset >= 0 else None
                )
                for one in told
                if one.error is None
            ],
        )


def new_producer(address: str, transactional_id: str) -> Producer:
    """A producer that has taken the name over; what others had open under it is ended."""
    settings = {**PRODUCER, "transactional.id": transactional_id}
    settings["transaction.timeout.ms"] = TRANSACTION_TIMEOUT_MS
    settings["delivery.timeout.ms"] = TRANSACTION_TIMEOUT_MS
    producer = TransactionalProducer(client_settings(address, **settings))
    for _ in range(ATTEMPTS):
        try:
            producer.init_transactions(CALL_SECONDS)
        except KafkaException as problem:
            if not problem.args[0].retriable():
                raise
        else:
            return producer
    raise AssertionError(f"{transactional_id} cannot begin")


def decide(producer: Producer, *, commit: bool) -> tuple[Outcome, bool]:
    """Commit or abort, as often as it takes; what came of it, and whether the producer goes on."""
    asked_for_commit = False
    for _ in range(ATTEMPTS):
        try:
            if commit:
                asked_for_commit = True
                producer.commit_transaction(CALL_SECONDS)
                return Outcome.OK, True
            producer.abort_transaction(CALL_SECONDS)
            return Outcome.FAILED, True
        except KafkaException as problem:
            error = problem.args[0]
            if not error.fatal() and error.txn_requires_abort():
                commit = False
            elif error.fatal() or not error.retriable():
                break
    # Who has never asked for a commit knows at least that there is none.
    return Outcome.UNKNOWN if asked_for_commit else Outcome.FAILED, False
