"""kill -9 while topics feed exchanges, and exchanges feed topics: nothing acknowledged is left out.

From a topic every record arrives in every queue, or is a dead letter. Into a topic comes every message
that was confirmed, published to the exchange or expired in a queue. Duplicates are allowed.
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess
from tests.conformance_amqp.asking import bodies

RECORDS_A_ROUND = 100
BAD_EVERY = 20
PATIENCE_S = 60


def connected(server: BrokerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(server.amqp_url))


def join(server: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic("t", 2)])["t"].result(20)
    with connected(server) as connection:
        channel = connection.channel()
        channel.exchange_declare("x", "fanout", durable=True, arguments={"x-strom-from-topic": "t"})
        full = {"x-max-length": 50, "x-overflow": "reject-publish"}
        for name, arguments in (("q", {}), ("full", full)):
            channel.queue_declare(name, durable=True, arguments=arguments)
            channel.queue_bind(name, "x")


def is_bad(number: int) -> bool:
    return number % BAD_EVERY == 0


def run(kills: int, chance: random.Random) -> None:
    with BrokerProcess(queues=True) as server:
        join(server)
        producer = Producer({"bootstrap.servers": server.bootstrap_servers})
        found: dict[str, set[int]] = {"q": set(), "full": set()}
        total = 0
        for _ in range(kills):
            for _ in range(RECORDS_A_ROUND):
                headers = {"x-delay": "never"} if is_bad(total) else {}
                producer.produce("t", b"%d" % total, headers=headers, partition=total % 2)
                total += 1
            producer.flush(chance.uniform(0, 0.5))
            take(server, found)
            server.kill()
            server.start()
        assert producer.flush(PATIENCE_S) == 0
        expected = {number for number in range(total) if not is_bad(number)}
        deadline = time.monotonic() + PATIENCE_S
        while any(numbers != expected for numbers in found.values()):
            left = {name: len(expected - numbers) for name, numbers in found.items()}
            assert time.monotonic() < deadline, f"lost: {left}"
            take(server, found)
            time.sleep(0.05)
        bad = {number for number in range(total) if is_bad(number)}
        assert values_of(server, "dlq.t", bad) == bad
        assert "Traceback" not in server.words()


def join_into_topic(server: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic("out", 2)])["out"].result(20)
    with connected(server) as connection:
        channel = connection.channel()
        feeds = {"x-strom-to-topic": "out"}
        channel.exchange_declare("y", "fanout", durable=True, arguments=feeds)
        expires = {"x-message-ttl": 20, "x-dead-letter-exchange": "y"}
        channel.queue_declare("expiring", durable=True, arguments=expires)


def publish(server: BrokerProcess, numbers: Iterator[int], confirmed: set[int]) -> int:
    """Publish to the exchange and to the queue by turns until the broker dies; the next number."""
    number = -1
    with suppress(pika.exceptions.AMQPError, ConnectionError), connected(server) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in numbers:
            exchange, key = ("y", f"key-{number % 7}") if number % 2 else ("", "expiring")
            persistent = pika.BasicProperties(delivery_mode=2)
            channel.basic_publish(exchange, key, b"%d" % number, persistent)
            confirmed.add(number)
    return number + 1


def run_into_topic(kills: int, chance: random.Random) -> None:
    with BrokerProcess(queues=True) as server:
        join_into_topic(server)
        confirmed: set[int] = set()
        numbers, sent = count(), 0
        for _ in range(kills):
            killer = threading.Timer(chance.uniform(0.05, 0.5), server.kill)
            killer.start()
            sent = max(sent, publish(server, numbers, confirmed))
            killer.join()
            server.start()
        found = values_of(server, "out", confirmed)
        assert confirmed, "nothing was confirmed"
        assert sorted(confirmed - found) == [], "confirmed, but not in the topic"
        assert found <= set(range(sent)), "never published"
        assert "Traceback" not in server.words()


def take(server: BrokerProcess, found: dict[str, set[int]]) -> None:
    with connected(server) as connection:
        channel = connection.channel()
        for name, numbers in found.items():
            numbers.update(map(int, bodies(channel, name)))


def values_of(server: BrokerProcess, topic: str, expected: set[int]) -> set[int]:
    """What a topic holds, once it holds all that is expected."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "g"})
    partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    while not expected <= found and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.add(int(message.value() or b""))
    consumer.close()
    return found


@pytest.mark.slow
def test_kills_leave_no_record_out(chance):
    run(3, chance)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(5))
def test_a_hundred_kills_leave_no_record_out(chance, part):
    run(20, chance)


@pytest.mark.slow
def test_kills_leave_no_message_out_of_the_topic(chance):
    run_into_topic(3, chance)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(5))
def test_a_hundred_kills_leave_no_message_out_of_the_topic(chance, part):
    run_into_topic(20, chance)
