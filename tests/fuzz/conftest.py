"""A broker to attack: in a process of its own, with topics, and with an eye on its memory."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess

HEALTHY_TOPIC = "healthy"


@dataclass
class Victim:
    """A broker under attack."""

    server: BrokerProcess

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.server.bootstrap_servers

    def memory_mib(self) -> float:
        """What it holds in memory."""
        return float(psutil.Process(self.server.pid).memory_info().rss) / 2**20

    def check_alive(self) -> None:
        """It runs, and has not stumbled."""
        assert self.server.exit_code is None, "the broker has ended"
        assert "Traceback" not in self.server.words(), self.server.words()[-4000:]


@pytest.fixture
def seed() -> int:
    """Set STROM_SEED to what a failed run printed, to have the same frames again."""
    seed = int(os.environ.get("STROM_SEED", random.SystemRandom().randrange(2**32)))
    print(f"STROM_SEED={seed}")
    return seed


@pytest.fixture
def victim() -> Iterator[Victim]:
    """A broker with topics: two plain ones, a compacted one, and one of the healthy client."""
    settings = {"auto.create.topics.enable": "false"}
    with BrokerProcess(settings=settings) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        topics = [
            NewTopic("fuzzed-a", 2),
            NewTopic("fuzzed-b", 1, config={"flush": "os"}),
            NewTopic("fuzzed-compacted", 1, config={"cleanup.policy": "compact"}),
            NewTopic(HEALTHY_TOPIC, 1),
        ]
        for created in admin.create_topics(topics).values():
            created.result(30)
        victim = Victim(server)
        yield victim
        victim.check_alive()
