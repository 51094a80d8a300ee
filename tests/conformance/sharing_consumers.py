"""Steps of tests in which real consumers share a topic, with either protocol of their group."""

import time

import pytest
from confluent_kafka import Consumer, Producer

from tests.conftest import Target
from tools import kafka

TIMEOUT_S = 40
PARTITIONS = 4
RECORDS = 200
GROUP_COMMAND = "consumer.group.ConsumerGroupCommand"


def send(target: Target, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": target.bootstrap_servers})
    for number in numbers:
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


def read(*consumers: Consumer, count: int) -> list[list[int]]:
    """What each consumer got, until together they have so many."""
    got: list[list[int]] = [[] for _ in consumers]
    deadline = time.monotonic() + TIMEOUT_S
    while sum(map(len, got)) < count:
        assert time.monotonic() < deadline, got
        for consumer, mine in zip(consumers, got, strict=True):
            message = consumer.poll(0.02)
            if message is not None:
                assert message.error() is None, message.error()
                mine.append(int(message.value()))
    return got


def wait_for_shares(*consumers: Consumer) -> None:
    """Poll until every partition has one owner, and every consumer at least one."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        for consumer in consumers:
            assert consumer.poll(0.05) is None
        owned = [one.partition for consumer in consumers for one in consumer.assignment()]
        everyone = all(consumer.assignment() for consumer in consumers)
        if everyone and sorted(owned) == list(range(PARTITIONS)):
            return
        assert time.monotonic() < deadline, owned


def run_java(target: Target, tool: str, *arguments: str) -> str:
    """Run one of Kafka's own tools; what it prints."""
    address = ("--bootstrap-server", target.bootstrap_servers)
    try:
        done = kafka.run_tool(f"org.apache.kafka.tools.{tool}", *address, *arguments)
    except kafka.UnavailableError as reason:
        pytest.skip(f"no Kafka tools: {reason}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
