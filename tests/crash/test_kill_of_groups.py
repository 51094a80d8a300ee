"""kill -9 while groups commit: what was acknowledged is never taken back, and the group goes on."""

import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess

TOPIC = "clicks"
RECORDS = 2000
KILLS = 12
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "log.flush.offset.checkpoint.interval.ms": "200",
}


class Committer:
    """Commits ever higher offsets, and remembers what was acknowledged."""

    def __init__(self, address: str) -> None:
        self.acked = -1
        self.error: Exception | None = None
        self._consumer = Consumer(
            {"bootstrap.servers": address, "group.id": "hand", "enable.auto.commit": False}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Committer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        offset = 0
        while not self._stop.is_set():
            offset += 1
            try:
                places = [TopicPartition(TOPIC, 0, offset)]
                (done,) = self._consumer.commit(offsets=places, asynchronous=False)
            except KafkaException:
                continue  # unknown whether it was written; the next one is higher
            if done.error is None:
                self.acked = offset

    def wait_for_progress(self) -> None:
        before, deadline = self.acked, time.monotonic() + 30
        while self.acked <= before:
            assert time.monotonic() < deadline, "no commit is acknowledged any more"
            time.sleep(0.01)


def committed(address: str, group: str) -> int:
    """What a new client gets."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)
        offset: int = found.offset
        return offset
    finally:
        consumer.close()


@pytest.mark.slow
def test_acknowledged_offsets_survive_every_kill(chance):
    with BrokerProcess(settings=SETTINGS) as server:
        address = server.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
        with Committer(address) as committer:
            for _ in range(KILLS):
                committer.wait_for_progress()
                time.sleep(chance.uniform(0, 0.5))
                server.kill()
                acked = committer.acked
                server.start()
                assert committed(address, "hand") >= acked
        assert "Traceback" not in server.words()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_on_over_kills(chance, protocol):
    with BrokerProcess(settings=SETTINGS) as server:
        address = server.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
        producer = Producer({"bootstrap.servers": address})
        for number in range(RECORDS):
            producer.produce(TOPIC, str(number))
        assert producer.flush(30) == 0
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "members",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
            }
        )
        consumer.subscribe([TOPIC])
        read: list[int] = []
        kill_at = sorted(chance.sample(range(RECORDS), 4))
        deadline = time.monotonic() + 150
        while len(set(read)) < RECORDS:
            assert time.monotonic() < deadline, len(set(read))
            messages = consumer.consume(50, 0.5)
            read += [int(message.value()) for message in messages if message.error() is None]
            if messages:
                # One at a time: librdkafka sends commits that were in flight at a kill again, late.
                consumer.commit(asynchronous=False)
            if kill_at and len(read) > kill_at[0]:
                kill_at.pop(0)
                server.kill()
                server.start()
        consumer.close()
        assert sorted(set(read)) == list(range(RECORDS))
        server.kill()
        server.start()
        assert committed(address, "members") == RECORDS


@pytest.mark.slow
def test_members_of_a_consumer_group_keep_what_they_have_over_kills():
    """They need not join again: the group is in the log, with who has what."""
    with BrokerProcess(settings=SETTINGS) as server:
        address = server.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(TOPIC, 4)])[TOPIC].result(30)
        changes: list[str] = []
        consumers = [open_member(address, changes) for _ in range(2)]
        wait_for_two_each(consumers)
        before = [{one.partition for one in consumer.assignment()} for consumer in consumers]
        for _ in range(3):
            server.kill()
            server.start()
            changes.clear()
            end = time.monotonic() + 6  # longer than the time between two heartbeats
            while time.monotonic() < end:
                for consumer in consumers:
                    consumer.poll(0.05)
            assert changes == []
            fresh = AdminClient({"bootstrap.servers": address})
            described = fresh.describe_consumer_groups(["members"])["members"].result(30)
            assert described.state.name == "STABLE"
            after = [{one.partition for one in consumer.assignment()} for consumer in consumers]
            assert after == before
        for consumer in consumers:
            consumer.close()
        assert "Traceback" not in server.words()


def open_member(address: str, changes: list[str]) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "members",
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
        }
    )
    consumer.subscribe(
        [TOPIC],
        on_assign=lambda *_: changes.append("assign"),
        on_revoke=lambda *_: changes.append("revoke"),
        on_lost=lambda *_: changes.append("lost"),
    )
    return consumer


def wait_for_two_each(consumers: list[Consumer]) -> None:
    deadline = time.monotonic() + 60
    while [len(consumer.assignment()) for consumer in consumers] != [2, 2]:
        assert time.monotonic() < deadline
        for consumer in consumers:
            consumer.poll(0.05)
