"""A program that copies a topic to another, exactly once: consume, transform, produce.

python -m tests.history.copier NAME HISTORY ADDRESS TRANSACTIONAL_ID RECORDS_IN_TRANSACTION
"""

import random
import sys
import time

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from strom.testing.history import Commit, Outcome, Read, Recorder, Send, Step
from tests.history.client_processes import StopWhenAsked, file_recorder
from tests.history.plain_clients import CONSUMER, told_offset, value_of
from tests.history.transactors import CALL_SECONDS, decide, new_producer
from tests.history.workers import PATIENCE_SECONDS, client_settings, key_of

INPUT, OUTPUT = "orders", "invoices"
GROUP = "copiers"
GATHER_SECONDS = 0.2
WORK_SECONDS = 0.2
"""Up to so much time a transaction takes before it is committed, so that kills meet some in flight."""
SESSION_MS = 2000
SETTINGS = {
    **CONSUMER,
    "group.id": GROUP,
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": 200,
    "partition.assignment.strategy": "range",
}


def transformed(value: str) -> str:
    """What becomes of a record."""
    return value.replace("order", "invoice")


class Copier:
    """Reads some, writes what becomes of them, and commits both together."""

    def __init__(
        self, name: str, recorder: Recorder, address: str, transactional_id: str, size: int
    ) -> None:
        self._name = name
        self._recorder = recorder
        self._address = address
        self._id = transactional_id
        self._size = size
        self._life = 1
        self._producer = new_producer(address, transactional_id)
        self._gathered: dict[int, list[Message]] = {}
        self._moved: set[str] = set()
        self._consumer = Consumer(client_settings(address, **SETTINGS))
        self._consumer.subscribe(
            [INPUT], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def run(self, stop: StopWhenAsked) -> None:
        """Copy until stopped."""
        while not stop:
            if self._gather():
                self._copy()
        self._consumer.close()

    def _gather(self) -> bool:
        """Take records one by one, so that none is left over from before a rebalance."""
        deadline = time.monotonic() + GATHER_SECONDS
        count = 0
        while count < self._size and (left := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(left)
            if message is not None and message.error() is None:
                self._gathered.setdefault(message.partition(), []).append(message)
            count = sum(map(len, self._gathered.values()))
        return count > 0

    def _copy(self) -> None:
        gathered, self._gathered = self._gathered, {}
        moved, self._moved = self._moved, set()
        running = self._recorder.begin(f"{self._name}.{self._life}", *_planned(gathered))
        sent: list[Send] = []
        try:
            self._producer.begin_transaction()
            self._send(gathered, sent)
            time.sleep(random.uniform(0, WORK_SECONDS))
            offsets = [
                TopicPartition(INPUT, partition, messages[-1].offset() + 1)
                for partition, messages in gathered.items()
            ]
            self._producer.send_offsets_to_transaction(
                offsets, self._consumer.consumer_group_metadata(), CALL_SECONDS
            )
            outcome, is_usable = decide(self._producer, commit=True)
        except KafkaException:
            outcome, is_usable = decide(self._producer, commit=False)
        steps = [step for step in running.operation.steps if not isinstance(step, Send)]
        running.end(outcome, [*steps, *sent], moved=moved)
        if not is_usable:
            self._life += 1
            self._producer = new_producer(self._address, self._id)
        if outcome is not Outcome.OK:
            self._rewind()

    def _send(self, gathered: dict[int, list[Message]], sent: list[Send]) -> None:
        def note(partition, value):
            place = len(sent)
            sent.append(Send(key_of(partition, OUTPUT), value))

            def delivered(error, message):
                if error is None:
                    sent[place] = sent[place]._replace(offset=told_offset(message))

            return delivered

        for partition, messages in gathered.items():
            for message in messages:
                value = transformed(value_of(message))
                delivered = note(partition, value)
                self._producer.produce(OUTPUT, value, partition=partition, on_delivery=delivered)
        self._producer.flush(CALL_SECONDS)

    def _rewind(self) -> None:
        """Nothing was copied: begin again where the last transaction that was committed ended."""
        self._gathered.clear()
        places = self._consumer.assignment()
        self._moved |= {key_of(one.partition, INPUT) for one in places}
        if not places:
            return
        for place in self._committed(places):
            place.offset = max(place.offset, 0)
            try:
                self._consumer.seek(place)
            except KafkaException:  # it was taken away meanwhile
                continue

    def _committed(self, places: list[TopicPartition]) -> list[TopicPartition]:
        while True:
            try:
                told: list[TopicPartition] = self._consumer.committed(
                    places, timeout=PATIENCE_SECONDS
                )
            except KafkaException:
                continue
            if all(one.error is None for one in told):
                return told

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._moved |= {key_of(one.partition, INPUT) for one in partitions}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._moved.add(key_of(one.partition, INPUT))
            self._gathered.pop(one.partition, None)


def _planned(gathered: dict[int, list[Message]]) -> list[Step]:
    """All that a transaction is about to do, in case its end is never seen."""
    steps: list[Step] = []
    for partition, messages in gathered.items():
        key, output = key_of(partition, INPUT), key_of(partition, OUTPUT)
        values = [value_of(message) for message in messages]
        steps += [
            Read(key, message.offset(), value)
            for message, value in zip(messages, values, strict=True)
        ]
        steps += [Send(output, transformed(value)) for value in values]
        steps.append(Commit(GROUP, key, messages[-1].offset() + 1))
    return steps


def main() -> None:
    """Run until SIGTERM."""
    name, path, address, transactional_id, size = sys.argv[1:]
    stop = StopWhenAsked()
    Copier(name, file_recorder(path), address, transactional_id, int(size)).run(stop)


if __name__ == "__main__":
    main()
