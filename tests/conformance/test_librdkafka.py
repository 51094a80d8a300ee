"""librdkafka, through confluent-kafka: the client most programs in most languages use."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.conftest import Target

Open = Callable[..., Consumer]
TIMEOUT_S = 20


@pytest.fixture
def admin(target: Target) -> AdminClient:
    return AdminClient({"bootstrap.servers": target.bootstrap_servers})


@pytest.fixture
def made(admin: AdminClient, topic: str) -> str:
    """A topic with three partitions."""
    finish(admin.create_topics([NewTopic(topic, 3, 1)]))
    return topic


@pytest.fixture
def open_consumer(target: Target) -> Iterator[Open]:
    """Opens consumers without a group, and closes them all at the end."""
    opened: list[Consumer] = []

    def open_one(*partitions: TopicPartition, **config: Any) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": target.bootstrap_servers,
                "group.id": "none",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": False,
                **config,
            }
        )
        opened.append(consumer)
        consumer.assign(list(partitions))
        return consumer

    yield open_one
    for consumer in opened:
        consumer.close()


def finish(futures: dict[Any, Any]) -> list[Any]:
    """Wait for what an admin call promised."""
    return [future.result(TIMEOUT_S) for future in futures.values()]


def read(consumer: Consumer, count: int) -> list[Message]:
    """The next messages, which must come before the time is over."""
    messages: list[Message] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(messages) < count and time.monotonic() < deadline:
        messages += consumer.consume(count - len(messages), timeout=0.5)
    assert [message.error() for message in messages] == [None] * count
    return messages


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_messages_come_back_in_order(
    target: Target, made: str, open_consumer: Open, codec: str, idempotent: bool
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": 5,
        }
    )
    delivered: list[int] = []

    def note(error: KafkaError | None, message: Message) -> None:
        assert error is None
        delivered.append(message.offset())

    for number in range(1000):
        producer.produce(
            made,
            key=str(number),
            value=b"value %d" % number,
            partition=1,
            headers={"number": str(number)},
            on_delivery=note,
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert delivered == list(range(1000))
    messages = read(open_consumer(TopicPartition(made, 1, OFFSET_BEGINNING)), 1000)
    assert [message.value() for message in messages] == [b"value %d" % n for n in range(1000)]
    assert [message.key() for message in messages] == [b"%d" % n for n in range(1000)]
    assert messages[7].headers() == [("number", b"7")]


def test_a_waiting_consumer_gets_what_is_produced(
    target: Target, made: str, open_consumer: Open
) -> None:
    consumer = open_consumer(TopicPartition(made, 0, 0))
    assert consumer.consume(1, timeout=0.3) == []
    producer = Producer({"bootstrap.servers": target.bootstrap_servers})
    producer.produce(made, b"fresh", partition=0)
    producer.flush(TIMEOUT_S)
    assert [message.value() for message in read(consumer, 1)] == [b"fresh"]


def test_offsets_can_be_looked_up(target: Target, made: str, open_consumer: Open) -> None:
    producer = Producer({"bootstrap.servers": target.bootstrap_servers})
    for time_ms in (1000, 2000, 3000):
        producer.produce(made, b"x", partition=0, timestamp=time_ms)
    producer.flush(TIMEOUT_S)
    consumer = open_consumer()
    assert consumer.get_watermark_offsets(TopicPartition(made, 0), timeout=TIMEOUT_S) == (0, 3)
    at = [TopicPartition(made, 0, 1500), TopicPartition(made, 1, 1500)]
    found = consumer.offsets_for_times(at, timeout=TIMEOUT_S)
    assert [one.offset for one in found] == [1, OFFSET_END]


def test_an_offset_out_of_range_is_reported(made: str, open_consumer: Open) -> None:
    consumer = open_consumer(TopicPartition(made, 0, 99))
    (message,) = consumer.consume(1, timeout=TIMEOUT_S)
    error = message.error()
    assert error is not None
    assert error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}


def test_a_message_too_large_is_refused(target: Target, admin: AdminClient, topic: str) -> None:
    settings = {"max.message.bytes": "1000"}
    finish(admin.create_topics([NewTopic(topic, 1, 1, config=settings)]))
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": target.bootstrap_servers})
    producer.produce(topic, b"x" * 5000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    assert [error and error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_producing_creates_the_topic(target: Target, topic: str, open_consumer: Open) -> None:
    producer = Producer({"bootstrap.servers": target.bootstrap_servers})
    producer.produce(topic, b"first")
    assert producer.flush(TIMEOUT_S) == 0
    messages = read(open_consumer(TopicPartition(topic, 0, OFFSET_BEGINNING)), 1)
    assert [message.value() for message in messages] == [b"first"]


def test_topics_are_administered(admin: AdminClient, made: str) -> None:
    metadata = admin.list_topics(made, timeout=TIMEOUT_S).topics[made]
    assert sorted(metadata.partitions) == [0, 1, 2]
    finish(admin.create_partitions([NewPartitions(made, 5)]))
    with pytest.raises(KafkaException) as raised:
        finish(admin.create_topics([NewTopic(made, 1, 1)]))
    assert raised.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    finish(admin.delete_topics([made]))
    deadline = time.monotonic() + TIMEOUT_S
    while made in admin.list_topics(timeout=TIMEOUT_S).topics and time.monotonic() < deadline:
        time.sleep(0.05)
    assert made not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_no_leader_has_to_be_elected(admin: AdminClient, made: str) -> None:
    wanted = [TopicPartition(made, 0), TopicPartition(made, 9)]
    elected = admin.elect_leaders(ElectionType.PREFERRED, wanted).result(TIMEOUT_S)
    codes = {partition.partition: error.code() for partition, error in elected.items()}
    assert codes == {0: KafkaError.ELECTION_NOT_NEEDED, 9: KafkaError.UNKNOWN_TOPIC_OR_PART}


def test_settings_are_administered(admin: AdminClient, made: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, made)
    (before,) = finish(admin.describe_configs([resource]))
    assert before["retention.ms"].value == "604800000"
    change = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, made, incremental_configs=[change])
    finish(admin.incremental_alter_configs([changed]))
    deadline = time.monotonic() + TIMEOUT_S
    after = before
    while after["retention.ms"].value != "5000" and time.monotonic() < deadline:
        (after,) = finish(admin.describe_configs([resource]))
    assert after["retention.ms"].value == "5000"


def test_records_are_deleted(target: Target, admin: AdminClient, made: str) -> None:
    producer = Producer({"bootstrap.servers": target.bootstrap_servers})
    for _ in range(5):
        producer.produce(made, b"x", partition=2)
    producer.flush(TIMEOUT_S)
    (deleted,) = finish(admin.delete_records([TopicPartition(made, 2, 3)]))
    assert deleted.low_watermark == 3
    partition = TopicPartition(made, 2)
    (earliest,) = finish(admin.list_offsets({partition: OffsetSpec.earliest()}))
    (latest,) = finish(admin.list_offsets({partition: OffsetSpec.latest()}))
    assert (earliest.offset, latest.offset) == (3, 5)


def test_the_cluster_is_described(target: Target, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    (node,) = cluster.nodes
    assert f"{node.host}:{node.port}" == target.bootstrap_servers
    assert cluster.cluster_id
