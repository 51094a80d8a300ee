"""AmqpSource in a worker: messages that become no record are acknowledged, in order, and never lost."""

import itertools
import json

import pika
import pytest
from confluent_kafka import Consumer, Message

from strom.testing import LocalBroker
from tests.connect.runtime.workers import Rest, embedded_worker, wait_until

PREFETCH = 3
BAD = 3 * PREFETCH
"""More bad messages in a row than may be unacknowledged: a source that keeps them stops."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker():
    with LocalBroker(queues=True) as running:
        yield running


@pytest.fixture(scope="module")
def rest(broker):
    settings = {"value.converter.schemas.enable": "false"}
    with embedded_worker(broker.bootstrap_servers, settings) as running:
        yield Rest(running.url)


@pytest.fixture
def queue(broker):
    """A fresh queue: its name, and a channel."""
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url)) as connection:
        channel = connection.channel()
        name = f"skipped-{next(_numbers)}"
        channel.queue_declare(name, durable=True)
        yield name, channel


@pytest.fixture
def add(rest, broker, queue):
    name, _ = queue

    def start(**settings):
        rest.put(
            name,
            connector__class="AmqpSource",
            url=broker.amqp_url.replace("guest:guest@", ""),
            queues=name,
            topic=name,
            prefetch=PREFETCH,
            **settings,
        )

    yield start
    rest.ask("DELETE", f"/connectors/{name}")


def publish(queue, *bodies):
    name, channel = queue
    for body in bodies:
        channel.basic_publish("", name, body, pika.BasicProperties(delivery_mode=2))


def left(queue):
    """How many messages the queue has, counted when no consumer holds any of them."""
    name, channel = queue
    return channel.queue_declare(name, passive=True).method.message_count


def stop(rest, name):
    rest.ask("PUT", f"/connectors/{name}/stop")
    rest.wait_for_states(name, "STOPPED", tasks=0)


def values(broker, topic, count):
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"judge-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[Message] = []

    def enough():
        found.extend(one for one in consumer.consume(100, 0.2) if one.error() is None)
        return len(found) >= count

    wait_until(enough, 20)
    consumer.close()
    return [json.loads(one.value()) for one in found]


KEEP_GOOD = {
    "transforms": "drop",
    "transforms.drop.type": "Filter",
    "transforms.drop.predicate": "bad",
    "transforms.drop.negate": "true",
    "predicates": "bad",
    "predicates.bad.type": "HasHeaderKey",
    "predicates.bad.name": "amqp.message-id",
}


@pytest.mark.parametrize(
    ("bad", "settings"),
    [
        pytest.param("no JSON", {"format": "json"}, id="malformed"),
        pytest.param('{"a": 1}', {"format": "json", **KEEP_GOOD}, id="filtered"),
        pytest.param(
            '"text"',
            {
                "format": "json",
                "transforms": "cast",
                "transforms.cast.type": "Cast$Value",
                "transforms.cast.spec": "int32",
            },
            id="transform fails",
        ),
        pytest.param(
            json.dumps("x" * 3000),
            {"format": "json", "producer.override.message.max.bytes": "2000"},
            id="too large",
        ),
    ],
)
def test_more_skipped_messages_than_prefetch_are_acknowledged(
    rest, broker, queue, add, bad, settings
):
    name, channel = queue
    publish(queue, *[bad] * BAD)
    channel.basic_publish("", name, "7", pika.BasicProperties(message_id="good"))
    add(**{key.replace(".", "__"): text for key, text in settings.items()}, errors__tolerance="all")
    assert values(broker, name, 1) == [7]
    stop(rest, name)
    assert left(queue) == 0


def test_skipped_messages_are_not_delivered_again_after_a_stop(rest, queue, add):
    name, _ = queue
    publish(queue, *["no JSON"] * BAD)
    add(format="json", errors__tolerance="all", errors__log__enable="true")
    logs = f"/connectors/{name}/logs"

    def skipped():
        lines = rest.get(logs)["lines"]
        return sum("Skipped a record" in line for line in lines)

    wait_until(lambda: skipped() >= BAD, 20)
    stop(rest, name)
    assert (left(queue), skipped()) == (0, BAD)


def test_without_tolerance_the_bad_message_stays_and_only_those_before_it_are_acknowledged(
    rest, broker, queue, add
):
    name, channel = queue
    publish(queue, "1", "2", "no JSON", "3")
    add(format="json", restart__backoff__ms=0)
    wait_until(lambda: rest.states(name).get(0, {}).get("state") == "FAILED", 20)
    assert values(broker, name, 2) == [1, 2]
    wait_until(lambda: left(queue) == 2, 20)
    bodies = [channel.basic_get(name, auto_ack=True)[2] for _ in range(2)]
    assert bodies == [b"no JSON", b"3"]
