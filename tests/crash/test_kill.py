"""kill -9 under load: nothing acknowledged is lost, and nothing is there twice."""

import os
import random
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.crash.ledger import read_topic
from tests.crash.load import Load

from strom.testing import BrokerProcess

PARTITIONS = 3
TOPIC = "clicks"
SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "200"}
"""Checkpoints come often, so that kills hit them too."""


@pytest.fixture
def chance(record_property):
    seed = int(os.environ.get("STROM_SEED", random.SystemRandom().randrange(2**32)))
    print(f"STROM_SEED={seed}")
    return random.Random(seed)


def create(server: BrokerProcess, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, config=configs)])[TOPIC].result(30)


def kill_again_and_again(
    server: BrokerProcess, kills: int, chance: random.Random, longest_s: float
) -> None:
    for _ in range(kills):
        time.sleep(chance.uniform(0.05, longest_s))
        server.kill()
        server.start()


def run(kills: int, chance: random.Random, *, duplicates: bool, longest_s: float, **client) -> int:
    with BrokerProcess(settings=SETTINGS) as server:
        create(server, **{"segment.bytes": "1048576"})
        with Load(server.bootstrap_servers, TOPIC, PARTITIONS, **client) as load:
            kill_again_and_again(server, kills, chance, longest_s)
            load.finish()
        ledger = load.ledger
        assert ledger.refused == []
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, PARTITIONS), duplicates=duplicates)
        server.kill()
        server.start()
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, PARTITIONS), duplicates=duplicates)
        assert "Traceback" not in server.words()
        return len(ledger.acked)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_hundred_kills_lose_and_duplicate_nothing_of_idempotent_producers(chance):
    acked = run(100, chance, duplicates=False, longest_s=0.8)
    print(f"{acked} records acknowledged")
    assert acked > 5_000, "there was no load worth the name"


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_kills_lose_nothing_of_producers_without_idempotence(chance):
    acked = run(20, chance, duplicates=True, longest_s=0.8, **{"enable.idempotence": False})
    assert acked > 1_000, "there was no load worth the name"


@pytest.mark.soak
@pytest.mark.parametrize("round_number", range(10))
def test_a_thousand_kills_lose_and_duplicate_nothing(chance, round_number):
    run(100, chance, duplicates=False, longest_s=2.0)
