"""Real consumers that share topics by subscribe(): each record to one of them, and none is lost."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from tests.conformance.sharing_consumers import (
    GROUP_COMMAND,
    PARTITIONS,
    RECORDS,
    TIMEOUT_S,
    read,
    run_java,
    send,
    wait_for_shares,
)
from tests.conftest import Target

OpenConsumer = Callable[..., Consumer]


@pytest.fixture
def filled(target: Target, topic: str) -> str:
    """A topic of four partitions with 200 records."""
    admin = AdminClient({"bootstrap.servers": target.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    send(target, topic, range(RECORDS))
    return topic


@pytest.fixture
def open_consumer(target: Target, filled: str) -> Iterator[OpenConsumer]:
    """Opens librdkafka consumers of the topic in a group named like it."""
    opened: list[Consumer] = []

    def open_one(**config: Any) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": target.bootstrap_servers,
                "group.id": filled,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 200,
                **config,
            }
        )
        opened.append(consumer)
        consumer.subscribe([filled])
        return consumer

    yield open_one
    for consumer in opened:
        consumer.close()


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_consumers_share_and_take_over(
    target: Target, filled: str, open_consumer: OpenConsumer, assignor: str
) -> None:
    config = {"partition.assignment.strategy": assignor}
    first = open_consumer(**config)
    assert sorted(read(first, count=RECORDS)[0]) == list(range(RECORDS))
    first.commit(asynchronous=False)
    second = open_consumer(**config)
    wait_for_shares(first, second)
    send(target, filled, range(RECORDS, 2 * RECORDS))
    mine, theirs = read(first, second, count=RECORDS)
    assert mine
    assert theirs
    assert sorted(mine + theirs) == list(range(RECORDS, 2 * RECORDS))
    first.commit(asynchronous=False)
    second.commit(asynchronous=False)
    first.close()
    wait_for_shares(second)
    send(target, filled, range(RECORDS))
    assert sorted(read(second, count=RECORDS)[0]) == list(range(RECORDS))


def test_a_group_goes_on_where_it_was(open_consumer: OpenConsumer, filled: str) -> None:
    first = open_consumer()
    (got,) = read(first, count=50)
    first.commit(asynchronous=False)
    first.close()
    (rest,) = read(open_consumer(), count=RECORDS - 50)
    assert sorted(got + rest) == list(range(RECORDS))


def test_a_static_member_comes_back_without_a_rebalance(
    target: Target, open_consumer: OpenConsumer, filled: str
) -> None:
    # Everything is read already: a record that changed hands while they join would come twice.
    read_all = [TopicPartition(filled, n, RECORDS // PARTITIONS) for n in range(PARTITIONS)]
    admin = AdminClient({"bootstrap.servers": target.bootstrap_servers})
    wanted = [ConsumerGroupTopicPartitions(filled, read_all)]
    admin.alter_consumer_group_offsets(wanted)[filled].result(TIMEOUT_S)
    first, second = (
        open_consumer(**{"group.instance.id": "a"}),
        open_consumer(**{"group.instance.id": "b"}),
    )
    wait_for_shares(first, second)
    before = {one.partition for one in second.assignment()}
    second.close()
    again = open_consumer(**{"group.instance.id": "b"})
    wait_for_shares(first, again)
    assert {one.partition for one in again.assignment()} == before


def test_an_operator_looks_after_groups(
    target: Target, open_consumer: OpenConsumer, filled: str
) -> None:
    consumer = open_consumer(**{"client.id": "reader"})
    read(consumer, count=RECORDS)
    consumer.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": target.bootstrap_servers})
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    assert filled in {one.group_id for one in listed.valid}
    described = admin.describe_consumer_groups([filled])[filled].result(TIMEOUT_S)
    (member,) = described.members
    assert (described.state.name, member.client_id) == ("STABLE", "reader")
    assert len(member.assignment.topic_partitions) == PARTITIONS
    consumer.close()
    wanted = [ConsumerGroupTopicPartitions(filled, [TopicPartition(filled, 0, 7)])]
    admin.alter_consumer_group_offsets(wanted)[filled].result(TIMEOUT_S)
    wanted = [ConsumerGroupTopicPartitions(filled)]
    offsets = admin.list_consumer_group_offsets(wanted)[filled].result(TIMEOUT_S)
    found = {one.partition: one.offset for one in offsets.topic_partitions}
    assert found == {0: 7, 1: 50, 2: 50, 3: 50}
    admin.delete_consumer_groups([filled])[filled].result(TIMEOUT_S)
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    assert filled not in {one.group_id for one in listed.valid}


def test_kafka_python_shares(target: Target, filled: str) -> None:
    settings = {
        "bootstrap_servers": target.bootstrap_servers,
        "group_id": filled,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 200,
    }
    shares: list[set[Any]] = [set(), set()]
    got: set[int] = set()
    done = threading.Event()

    def consume(number: int) -> None:
        consumer = KafkaConsumer(filled, **settings)
        while not done.is_set():
            # A poll that ends before its join is answered can leave kafka-python 3.0.12 asking in vain
            # for ever (seen on the real Kafka, one time in nine): so it gets the time.
            for records in consumer.poll(5000).values():
                got.update(int(record.value) for record in records)
                consumer.commit()
            shares[number] = set(consumer.assignment())
        consumer.close()

    threads = [threading.Thread(target=consume, args=[number]) for number in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + TIMEOUT_S
    while len(got) < RECORDS or {len(share) for share in shares} != {PARTITIONS // 2}:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    done.set()
    for thread in threads:
        thread.join()
    assert len(got) == RECORDS
    assert len(shares[0] | shares[1]) == PARTITIONS
    third = KafkaConsumer(filled, **settings)
    send(target, filled, range(1))
    rest = [record for records in third.poll(TIMEOUT_S * 1000).values() for record in records]
    assert [int(record.value) for record in rest] == [0]
    third.close()


def test_aiokafka_shares(target: Target, filled: str) -> None:
    async def work() -> tuple[list[int], list[int]]:
        consumers = [
            AIOKafkaConsumer(
                filled,
                bootstrap_servers=target.bootstrap_servers,
                group_id=filled,
                auto_offset_reset="earliest",
                heartbeat_interval_ms=200,
            )
            for _ in range(2)
        ]
        got: list[list[int]] = [[], []]
        for consumer in consumers:
            await consumer.start()
        try:
            while len({*got[0], *got[1]}) < RECORDS or not all(
                consumer.assignment() for consumer in consumers
            ):
                for consumer, mine in zip(consumers, got, strict=True):
                    for records in (await consumer.getmany(timeout_ms=100)).values():
                        mine += [int(record.value) for record in records]
            shares = [consumer.assignment() for consumer in consumers]
            assert not shares[0] & shares[1]
            assert len(shares[0] | shares[1]) == PARTITIONS
        finally:
            for consumer in consumers:
                await consumer.stop()
        return got[0], got[1]

    mine, theirs = asyncio.run(asyncio.wait_for(work(), TIMEOUT_S))
    assert {*mine, *theirs} == set(range(RECORDS))


# --- the Java client -----------------------------------------------------------------------------


OFFSETS_FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"


@pytest.mark.oracle
@pytest.mark.slow
def test_javas_consumer_reads_in_a_group(target: Target, filled: str) -> None:
    read = ("--topic", filled, "--group", filled, "--from-beginning", "--timeout-ms", "8000")
    first = run_java(target, "consumer.ConsoleConsumer", *read, "--max-messages", "80")
    rest = run_java(target, "consumer.ConsoleConsumer", *read, "--max-messages", str(RECORDS - 80))
    assert sorted(map(int, (first + rest).split())) == list(range(RECORDS))
    described = run_java(target, GROUP_COMMAND, "--describe", "--group", filled)
    rows = [line.split() for line in described.splitlines() if line.startswith(filled)]
    assert sorted(row[2:6] for row in rows) == [
        [str(partition), "50", "50", "0"] for partition in range(PARTITIONS)
    ]
    assert filled in run_java(target, GROUP_COMMAND, "--list").split()
    reset = ("--reset-offsets", "--group", filled, "--topic", filled, "--to-offset", "9")
    moved = run_java(target, GROUP_COMMAND, *reset, "--execute")
    assert sum(line.endswith(" 9") for line in moved.splitlines()) == PARTITIONS
    deleted = run_java(target, GROUP_COMMAND, "--delete", "--group", filled)
    assert "successful" in deleted


@pytest.mark.oracle
@pytest.mark.slow
def test_javas_tools_read_the_offsets_topic(
    target: Target, open_consumer: OpenConsumer, filled: str
) -> None:
    consumer = open_consumer()
    read(consumer, count=RECORDS)
    consumer.commit(asynchronous=False)
    printed = run_java(
        target,
        "consumer.ConsoleConsumer",
        *("--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "3000"),
        *("--formatter", OFFSETS_FORMATTER),
    )
    for partition in range(PARTITIONS):
        key = f'"group":"{filled}","topic":"{filled}","partition":{partition}'
        assert key in printed
    assert printed.count('"offset":50,"leaderEpoch":0,"metadata":""') >= PARTITIONS
