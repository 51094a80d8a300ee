"""kill -9 under load: nothing acknowledged is lost, and nothing is there twice."""

import random
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess
from tests.crash.ledger import read_topic
from tests.crash.load import Load

PARTITIONS = 3
TOPIC = "clicks"
SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "200"}
"""Checkpoints come often, so that kills hit them too."""
CONFIGS = {"segment.bytes": "1048576"}
"""Segments are small, so that kills hit their change too."""


def run(
    kills: int, chance: random.Random, *, longest_s: float, duplicates: bool = False, **client: Any
) -> int:
    """Kill the broker again and again; returns how many records were acknowledged."""
    with BrokerProcess(settings=SETTINGS) as server:
        address = server.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, config=CONFIGS)])[TOPIC].result(30)
        with Load(address, TOPIC, PARTITIONS, **client) as load:
            for _ in range(kills):
                load.wait_for_progress()
                time.sleep(chance.uniform(0, longest_s))
                server.kill()
                server.start()
            load.finish()
        assert load.ledger.refused == []
        load.ledger.check(read_topic(address, TOPIC, PARTITIONS), duplicates=duplicates)
        server.kill()
        server.start()
        load.ledger.check(read_topic(address, TOPIC, PARTITIONS), duplicates=duplicates)
        assert "Traceback" not in server.words()
        assert "quarantined" not in server.words()
    return len(load.ledger.acked)


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(4))
def test_a_hundred_kills_lose_and_duplicate_nothing_of_idempotent_producers(chance, quarter):
    acked = run(25, chance, longest_s=0.7)
    assert acked > 2_500, "there was no load worth the name"


@pytest.mark.slow
def test_kills_lose_nothing_of_producers_without_idempotence(chance):
    acked = run(15, chance, longest_s=0.7, duplicates=True, **{"enable.idempotence": False})
    assert acked > 1_000, "there was no load worth the name"


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(10))
def test_a_thousand_kills_lose_and_duplicate_nothing(chance, hundred):
    run(100, chance, longest_s=2.0)
