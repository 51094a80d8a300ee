"""kill -9 while topics are created, changed and deleted: what was answered holds."""

import random
import threading
import time
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from strom.testing import BrokerProcess

ANSWER_SECONDS = 20
DELETE_AFTER = 3


@dataclass
class Changes:
    """Makes changes in a thread, and writes down which of them were answered."""

    admin: AdminClient
    chance: random.Random
    existing: dict[str, str | None] = field(default_factory=dict)
    """Topics whose creation was answered, with the retention that was answered last, if any."""
    gone: set[str] = field(default_factory=set)
    in_doubt: set[str] = field(default_factory=set)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        number = 0
        while not self.stop.is_set():
            number += 1
            self._create(f"topic-{number}")
            if self.existing and self.chance.random() < 0.6:
                self._alter(self.chance.choice(sorted(self.existing)), str(number * 1000))
            if len(self.existing) > DELETE_AFTER:
                self._delete(self.chance.choice(sorted(self.existing)))

    def _create(self, name: str) -> None:
        topic = NewTopic(name, self.chance.randint(1, 3))
        if self._is_answered(self.admin.create_topics([topic])[name]):
            self.existing[name] = None
        else:
            self.in_doubt.add(name)

    def _delete(self, name: str) -> None:
        del self.existing[name]
        if self._is_answered(self.admin.delete_topics([name])[name]):
            self.gone.add(name)
        else:
            self.in_doubt.add(name)

    def _alter(self, name: str, retention_ms: str) -> None:
        entry = ConfigEntry(
            "retention.ms", retention_ms, incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        if self._is_answered(self.admin.incremental_alter_configs([resource])[resource]):
            self.existing[name] = retention_ms
        else:
            del self.existing[name]
            self.in_doubt.add(name)

    @staticmethod
    def _is_answered(future) -> bool:
        try:
            future.result(ANSWER_SECONDS)
        except KafkaException:
            return False
        return True


def retention_of(admin: AdminClient, name: str) -> tuple[str, bool]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    entry = admin.describe_configs([resource])[resource].result(ANSWER_SECONDS)["retention.ms"]
    return entry.value, entry.is_default


def check(server: BrokerProcess, changes: Changes) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    topics = admin.list_topics(timeout=ANSWER_SECONDS).topics
    assert set(changes.existing) <= set(topics), "an answered creation is lost"
    assert not changes.gone & set(topics), "a deleted topic came back"
    assert set(topics) <= set(changes.existing) | changes.in_doubt, "a topic that was not created"
    for topic in topics.values():
        assert all(partition.leader >= 0 for partition in topic.partitions.values())
    for name, retention_ms in changes.existing.items():
        value, is_default = retention_of(admin, name)
        assert is_default if retention_ms is None else value == retention_ms


@pytest.mark.slow
def test_answered_changes_hold_and_deleted_topics_stay_gone(chance):
    with BrokerProcess() as server:
        admin = AdminClient(
            {
                "bootstrap.servers": server.bootstrap_servers,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "metadata.recovery.strategy": "none",
                "socket.timeout.ms": 5000,
                "log_level": 0,
            }
        )
        changes = Changes(admin, chance)
        worker = threading.Thread(target=changes.run)
        worker.start()
        try:
            for _ in range(15):
                time.sleep(chance.uniform(0.1, 1.0))
                server.kill()
                server.start()
        finally:
            changes.stop.set()
            worker.join()
        check(server, changes)
        server.kill()
        server.start()
        check(server, changes)
        assert changes.gone, "nothing was deleted"
        assert "Traceback" not in server.words()
