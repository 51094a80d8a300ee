"""A full disk: producers are refused, consumers go on, and all is well when there is space again."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess
from tests.crash import mounts
from tests.crash.ledger import Ledger, read_topic

TOPIC = "clicks"
MIB = 1024 * 1024

pytestmark = [
    pytest.mark.skipif(mounts.why_not() is not None, reason=str(mounts.why_not())),
    pytest.mark.slow,
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounts.small_disk(tmp_path, size_mib=8) as folder:
        yield folder


def producer_for(server: BrokerProcess) -> Producer:
    return Producer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "acks": "all",
            "retries": 0,
            "batch.num.messages": 1,
            "max.in.flight": 1,
            "log_level": 0,
        }
    )


def send(producer: Producer, ledger: Ledger, number: int) -> None:
    value = b"%06d" % number + b"." * 20_000
    ledger.note_sent(0, value)
    producer.produce(TOPIC, value, partition=0, on_delivery=ledger.note_answer)
    assert producer.flush(30) == 0


def fill_until_refused(producer: Producer, ledger: Ledger, numbers: Iterator[int]) -> None:
    for number in numbers:
        send(producer, ledger, number)
        if ledger.refused:
            return
        assert number < 2000, "the disk was never full"


def test_producers_are_refused_consumers_read_on_and_nothing_acknowledged_is_lost(disk):
    numbers = iter(range(10_000))
    ledger = Ledger()
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(2 * MIB))
    with BrokerProcess(data=str(disk / "data")) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        configs = {"segment.bytes": str(MIB)}
        admin.create_topics([NewTopic(TOPIC, 1, config=configs)])[TOPIC].result(30)
        producer = producer_for(server)
        fill_until_refused(producer, ledger, numbers)
        assert "KAFKA_STORAGE_ERROR" in ledger.refused[0][1]
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, 1))
        for _ in range(3):
            send(producer, ledger, next(numbers))
        ballast.unlink()
        acked = len(ledger.acked)
        for _ in range(10):
            send(producer, ledger, next(numbers))
        assert len(ledger.acked) == acked + 10, ledger.refused[-1]
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, 1))
        assert server.exit_code is None
        for end in (server.kill, server.terminate):
            end()
            server.start()
            ledger.check(read_topic(server.bootstrap_servers, TOPIC, 1))
        assert "Traceback" not in server.words()


def refusals(server: BrokerProcess) -> list[str]:
    return [line for line in server.words().splitlines() if "are rejected" in line]


def test_a_broker_that_was_killed_on_a_full_disk_starts_there_and_reads(disk):
    numbers = iter(range(10_000))
    ledger = Ledger()
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(2 * MIB))
    with BrokerProcess(data=str(disk / "data")) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        configs = {"segment.bytes": str(MIB)}
        admin.create_topics([NewTopic(TOPIC, 1, config=configs)])[TOPIC].result(30)
        fill_until_refused(producer_for(server), ledger, numbers)
        (line,) = refusals(server)
        assert "ERROR" in line
        assert str(disk / "data") in line
        assert "bytes are free" in line
        server.kill()
        mounts.use_up(disk)
        server.start()
        assert len(refusals(server)) == 2, "one line for each life"
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, 1))
        producer = producer_for(server)
        refused = len(ledger.refused)
        send(producer, ledger, next(numbers))
        assert len(ledger.refused) == refused + 1
        ballast.unlink()
        acked = len(ledger.acked)
        for _ in range(300):
            send(producer, ledger, next(numbers))
            if len(ledger.acked) > acked:
                break
            time.sleep(0.1)
        assert len(ledger.acked) > acked, "it stayed read-only"
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, 1))
        for word in ("Traceback", "quarantined", "backup"):
            assert word not in server.words()
        assert len(refusals(server)) == 2
        server.kill()
        server.start()
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, 1))
