"""Exchanges that feed topics, and topics that feed exchanges."""

from typing import Any

import pika
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from strom.testing import LocalBroker
from tests.conformance_amqp.asking import bodies, closes_channel, count, eventually


def create(broker, topic, partitions=1):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(20)


def read(broker, topic, expected, partition=0):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Any] = []
    while len(found) < expected:
        message = consumer.poll(20)
        assert message is not None, f"only {len(found)} records came"
        found.append(message)
    consumer.close()
    return found


def topics(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return admin.list_topics(timeout=20).topics


def produce(broker, topic, *records):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, value, headers in records:
        producer.produce(topic, value, key, headers=headers)
    assert producer.flush(20) == 0


def test_an_exchange_feeds_a_topic_and_queues_alike(broker, channel):
    create(broker, "clicks")
    channel.exchange_declare("x", "direct", arguments={"x-strom-to-topic": "clicks"})
    channel.queue_declare("q")
    channel.queue_bind("q", "x", "a")
    properties = pika.BasicProperties(headers={"user": "eva", "n": 3})
    channel.basic_publish("x", "a", b"1", properties, mandatory=True)
    channel.basic_publish("x", "b", b"2", mandatory=True)
    assert bodies(channel, "q") == [b"1"]
    first, second = read(broker, "clicks", 2)
    assert (first.key(), first.value()) == (b"a", b"1")
    assert dict(first.headers()) == {"user": b"eva", "n": b"3"}
    assert (second.key(), second.value(), second.headers()) == (b"b", b"2", None)


def test_dead_letters_get_into_the_topic_of_their_exchange(broker, channel):
    create(broker, "failed")
    channel.exchange_declare("x", "fanout", arguments={"x-strom-to-topic": "failed"})
    channel.queue_declare("q", arguments={"x-dead-letter-exchange": "x"})
    channel.basic_publish("", "q", b"no good")
    channel.basic_reject(channel.basic_get("q")[0].delivery_tag, requeue=False)
    (letter,) = read(broker, "failed", 1)
    assert (letter.key(), letter.value()) == (b"q", b"no good")
    assert dict(letter.headers())["x-first-death-reason"] == b"rejected"


def test_keys_go_where_kafkas_producers_send_them(broker, channel):
    create(broker, "clicks", 5)
    channel.exchange_declare("x", "direct", arguments={"x-strom-to-topic": "clicks"})
    keys = [f"key-{number}" for number in range(20)]
    for key in keys:
        channel.basic_publish("x", key, b"amqp")
    java = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    places = {}
    for key in keys:
        java.produce(
            "clicks",
            b"kafka",
            key,
            callback=lambda _, message: places.update({message.key(): message.partition()}),
        )
    assert java.flush(20) == 0
    for partition in set(places.values()):
        here = [key for key, at in places.items() if at == partition]
        records = read(broker, "clicks", 2 * len(here), partition)
        assert {record.key() for record in records if record.value() == b"amqp"} == set(here)


def test_records_of_a_topic_are_routed_by_key_and_headers(broker, channel):
    create(broker, "orders")
    arguments = {"x-strom-from-topic": "orders"}
    channel.exchange_declare("x", "topic", durable=True, arguments=arguments)
    channel.exchange_declare("h", "headers")
    channel.exchange_bind("h", "x", "#")
    for queue in ("german", "big"):
        channel.queue_declare(queue, durable=True)
    channel.queue_bind("german", "x", "de.#")
    channel.queue_bind("big", "h", arguments={"x-match": "all", "size": "big"})
    produce(
        broker,
        "orders",
        ("de.berlin", b"1", {"size": "big"}),
        ("fr.paris", b"2", {"size": "big"}),
        ("de.bonn", b"3", {}),
    )
    eventually(lambda: (count(channel, "german"), count(channel, "big")), (2, 2))
    assert bodies(channel, "german") == [b"1", b"3"]
    method, properties, body = channel.basic_get("big", auto_ack=True)
    assert (method.routing_key, properties.headers, body) == ("de.berlin", {"size": "big"}, b"1")


@pytest.mark.parametrize("headers", [{"x-delay": "abc"}, {"CC": "no list"}])
def test_a_record_that_cannot_be_routed_goes_to_a_dead_letter_topic(broker, channel, headers):
    create(broker, "orders")
    channel.exchange_declare("x", "fanout", arguments={"x-strom-from-topic": "orders"})
    channel.queue_declare("q")
    channel.queue_bind("q", "x")
    produce(broker, "orders", ("k", b"1", {}), ("k", b"bad", headers), ("k", b"2", {}))
    eventually(lambda: count(channel, "q"), 2)
    assert bodies(channel, "q") == [b"1", b"2"]
    eventually(lambda: "dlq.orders" in topics(broker))
    [letter] = read(broker, "dlq.orders", 1)
    assert (letter.key(), letter.value()) == (b"k", b"bad")
    assert dict(letter.headers())["__dlq.errors.offset"] == b"1"


def test_a_delay_of_a_record_is_text(broker, channel):
    create(broker, "orders")
    channel.exchange_declare("x", "fanout", arguments={"x-strom-from-topic": "orders"})
    channel.queue_declare("q")
    channel.queue_bind("q", "x")
    produce(broker, "orders", ("k", b"later", {"x-delay": "300"}), ("k", b"now", {}))
    eventually(lambda: count(channel, "q"), 2)
    assert bodies(channel, "q") == [b"now", b"later"]


def test_a_full_queue_holds_up_no_other_and_gets_the_rest_when_there_is_room(broker, channel):
    create(broker, "orders")
    channel.exchange_declare("x", "fanout", arguments={"x-strom-from-topic": "orders"})
    channel.queue_declare("q")
    channel.queue_declare("full", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    for queue in ("q", "full"):
        channel.queue_bind(queue, "x")
    values = [b"%d" % number for number in range(5)]
    produce(broker, "orders", *[("k", value, {}) for value in values])
    eventually(lambda: (count(channel, "q"), count(channel, "full")), (5, 2))
    taken: list[bytes] = []

    def take():
        taken.extend(bodies(channel, "full"))
        return taken

    eventually(take, values)
    assert bodies(channel, "q") == values


def test_partitions_that_are_added_and_topics_that_come_again_are_read(broker, channel):
    create(broker, "orders")
    channel.exchange_declare("x", "fanout", arguments={"x-strom-from-topic": "orders"})
    channel.queue_declare("q")
    channel.queue_bind("q", "x")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions("orders", 2)])["orders"].result(20)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", b"added", partition=1)
    assert producer.flush(20) == 0
    eventually(lambda: bodies(channel, "q"), [b"added"])
    admin.delete_topics(["orders"])["orders"].result(20)
    create(broker, "orders")
    produce(broker, "orders", ("k", b"again", {}))
    eventually(lambda: bodies(channel, "q"), [b"again"])


