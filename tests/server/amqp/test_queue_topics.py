"""The logs of queues are topics that Kafka clients read, and only read."""

import pika
import pytest
from kio.schema.errors import ErrorCode

from tests.conformance import calls
from tests.conformance.batches import batch
from tests.conformance.raw import RawClient
from tests.conformance_amqp.asking import bodies, closes_channel, count

LOG = "__queue.-2f--orders"
TOPOLOGY = "__queue_topology"
REFUSED = ErrorCode.invalid_topic_exception


@pytest.fixture
def orders(channel):
    """A queue with ten confirmed messages."""
    channel.queue_declare("orders", durable=True)
    for number in range(10):
        channel.basic_publish("", "orders", b"%d" % number, pika.BasicProperties(delivery_mode=2))
    return channel


@pytest.fixture
def kafka(broker):
    with RawClient(broker.bootstrap_servers) as client:
        yield client


def delete_records(kafka, topic):
    wanted = {"name": topic, "partitions": [{"partition_index": 0, "offset": 5}]}
    (found,) = kafka.call("delete_records", 2, topics=[wanted], timeout=20_000).topics
    return found.partitions[0].error_code


def set_retention(kafka, topic):
    wanted = {
        "resource_type": calls.TOPIC_RESOURCE,
        "resource_name": topic,
        "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}],
    }
    (found,) = kafka.call(
        "incremental_alter_configs", 1, resources=[wanted], validate_only=False
    ).responses
    return found.error_code


def replace_settings(kafka, topic):
    wanted = {
        "resource_type": calls.TOPIC_RESOURCE,
        "resource_name": topic,
        "configs": [{"name": "retention.ms", "value": "1"}],
    }
    (found,) = kafka.call("alter_configs", 2, resources=[wanted], validate_only=False).responses
    return found.error_code


def create_partitions(kafka, topic):
    wanted = {"name": topic, "count": 3, "assignments": None}
    fields = {"topics": [wanted], "timeout": 20_000, "validate_only": False}
    (found,) = kafka.call("create_partitions", 3, **fields).results
    return found.error_code


def delete_topic(kafka, topic):
    wanted = {"name": topic, "topic_id": None}
    (found,) = kafka.call("delete_topics", 6, topics=[wanted], timeout=20_000).responses
    return found.error_code


def produce(kafka, topic):
    return calls.produce(kafka, calls.Topic(topic, None), batch(b"x")).error_code


def write_marker(kafka, topic):
    wanted = {
        "producer_id": 1,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": topic, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    (found,) = kafka.call("write_txn_markers", 1, markers=[wanted]).markers
    return found.topics[0].partitions[0].error_code


@pytest.mark.parametrize(
    "change",
    [
        delete_records,
        set_retention,
        replace_settings,
        create_partitions,
        delete_topic,
        produce,
        write_marker,
    ],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("topic", [LOG, TOPOLOGY])
def test_kafka_clients_change_nothing_about_them(orders, kafka, change, topic):
    assert change(kafka, topic) is REFUSED
    assert count(orders, "orders") == 10
    assert bodies(orders, "orders") == [b"%d" % number for number in range(10)]


def test_metadata_marks_them_internal(orders, kafka):
    assert calls.describe(kafka, LOG).is_internal
    assert calls.describe(kafka, TOPOLOGY).is_internal


@pytest.mark.parametrize("topic", [LOG, TOPOLOGY, "__consumer_offsets"])
def test_no_exchange_feeds_an_internal_topic(orders, connect, topic):
    with closes_channel(403):
        connect().channel().exchange_declare(
            "x", "fanout", durable=True, arguments={"x-strom-to-topic": topic}
        )
    assert count(orders, "orders") == 10


def test_no_exchange_is_fed_by_the_log_of_a_queue(orders, connect):
    with closes_channel(403):
        connect().channel().exchange_declare(
            "x", "fanout", durable=True, arguments={"x-strom-from-topic": LOG}
        )


def test_an_exchange_that_is_refused_is_not_stored(orders, connect, broker):
    with closes_channel(403):
        connect().channel().exchange_declare(
            "x", "fanout", durable=True, arguments={"x-strom-to-topic": LOG}
        )
    with closes_channel(404):
        connect().channel().exchange_declare("x", passive=True)


COLLIDING = "__queue_-2f--orders"
"""For Kafka the same name as that of the queue's log: it takes `_` for `.`."""


def test_no_topic_is_created_that_keeps_a_queue_from_getting_its_log(kafka, channel):
    wanted = {
        "name": COLLIDING,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": (),
        "configs": (),
    }
    (created,) = kafka.call("create_topics", 7, topics=[wanted]).topics
    assert created.error_code is REFUSED
    asked = {"topics": [{"topic_id": None, "name": COLLIDING}], **calls.NO_AUTO_CREATION}
    asked["allow_auto_topic_creation"] = True
    (described,) = kafka.call("metadata", 12, **asked).topics
    assert described.error_code is not ErrorCode.none
    channel.queue_declare("orders", durable=True)
