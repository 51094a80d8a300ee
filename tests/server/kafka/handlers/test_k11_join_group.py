"""What a real client makes of the limits of groups."""

import contextlib

import kafka
import pytest
from confluent_kafka import Producer
from kafka.errors import GroupMaxSizeReachedError

from strom.testing import LocalBroker

TOPICS = [f"{'long' * 20}-{number}" for number in range(8)]


def consumer(broker: LocalBroker, group: str, *topics: str) -> kafka.KafkaConsumer:
    return kafka.KafkaConsumer(
        *topics,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
    )


@contextlib.contextmanager
def with_records(**settings: str):
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    with LocalBroker(settings=texts) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for topic in TOPICS:
            producer.produce(topic, b"x")
        producer.flush(10)
        yield broker


def poll(client: kafka.KafkaConsumer) -> None:
    while not client.poll(100):
        pass


def test_a_client_retries_until_the_memory_of_all_groups_suffices():
    with with_records(groups_max_bytes="1024") as broker:
        first, second = consumer(broker, "a", TOPICS[0]), consumer(broker, "b", TOPICS[0])
        poll(first)
        for _ in range(3):
            assert not second.poll(100), "there is no memory for its group"
        first.close()
        poll(second)
        second.close()


def test_a_client_whose_group_is_too_large_gets_an_error():
    with with_records(group_max_bytes="1024") as broker:
        client = consumer(broker, "a", *TOPICS)
        with pytest.raises(GroupMaxSizeReachedError):
            poll(client)
        client.close()