def test_only_committed_records_are_routed(broker, channel):
    create(broker, "orders")
    produce(broker, "orders", ("k", b"before", {}))
    arguments = {"x-strom-from-topic": "orders", "x-strom-offset": "first"}
    channel.exchange_declare("x", "fanout", arguments=arguments)
    channel.queue_declare("q")
    channel.queue_bind("q", "x")
    produce(broker, "orders", ("k", b"after", {}))
    eventually(lambda: b"after" in bodies(channel, "q"))


def test_after_a_restart_reading_goes_on_where_it_was(tmp_path):
    def connected(broker):
        return pika.BlockingConnection(pika.URLParameters(broker.amqp_url))

    with LocalBroker(queues=True, data=str(tmp_path)) as broker, connected(broker) as connection:
        create(broker, "orders")
        channel = connection.channel()
        arguments = {"x-strom-from-topic": "orders"}
        channel.exchange_declare("x", "fanout", durable=True, arguments=arguments)
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "x")
        produce(broker, "orders", ("k", b"1", {}), ("k", b"2", {}))
        eventually(lambda: count(channel, "q"), 2)
    with LocalBroker(queues=True, data=str(tmp_path)) as broker, connected(broker) as connection:
        channel = connection.channel()
        produce(broker, "orders", ("k", b"3", {}))
        eventually(lambda: count(channel, "q"), 3)
        assert bodies(channel, "q") == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-strom-to-topic": 7},
        {"x-strom-to-topic": "not a name!"},
        {"x-strom-to-topic": "t", "x-strom-from-topic": "t"},
        {"x-strom-from-topic": "t", "x-strom-offset": "somewhere"},
        {"x-strom-from-topic": "t", "x-strom-dead-letter-topic": "t"},
    ],
)
def test_what_cannot_be_joined_is_refused(channel, arguments):
    with closes_channel(406):
        channel.exchange_declare("x", "fanout", arguments=arguments)


def test_any_kafka_tool_reads_a_queues_log(broker, channel):
    channel.queue_declare("orders.new", durable=True)
    channel.basic_publish("", "orders.new", b"body", pika.BasicProperties(delivery_mode=2))
    [record] = read(broker, "__queue.-2f--orders.new", 1)
    assert (record.key(), record.value()) == (b"orders.new", b"body")
    assert [name for name, _ in record.headers()] == ["amqp.exchange", "amqp.properties"]
