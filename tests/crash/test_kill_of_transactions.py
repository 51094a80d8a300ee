"""kill -9 amid transactions: each counts wholly or not at all, so the output is exactly the input."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess

SOURCE, SINK = "orders", "paid"
PARTITIONS = 2
RECORDS = 4000
IN_ONE_TRANSACTION = 60
KILLS = 8
STEP_S = 5
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "200",
}


class Stuck(Exception):
    """A call of librdkafka that has not come back, long after its own timeout."""


def bounded(work: Callable[[], None]) -> None:
    """Do it in a thread that may be left behind.

    librdkafka 2.16 can lose the request with which it sends offsets to a transaction when the broker is
    killed just then, and waits for its answer for ever.
    """
    outcome: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
            outcome.put(error)
        else:
            outcome.put(None)

    threading.Thread(target=run, daemon=True).start()
    try:
        error = outcome.get(timeout=3 * STEP_S)
    except queue.Empty:
        raise Stuck from None
    if error is not None:
        raise error


class Copier:
    """Reads, transforms and writes in transactions, as Kafka's clients document it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.copied = 0
        self.aborted = 0
        self.producers = 0
        self._stuck: list[Producer] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "copier",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 200,
            }
        )
        # Its own partitions, not assigned by a group: only the offsets are the group's.
        self._places = [TopicPartition(SOURCE, index) for index in range(PARTITIONS)]
        self._producer = self._new_producer()
        self._rewind()

    def _new_producer(self) -> Producer:
        self.producers += 1
        producer = Producer(
            {
                "bootstrap.servers": self._address,
                "transactional.id": "copier",
                "transaction.timeout.ms": 20_000,
                "reconnect.backoff.max.ms": 200,
                "linger.ms": 1,
            }
        )
        self._retry(lambda: producer.init_transactions(STEP_S))
        return producer

    def _rewind(self) -> None:
        """Go on where the last committed transaction has got to."""
        while True:
            try:
                found = self._consumer.committed(self._places, timeout=STEP_S)
            except KafkaException:
                time.sleep(0.1)
                continue
            self._consumer.assign(
                [TopicPartition(one.topic, one.partition, max(one.offset, 0)) for one in found]
            )
            return

    def _retry(self, work: Callable[[], None]) -> None:
        while True:
            try:
                return work()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def copy_some(self) -> None:
        """One transaction, or what becomes of it."""
        messages = [
            message
            for message in self._consumer.consume(IN_ONE_TRANSACTION, 0.5)
            if message.error() is None
        ]
        if not messages:
            return
        try:
            self._copy(messages)
            self.copied += len(messages)
        except Stuck:
            self._stuck.append(self._producer)  # not to be closed: that would wait as well
            self._producer = self._new_producer()
            self._rewind()
        except KafkaException as error:
            self.aborted += 1
            if error.args[0].txn_requires_abort():
                try:
                    self._retry(lambda: self._producer.abort_transaction(STEP_S))
                except KafkaException:
                    self._producer = self._new_producer()
            else:
                self._producer = self._new_producer()
            self._rewind()

    def _copy(self, messages: list[Message]) -> None:
        producer = self._producer
        producer.begin_transaction()
        for message in messages:
            producer.produce(SINK, message.value(), partition=message.partition())
            producer.poll(0)
        positions = self._consumer.position(self._consumer.assignment())
        group = self._consumer.consumer_group_metadata()
        send = producer.send_offsets_to_transaction
        bounded(lambda: self._retry(lambda: send(positions, group, STEP_S)))
        self._retry(lambda: producer.commit_transaction(STEP_S))

    def is_done(self) -> bool:
        """Whether everything is committed."""
        try:
            found = self._consumer.committed(self._places, timeout=STEP_S)
        except KafkaException:
            return False
        return bool(sum(max(one.offset, 0) for one in found) == RECORDS)

    def close(self) -> None:
        self._consumer.close()


def fill(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(RECORDS):
        producer.produce(SOURCE, str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def read_committed(address: str) -> list[int]:
    """All committed records of the output; what is still open would not let it come to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(SINK, index, 0) for index in range(PARTITIONS)])
    found: list[int] = []
    ends, deadline = 0, time.monotonic() + 60
    while ends < PARTITIONS:
        assert time.monotonic() < deadline
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            found.append(int(message.value()))
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ends += 1
    for index in range(PARTITIONS):
        _, stable = consumer.get_watermark_offsets(TopicPartition(SINK, index), timeout=STEP_S)
        assert consumer.position([TopicPartition(SINK, index)])[0].offset == stable
    consumer.close()
    return found


@pytest.mark.slow
def test_the_output_is_exactly_the_input_over_kills(chance):
    with BrokerProcess(settings=SETTINGS) as server:
        address = server.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address})
        made = admin.create_topics([NewTopic(SOURCE, PARTITIONS), NewTopic(SINK, PARTITIONS)])
        for topic in made.values():
            topic.result(30)
        fill(address)
        copier = Copier(address)
        stop = threading.Event()
        kills = 0

        def kill_now_and_then() -> None:
            nonlocal kills
            while not stop.wait(chance.uniform(0.3, 1.5)) and kills < KILLS:
                server.kill()
                server.start()
                kills += 1

        killer = threading.Thread(target=kill_now_and_then)
        killer.start()
        try:
            deadline = time.monotonic() + 240
            while kills < KILLS or not copier.is_done():
                assert time.monotonic() < deadline, (copier.copied, kills)
                copier.copy_some()
        finally:
            stop.set()
            killer.join()
        copier.close()
        server.kill()
        server.start()
        counts = Counter(read_committed(address))
        assert set(counts.values()) == {1}, [one for one in counts if counts[one] > 1][:10]
        assert sorted(counts) == list(range(RECORDS))
        assert "Traceback" not in server.words()
