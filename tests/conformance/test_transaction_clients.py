"""Transactions through the clients that programs use: commit, abort, fencing, exactly once."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AIOTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer
from kafka import TopicPartition as KPTopicPartition
from kafka.structs import OffsetAndMetadata

from tests.conformance.calls import Topic
from tests.conftest import Target
from tools import kafka

TIMEOUT_S = 20
MakeTopic = Callable[..., Topic]


def read_committed(target: Target, topic: str, count: int) -> list[bytes]:
    """The first committed records of partition 0, and proof that no more follow."""
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            if len(found) >= count:
                break
        else:
            found.append(message.value())
    consumer.close()
    return found


def transactional(target: Target, name: str, **config: Any) -> Producer:
    return Producer(
        {"bootstrap.servers": target.bootstrap_servers, "transactional.id": name, **config}
    )


# --- librdkafka ------------------------------------------------------------------------------


def test_librdkafka_commits_and_aborts(target: Target, make_topic: MakeTopic) -> None:
    topic = make_topic().name
    producer = transactional(target, topic)
    producer.init_transactions(TIMEOUT_S)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, f"{number}a", partition=0)
        producer.produce(topic, f"{number}b", partition=0)
        producer.flush()
        if number % 3 == 1:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    expected = [f"{number}{half}".encode() for number in (0, 2, 3, 5) for half in "ab"]
    assert read_committed(target, topic, len(expected)) == expected


def test_librdkafka_fences_the_one_before(target: Target, make_topic: MakeTopic) -> None:
    topic = make_topic().name
    old, new = transactional(target, topic), transactional(target, topic)
    old.init_transactions(TIMEOUT_S)
    old.begin_transaction()
    old.produce(topic, b"old", partition=0)
    old.flush()
    new.init_transactions(TIMEOUT_S)
    with pytest.raises(KafkaException) as refused:
        old.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError._FENCED
    new.begin_transaction()
    new.produce(topic, b"new", partition=0)
    new.commit_transaction(TIMEOUT_S)
    assert read_committed(target, topic, 1) == [b"new"]


def test_librdkafka_reads_transforms_and_writes_exactly_once(
    target: Target, make_topic: MakeTopic
) -> None:
    source, sink, total = make_topic().name, make_topic().name, 60
    filler = Producer({"bootstrap.servers": target.bootstrap_servers})
    for number in range(total):
        filler.produce(source, str(number), partition=0)
    filler.flush()
    aborted = False
    for life in range(3):  # each has to go on where the committed offsets of the last one are
        producer = transactional(target, source)
        producer.init_transactions(TIMEOUT_S)
        consumer = Consumer(
            {
                "bootstrap.servers": target.bootstrap_servers,
                "group.id": source,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([source])
        for _ in range(2 if life < 2 else 4):
            messages = consumer.consume(10, TIMEOUT_S)
            producer.begin_transaction()
            for message in messages:
                producer.produce(sink, message.value().upper(), partition=0)
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
            )
            if life == 1 and not aborted:
                aborted = True
                producer.flush()
                producer.abort_transaction(TIMEOUT_S)
                break
            producer.commit_transaction(TIMEOUT_S)
        consumer.close()
    expected = [str(number).encode() for number in range(total)]
    assert aborted
    assert read_committed(target, sink, total) == expected


# --- aiokafka --------------------------------------------------------------------------------


def test_aiokafka_commits_aborts_and_sends_offsets(target: Target, make_topic: MakeTopic) -> None:
    topic = make_topic().name

    async def work() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=target.bootstrap_servers, transactional_id=topic
        )
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"first", partition=0)
                offsets = {AIOTopicPartition(topic, 0): 1}
                await producer.send_offsets_to_transaction(offsets, topic)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"dropped", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"second", partition=0)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=target.bootstrap_servers,
            group_id=topic,
            isolation_level="read_committed",
        )
        await consumer.start()
        try:
            consumer.assign([AIOTopicPartition(topic, 0)])
            assert await consumer.committed(AIOTopicPartition(topic, 0)) == 1
            message = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
            assert message.value == b"second"
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(work(), 3 * TIMEOUT_S))
    assert read_committed(target, topic, 2) == [b"first", b"second"]


def test_aiokafka_is_fenced(target: Target, make_topic: MakeTopic) -> None:
    topic = make_topic().name

    async def work() -> None:
        old = AIOKafkaProducer(bootstrap_servers=target.bootstrap_servers, transactional_id=topic)
        new = AIOKafkaProducer(bootstrap_servers=target.bootstrap_servers, transactional_id=topic)
        await old.start()
        await new.start()
        try:
            with pytest.raises(ProducerFenced):
                async with old.transaction():
                    await old.send_and_wait(topic, b"old", partition=0)
            async with new.transaction():
                await new.send_and_wait(topic, b"new", partition=0)
        finally:
            await old.stop()
            await new.stop()

    asyncio.run(asyncio.wait_for(work(), 3 * TIMEOUT_S))
    assert read_committed(target, topic, 1) == [b"new"]


# --- kafka-python ----------------------------------------------------------------------------


def test_kafka_python_commits_aborts_and_sends_offsets(
    target: Target, make_topic: MakeTopic
) -> None:
    topic = make_topic().name
    producer = KafkaProducer(
        bootstrap_servers=target.bootstrap_servers, transactional_id=topic, acks="all"
    )
    try:
        producer.init_transactions()
        for number in range(3):
            producer.begin_transaction()
            producer.send(topic, str(number).encode(), partition=0).get(TIMEOUT_S)
            offsets = {KPTopicPartition(topic, 0): OffsetAndMetadata(number + 1, "", -1)}
            producer.send_offsets_to_transaction(offsets, topic)
            if number == 1:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    finally:
        producer.close()
    assert read_committed(target, topic, 2) == [b"0", b"2"]
    reader = Consumer({"bootstrap.servers": target.bootstrap_servers, "group.id": topic})
    (committed,) = reader.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    assert committed.offset == 3
    reader.close()


# --- the Java client, through Kafka's own tools ----------------------------------------------


@pytest.mark.oracle
@pytest.mark.slow
def test_java_produces_in_transactions_and_the_tool_shows_them(
    target: Target, make_topic: MakeTopic
) -> None:
    topic = make_topic().name

    def run(tool: str, *arguments: str) -> str:
        try:
            done = kafka.run_tool(
                f"org.apache.kafka.tools.{tool}",
                *("--bootstrap-server", target.bootstrap_servers),
                *arguments,
            )
        except kafka.UnavailableError as reason:
            pytest.skip(f"no Kafka tools: {reason}")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "2000", "--record-size", "20", "--throughput", "-1"),
        *("--transactional-id", topic, "--transaction-duration-ms", "20"),
    )
    assert len(read_committed(target, topic, 2000)) == 2000
    tool = "TransactionsCommand"
    assert topic in run(tool, "list")
    assert "CompleteCommit" in run(tool, "describe", "--transactional-id", topic)
    described = run(tool, "describe-producers", "--topic", topic, "--partition", "0")
    assert described.splitlines()[1].split()[-1] == "None"
    assert len(run(tool, "find-hanging", "--broker-id", "1").splitlines()) == 1
    shown = run(
        "consumer.ConsoleConsumer",
        *("--topic", "__transaction_state", "--from-beginning", "--timeout-ms", "5000"),
        *("--formatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"),
    )
    assert f'"transactionalId":"{topic}"' in shown
