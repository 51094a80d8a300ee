"""The power goes: the file system itself forgets what was not synced (FS_IOC_SHUTDOWN on ext4).

A killed process proves little about syncing, because the operating system keeps what it was given.
Here it does not.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess
from tests.crash import mounts
from tests.crash.ledger import Ledger, read_topic
from tests.crash.load import Load

PARTITIONS = 3
TOPIC = "clicks"
SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "100"}

pytestmark = pytest.mark.skipif(mounts.why_not() is not None, reason=str(mounts.why_not()))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[mounts.LosableDisk]:
    disk = mounts.LosableDisk(tmp_path)
    try:
        disk.mount()
        yield disk
    finally:
        disk.unmount()


def lose_power(server: BrokerProcess, disk: mounts.LosableDisk) -> None:
    # The broker first: a sync during which ext4 is shut down reports success although its last extents
    # stay unwritten. A program that lives on then would acknowledge what no real power cut lets it.
    server.kill()
    disk.cut_power()
    disk.unmount()
    disk.mount()


def run(
    disk: mounts.LosableDisk, cycles: int, chance: random.Random, flush: str
) -> tuple[Ledger, dict[int, list[bytes]]]:
    """Cut the power again and again under load; the books, and what is there in the end."""
    server = BrokerProcess(data=f"{disk.mounted_at}/data", settings={**SETTINGS, "flush": flush})
    with server:
        address = server.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": address})
        configs = {"segment.bytes": "1048576"}
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, config=configs)])[TOPIC].result(30)
        with Load(address, TOPIC, PARTITIONS, **{"enable.idempotence": flush == "disk"}) as load:
            for _ in range(cycles):
                load.wait_for_progress()
                time.sleep(chance.uniform(0, 0.6))
                lose_power(server, disk)
                server.start()
            load.finish()
        found = read_topic(address, TOPIC, PARTITIONS)
        lose_power(server, disk)
        server.start()
        assert "Traceback" not in server.words()
        assert "quarantined" not in server.words()
        if flush == "disk":
            assert read_topic(address, TOPIC, PARTITIONS) == found
        else:
            found = read_topic(address, TOPIC, PARTITIONS)
    assert load.ledger.refused == []
    return load.ledger, found


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_with_the_power(disk, chance):
    ledger, found = run(disk, 10, chance, "disk")
    assert len(ledger.acked) > 500, "there was no load worth the name"
    ledger.check(found)


@pytest.mark.slow
def test_with_flush_os_records_may_be_lost_but_there_is_never_a_hole_or_a_wrong_byte(disk, chance):
    ledger, found = run(disk, 8, chance, "os")
    ledger.check_nothing_is_invented(found)


@pytest.mark.soak
@pytest.mark.parametrize("fifty", range(10))
def test_five_hundred_power_cuts_lose_nothing(disk, chance, fifty):
    ledger, found = run(disk, 50, chance, "disk")
    ledger.check(found)
