"""The power goes under the load of a queue: what was confirmed is delivered, what comes again says so."""

import random
import time

import pytest

from strom.testing import BrokerProcess
from tests.crash import mounts
from tests.crash.queue_load import QueueLoad
from tests.crash.test_power_loss import disk, lose_power  # noqa: F401 - a fixture

pytestmark = pytest.mark.skipif(mounts.why_not() is not None, reason=str(mounts.why_not()))

SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "100"}


def run(losable: mounts.LosableDisk, cuts: int, chance: random.Random) -> int:
    """Cut the power again and again; how many messages were confirmed."""
    data = f"{losable.mounted_at}/data"
    with BrokerProcess(data=data, settings=SETTINGS, queues=True) as server:
        with QueueLoad(lambda: server.amqp_url) as load:
            for _ in range(cuts):
                load.wait_for_progress()
                time.sleep(chance.uniform(0, 0.6))
                lose_power(server, losable)
                server.start()
            load.finish()
        load.check()
        assert "Traceback" not in server.words(), server.words()[-6000:]
    return len(load.confirmed)


@pytest.mark.slow
def test_no_confirmed_message_is_lost_with_the_power(disk, chance):  # noqa: F811
    assert run(disk, 8, chance) > 100, "there was no load worth the name"


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_a_hundred_power_cuts_lose_no_confirmed_message(disk, chance, part):  # noqa: F811
    run(disk, 10, chance)
