"""Consume, transform, produce, while brokers and copiers are killed: the output is exactly the input."""

import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from strom.testing import BrokerProcess
from strom.testing.history import Outcome, Recorder, Send, check_history
from tests.history.client_processes import ClientProcess, read_histories
from tests.history.copier import GROUP, INPUT, OUTPUT, transformed
from tests.history.plain_clients import CONSUMER, PRODUCER, note_answer, read_everything
from tests.history.workers import client_settings, key_of
from tests.history.workload import SETTINGS, Workload

PARTITIONS = 3
COPIERS = 2
BROKER = {
    **SETTINGS,
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class CopyRun:
    """A broker, copiers that come back whenever they were killed, and the records to be copied."""

    def __init__(self, server: BrokerProcess, chance: Random, folder: Path, size: int) -> None:
        self.kills = 0
        self._size = size
        self._server = server
        self._chance = chance
        self._folder = folder
        self._recorder = Recorder(now=time.monotonic_ns)
        settings = {**CONSUMER, "group.id": GROUP}
        self._asker = Consumer(client_settings(server.bootstrap_servers, **settings))
        self._copiers: dict[int, ClientProcess] = {}
        self._lives = 0
        self.workload = Workload(server.bootstrap_servers, chance, self._recorder, PARTITIONS)

    def fill(self, records: int) -> None:
        """Write the input."""
        producer = Producer(client_settings(self._server.bootstrap_servers, **PRODUCER))
        for number in range(records):
            partition = number % PARTITIONS
            running = self._recorder.begin(
                "filler", Send(key_of(partition, INPUT), f"order-{number}")
            )
            producer.produce(
                INPUT,
                f"order-{number}",
                partition=partition,
                on_delivery=lambda error, message, to=running: note_answer(to, error, message),
            )
            producer.poll(0)
        assert producer.flush(60) == 0

    def start_copier(self, number: int) -> None:
        """Start a copier, or its successor."""
        self._lives += 1
        self._copiers[number] = ClientProcess(
            "tests.history.copier",
            f"copier{number}.{self._lives}",
            self._folder,
            self._server.bootstrap_servers,
            f"copier{number}",
            str(self._size),
        )

    def kill_something(self) -> None:
        """kill -9 of the broker or of a copier, which then comes back."""
        self.kills += 1
        if self._chance.random() < 0.5:
            self._server.kill()
            self._server.start()
        else:
            number = self._chance.choice(sorted(self._copiers))
            self._copiers[number].kill()
            self.start_copier(number)

    def check_copiers(self) -> None:
        """A copier that ended by itself has failed."""
        for copier in self._copiers.values():
            assert copier.is_running, copier.words

    def stop(self) -> None:
        """Let the copiers finish."""
        for copier in self._copiers.values():
            copier.ask_to_stop()
        for copier in self._copiers.values():
            copier.wait()

    def kill_all(self) -> None:
        """Leave nothing behind."""
        for copier in self._copiers.values():
            copier.kill()

    def copied(self) -> int:
        """How many records the group has copied, as the broker says."""
        places = [TopicPartition(INPUT, partition) for partition in range(PARTITIONS)]
        try:
            told = self._asker.committed(places, timeout=5)
        except KafkaException:
            return 0
        return sum(max(one.offset, 0) for one in told)

    def history(self):
        """All that was written down, and at the end all that is there."""
        for topic in (INPUT, OUTPUT):
            read_everything(self._recorder, self._server.bootstrap_servers, PARTITIONS, topic=topic)
        return [*self._recorder.history(), *read_histories(self._folder)]


def run(
    chance: Random, folder: Path, *, records: int, size: int, kills: int, seconds: float
) -> None:
    """Copy all records in transactions of a size, with kills spread over the whole way."""
    with BrokerProcess(settings=BROKER) as server:
        copying = CopyRun(server, chance, folder, size)
        for topic in (INPUT, OUTPUT):
            copying.workload.create_topic(topic)
        copying.fill(records)
        began = time.monotonic()
        for number in range(COPIERS):
            copying.start_copier(number)
        try:
            while (done := copying.copied()) < records:
                assert time.monotonic() - began < seconds, f"{done} of {records} were copied"
                copying.check_copiers()
                if done > copying.kills * records / (kills + 1):
                    time.sleep(chance.uniform(0, 0.2))
                    copying.kill_something()
                else:
                    time.sleep(0.02)
            took = time.monotonic() - began
            copying.stop()
        finally:
            copying.kill_all()
        history = copying.history()
        assert "Traceback" not in server.words(), server.words()
    output = {
        partition: [
            read.value
            for operation in history
            if operation.process == "judge"
            for read in operation.reads
            if read.key == key_of(partition, OUTPUT)
        ]
        for partition in range(PARTITIONS)
    }
    wanted = {
        partition: [transformed(f"order-{n}") for n in range(partition, records, PARTITIONS)]
        for partition in range(PARTITIONS)
    }
    verdict = check_history(history)
    outcomes = Counter(one.outcome for one in history if one.process.startswith("copier"))
    told = ", ".join(f"{outcomes[outcome]} {outcome.value}" for outcome in Outcome)
    print(f"transactions: {told}")
    print(
        f"{records} records, {copying.kills} kills, {took:.0f} s, {verdict.operations} operations"
    )
    verdict.raise_if_wrong()
    assert output == wanted


@pytest.mark.slow
def test_the_output_is_exactly_the_input(chance, tmp_path):
    run(chance, tmp_path, records=6_000, size=150, kills=4, seconds=90)


@pytest.mark.soak
def test_the_output_of_a_hundred_thousand_records_is_exactly_the_input(chance, tmp_path):
    run(chance, tmp_path, records=100_000, size=750, kills=40, seconds=600)
