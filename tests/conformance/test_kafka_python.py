"""kafka-python: the pure Python client."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

from tests.conftest import Target

TIMEOUT_S = 20


@pytest.fixture
def admin(target: Target) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=target.bootstrap_servers)
    yield client
    client.close()


@pytest.fixture
def made(admin: KafkaAdminClient, topic: str) -> str:
    """A topic with two partitions."""
    admin.create_topics([NewTopic(topic, 2, 1)], wait_for_metadata=True)
    return topic


def send_all(target: Target, topic: str, values: list[bytes], **config: Any) -> list[Any]:
    """Send to partition 0; what was acknowledged."""
    producer = KafkaProducer(bootstrap_servers=target.bootstrap_servers, **config)
    try:
        sent = [producer.send(topic, value, partition=0) for value in values]
        return [future.get(TIMEOUT_S) for future in sent]
    finally:
        producer.close()


def read_values(target: Target, topic: str, count: int) -> list[bytes]:
    """The first values of partition 0."""
    consumer = KafkaConsumer(
        bootstrap_servers=target.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        return [next(consumer).value for _ in range(count)]
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_messages_come_back_in_order(target: Target, made: str, codec: str | None) -> None:
    values = [b"value %d" % number for number in range(300)]
    acknowledged = send_all(target, made, values, compression_type=codec, linger_ms=5)
    assert [one.offset for one in acknowledged] == list(range(300))
    assert read_values(target, made, 300) == values


@pytest.mark.parametrize("config", [{"acks": 0}, {"acks": 1}, {"enable_idempotence": False}])
def test_other_ways_to_produce(target: Target, made: str, config: dict[str, Any]) -> None:
    send_all(target, made, [b"a", b"b"], **config)
    assert read_values(target, made, 2) == [b"a", b"b"]


def test_a_message_too_large_is_refused(
    target: Target, admin: KafkaAdminClient, topic: str
) -> None:
    settings = {"max.message.bytes": "1000"}
    wanted = NewTopic(topic, 1, 1, topic_configs=settings)
    admin.create_topics([wanted], wait_for_metadata=True)
    with pytest.raises(MessageSizeTooLargeError):
        send_all(target, topic, [b"x" * 5000])


def test_offsets_can_be_looked_up(target: Target, made: str) -> None:
    producer = KafkaProducer(bootstrap_servers=target.bootstrap_servers)
    for time_ms in (1000, 2000, 3000):
        producer.send(made, b"x", partition=0, timestamp_ms=time_ms).get(TIMEOUT_S)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=target.bootstrap_servers)
    try:
        partition = TopicPartition(made, 0)
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 3}
        found = consumer.offsets_for_times({partition: 1500})[partition]
        assert (found.offset, found.timestamp) == (1, 2000)
    finally:
        consumer.close()


def test_topics_are_administered(admin: KafkaAdminClient, made: str) -> None:
    assert made in admin.list_topics()
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(made, 1, 1)])
    (described,) = admin.describe_topics([made])
    assert len(described["partitions"]) == 2
    admin.delete_topics([made])


def test_settings_are_described(admin: KafkaAdminClient, made: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, made)
    described = admin.describe_configs([resource], config_filter="all")
    assert "retention.ms" in str(described)


def test_one_broker_is_administered_as_a_cluster(admin: KafkaAdminClient, made: str) -> None:
    partition = TopicPartition(made, 0)
    assert admin.alter_partition_reassignments({partition: [1]}) == {partition: None}
    assert admin.list_partition_reassignments() == {}
    (topic,) = admin.describe_metadata_quorum()["topics"]
    (quorum,) = topic["partitions"]
    assert (quorum["leader_id"], quorum["error"], quorum["observers"]) == (1, None, [])
    assert admin.describe_features()["group.version"]["finalized"] == (1, 1)
    assert admin.update_features({"group.version": 1}) == {"group.version": "OK"}
    assert made in admin.list_config_resources()["topic"]
