"""What real clients make of the limits of groups."""

import contextlib

import kafka
import pytest
from confluent_kafka import Consumer, Producer
from kafka.errors import GroupMaxSizeReachedError

from strom.testing import LocalBroker

SECONDS = 60
TOPICS = [f"{'long' * 20}-{number}" for number in range(8)]


@contextlib.contextmanager
def with_records(**settings: str):
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    with LocalBroker(settings=texts) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for topic in TOPICS:
            producer.produce(topic, b"x")
        producer.flush(10)
        yield broker


def subscribed(broker: LocalBroker, group: str) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
    )
    made.subscribe(TOPICS[:1])
    return made


def test_a_client_retries_until_the_memory_of_all_groups_suffices():
    with with_records(groups_max_bytes="1024") as broker:
        first = subscribed(broker, "a")
        assert first.poll(SECONDS) is not None
        second = subscribed(broker, "b")
        assert second.poll(1.0) is None, "there is no memory for its group"
        first.close()
        assert second.poll(SECONDS) is not None
        second.close()


def test_a_client_whose_group_is_too_large_gets_an_error():
    with (
        with_records(group_max_bytes="1024") as broker,
        contextlib.closing(
            kafka.KafkaConsumer(*TOPICS, bootstrap_servers=broker.bootstrap_servers, group_id="a")
        ) as client,
        pytest.raises(GroupMaxSizeReachedError),
    ):
        client.poll(SECONDS * 1000)
