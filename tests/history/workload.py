"""Clients of all kinds work with one broker while it suffers; the history of it all is the result."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing.history import Operation, Recorder
from tests.history.group_members import Asker, Member, commit_beginnings
from tests.history.plain_clients import CONSUMER, Reader, Sender, read_everything
from tests.history.transactors import Transactor
from tests.history.workers import PATIENCE_SECONDS, TOPIC, Worker, client_settings

PARTITIONS = 3
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.flush.offset.checkpoint.interval.ms": "200",
}


@dataclass
class Workload:
    """The clients of a broker, and the book they write."""

    address: str
    chance: Random
    recorder: Recorder = field(default_factory=lambda: Recorder(now=time.monotonic_ns))
    partitions: int = PARTITIONS
    workers: list[Worker] = field(default_factory=list)

    def create_topic(self, name: str = TOPIC, partitions: int | None = None) -> None:
        """The topic that all clients use."""
        admin = AdminClient(client_settings(self.address))
        count = partitions or self.partitions
        admin.create_topics([NewTopic(name, count)])[name].result(PATIENCE_SECONDS)

    def add_plain_clients(self, senders: int = 2, readers: int = 2) -> None:
        """Producers, and consumers that choose their partitions by hand; the first only reads on."""
        place = (self.recorder, self.chance, self.address, self.partitions)
        self.workers += [Sender(f"sender{number}", *place) for number in range(senders)]
        self.workers += [
            Reader(f"reader{number}", *place, seeks=number > 0) for number in range(readers)
        ]

    def add_members(self, count: int = 2) -> None:
        """Consumers that share the topic as a group, and a client that watches its offsets."""
        commit_beginnings(self.recorder, self.address, self.partitions)
        place = (self.recorder, self.chance, self.address)
        self.workers += [Member(f"member{number}", *place) for number in range(count)]
        self.workers.append(Asker("asker", *place, self.partitions))

    def add_transactors(self, count: int = 2) -> None:
        """Transactional producers, which also read and commit offsets."""
        place = (self.recorder, self.chance, self.address, self.partitions)
        self.workers += [Transactor(f"transactor{number}", *place) for number in range(count)]

    def stop_all(self) -> list[BaseException]:
        """Have all clients finish; what went wrong."""
        problems: list[BaseException] = []
        for worker in self.workers:
            worker.ask_to_stop()
        for worker in self.workers:
            try:
                worker.stop()
            except BaseException as problem:  # noqa: BLE001 - all must be stopped first
                problems.append(problem)
        return problems

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """All clients work; afterwards all have stopped, and what went wrong is raised."""
        for worker in self.workers:
            worker.start()
        try:
            yield
        finally:
            problems = self.stop_all()
        if problems:
            raise problems[0]

    def wait_for_turns(self, turns: int) -> None:
        """Return when every worker has done so many more turns."""
        goals = [worker.turns + turns for worker in self.workers]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(worker.turns < goal for worker, goal in zip(self.workers, goals, strict=True)):
            for worker in self.workers:
                if worker.problem is not None:
                    raise worker.problem
            assert time.monotonic() < deadline, "nothing happens any more"
            time.sleep(0.005)

    def ends(self) -> dict[int, int]:
        """Where each partition that holds anything ends."""
        consumer = Consumer(client_settings(self.address, **CONSUMER))
        try:
            ends = {
                partition: consumer.get_watermark_offsets(
                    TopicPartition(TOPIC, partition), timeout=PATIENCE_SECONDS
                )[1]
                for partition in range(self.partitions)
            }
        finally:
            consumer.close()
        return {partition: end for partition, end in ends.items() if end}

    def finish(self) -> list[Operation]:
        """Read all that is there; the whole history."""
        read_everything(self.recorder, self.address, self.partitions)
        return self.recorder.history()
