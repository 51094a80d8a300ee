"""kill -9 under load of a queue: what was confirmed is delivered, in order; what comes again says so."""

import random
import time

import pytest

from strom.testing import BrokerProcess
from tests.crash.queue_load import QueueLoad


def run(kills: int, chance: random.Random, longest_s: float) -> int:
    """Kill the broker again and again; how many messages were confirmed."""
    with BrokerProcess(queues=True) as server:
        with QueueLoad(lambda: server.amqp_url) as load:
            for _ in range(kills):
                load.wait_for_progress()
                time.sleep(chance.uniform(0, longest_s))
                server.kill()
                server.start()
            load.finish()
        load.check()
        assert "Traceback" not in server.words()
    return len(load.confirmed)


@pytest.mark.slow
def test_kills_lose_no_confirmed_message(chance):
    assert run(15, chance, 0.5) > 1000, "there was no load worth the name"


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_two_hundred_kills_lose_no_confirmed_message(chance, part):
    run(20, chance, 2.0)
