"""kill -9 while share groups acknowledge: accepted records never come again, all others do."""

import time

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from strom.testing import BrokerProcess

TOPIC = "jobs"
GROUP = "workers"
RECORDS = 3000
KILLS = 6
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "group.share.min.record.lock.duration.ms": "1000",
}


def prepare(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, 2)])[TOPIC].result(30)
    configs = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "2000"}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, GROUP, incremental_configs=entries)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "batch.num.messages": 50})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number))
    assert producer.flush(30) == 0


def consumer_of(address: str) -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 100,
            "reconnect.backoff.max.ms": 200,
        }
    )
    consumer.subscribe([TOPIC])
    return consumer


@pytest.mark.slow
def test_accepted_records_never_come_again_and_the_others_do(chance):
    """Only what the broker confirmed counts as accepted; the rest is in doubt."""
    confirmed: set[int] = set()
    with BrokerProcess(settings=SETTINGS) as server:
        address = server.bootstrap_servers
        prepare(address)
        kill_at = sorted(chance.sample(range(100, RECORDS - 100), KILLS))
        consumer = consumer_of(address)
        deadline = time.monotonic() + 200
        while len(confirmed) < RECORDS:
            assert time.monotonic() < deadline, len(confirmed)
            accepted = _accept_some(consumer, chance, confirmed)
            confirmed |= accepted
            if kill_at and len(confirmed) > kill_at[0]:
                kill_at.pop(0)
                server.kill()
                server.start()
        consumer.close()
        assert "Traceback" not in server.words()
    assert confirmed == set(range(RECORDS))


def _accept_some(consumer: ShareConsumer, chance, confirmed: set[int]) -> set[int]:
    """Accept most of what comes; what the broker confirmed that is."""
    try:
        messages = [one for one in consumer.poll(0.5) if one.error() is None]
    except KafkaException:
        return set()
    numbers: dict[tuple[int, int], int] = {}
    for one in messages:
        number = int(one.value())
        assert number not in confirmed, f"{number} was accepted, and came again"
        if chance.random() < 0.1:
            consumer.acknowledge(one, AcknowledgeType.RELEASE)
        else:
            consumer.acknowledge(one, AcknowledgeType.ACCEPT)
            numbers[one.partition(), one.offset()] = number
    if not messages:
        return set()
    try:
        results = consumer.commit_sync(30)
    except KafkaException:
        return set()
    good = {place.partition for place, error in results.items() if error is None}
    return {number for (partition, _), number in numbers.items() if partition in good}
