"""A full disk: publishers are refused and held back, consumers go on, and it ends with the shortage."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from confluent_kafka import Consumer, TopicPartition
from pika.exceptions import AMQPError, NackError

from strom.testing import BrokerProcess
from tests.crash import mounts

MIB = 1024 * 1024
PERSISTENT = pika.BasicProperties(delivery_mode=2)

pytestmark = [
    pytest.mark.skipif(mounts.why_not() is not None, reason=str(mounts.why_not())),
    pytest.mark.slow,
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounts.small_disk(tmp_path, size_mib=8) as folder:
        yield folder


def body(number: int) -> bytes:
    return b"%06d" % number + b"." * 20_000


def fill(channel) -> list[int]:
    """Publish until the broker refuses; what was confirmed."""
    confirmed: list[int] = []
    for number in range(2000):
        try:
            channel.basic_publish("", "q", body(number), PERSISTENT)
        except NackError:
            return confirmed
        confirmed.append(number)
    raise AssertionError("the disk was never full")


def test_publishers_are_refused_and_nothing_confirmed_is_lost(disk):
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(2 * MIB))
    with BrokerProcess(data=str(disk / "data"), queues=True) as server:
        connection = pika.BlockingConnection(pika.URLParameters(server.amqp_url))
        told = []
        connection.add_on_connection_blocked_callback(lambda *_: told.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        confirmed = fill(channel)
        assert len(confirmed) > 50
        connection.process_data_events(time_limit=0.5)
        assert told[0] == "blocked"
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as other:
            assert other.channel().basic_get("q")[2] == body(0)  # consumers go on
        ballast.unlink()
        deadline = time.monotonic() + 30
        while told[-1] != "unblocked":
            assert time.monotonic() < deadline, "it stayed blocked"
            connection.process_data_events(time_limit=0.2)
        for number in range(5000, 5005):
            channel.basic_publish("", "q", body(number), PERSISTENT)
            confirmed.append(number)
        connection.close()
        for end in (server.kill, server.terminate):
            end()
            server.start()
            check(server, confirmed)
        assert "Traceback" not in server.words()


def test_a_start_on_a_full_disk_serves_consumers_and_then_publishers(disk):
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(2 * MIB))
    with BrokerProcess(data=str(disk / "data"), queues=True) as server:
        blocked = pika.BlockingConnection(pika.URLParameters(server.amqp_url))
        channel = blocked.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        confirmed = fill(channel)
        server.kill()
        with pytest.raises(AMQPError):
            blocked.process_data_events(10)
        mounts.use_up(disk)
        server.start()
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            assert channel.basic_get("q")[2] == body(
                confirmed[0]
            )  # and it goes back unacknowledged
            with pytest.raises(NackError):
                channel.basic_publish("", "q", body(4000), PERSISTENT)
            ballast.unlink()
            for _ in range(300):
                try:
                    channel.basic_publish("", "q", body(5000), PERSISTENT)
                    break
                except NackError:
                    connection.sleep(0.1)
            else:
                raise AssertionError("it stayed read-only")
        server.kill()
        server.start()
        check(server, [*confirmed, 5000])
        for word in ("Traceback", "quarantined"):
            assert word not in server.words()


@pytest.mark.parametrize("is_killed", [False, True])
def test_dead_letters_of_a_full_broker_are_in_their_queue_or_in_the_topic(disk, is_killed):
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(2 * MIB))
    with BrokerProcess(data=str(disk / "data"), queues=True) as server:
        connection = pika.BlockingConnection(pika.URLParameters(server.amqp_url))
        channel = connection.channel()
        channel.exchange_declare(
            "x", "fanout", durable=True, arguments={"x-strom-to-topic": "dead"}
        )
        channel.queue_declare("q", durable=True, arguments={"x-dead-letter-exchange": "x"})
        channel.confirm_delivery()
        confirmed = fill(channel)
        with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as other:
            refusing = other.channel()
            for _ in range(10):
                refusing.basic_reject(refusing.basic_get("q")[0].delivery_tag, requeue=False)
        if is_killed:
            server.kill()
        ballast.unlink()
        if is_killed:
            server.start()
        found = set(waiting(server))
        deadline = time.monotonic() + 30
        while not set(confirmed) <= found:
            assert time.monotonic() < deadline, f"lost: {set(confirmed) - found}"
            found |= dead(server)
        with contextlib.suppress(AMQPError):  # after a kill it is closed already
            connection.close()
        assert "Traceback" not in server.words()


def dead(server: BrokerProcess) -> set[int]:
    consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition("dead", 0, 0)])
    messages = consumer.consume(100, timeout=1)
    consumer.close()
    return {int((message.value() or b"")[:6]) for message in messages if not message.error()}


def check(server: BrokerProcess, confirmed: list[int]) -> None:
    """All that was confirmed waits, in order."""
    found = waiting(server)
    assert found == sorted(found)
    assert set(confirmed) <= set(found)


def waiting(server: BrokerProcess) -> list[int]:
    with pika.BlockingConnection(pika.URLParameters(server.amqp_url)) as connection:
        channel = connection.channel()
        found = []
        while (got := channel.basic_get("q"))[0] is not None:
            found.append(int(got[2][:6]))
        return found
