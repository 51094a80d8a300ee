"""More connections than the process may have files open: some are refused, and nothing else."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess
from tests.crash import few_descriptors
from tests.crash.ledger import Ledger, read_topic

TOPIC, PARTITIONS = "clicks", 8
START_MS = 1_700_000_000_000
MANY = few_descriptors.LIMIT + 50

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit"),
    pytest.mark.slow,
]


@contextmanager
def connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    """So many clients that connect and say nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            for _ in range(count)
        ]


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def send_to_all(producer: Producer, ledger: Ledger, number: int) -> None:
    for partition in range(PARTITIONS):
        value = b"%06d %d" % (number, partition)
        ledger.note_sent(partition, value)
        producer.produce(
            TOPIC,
            value,
            partition=partition,
            timestamp=START_MS + number * 10_000,
            on_delivery=ledger.note_answer,
        )
    assert producer.flush(20) == 0


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2].partition("/")[0])


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_answered(port: int) -> bool:
    """Whether a new client gets a response."""
    request = bytes.fromhex("0000000a 0012 0000 00000001 0000")  # ApiVersions
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(request)
            return client.recv(1) != b""
    except ConnectionError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_without_any_descriptor_serves_those_it_has_and_recovers():
    ledger = Ledger()
    with BrokerProcess(module="tests.crash.few_descriptors") as server:
        port = port_of(server.bootstrap_servers)
        # One broker connection each, which is open already when there are no descriptors any more.
        servers = {"bootstrap.servers": server.bootstrap_servers, "log_level": 0}
        admin = AdminClient(servers)
        topic = NewTopic(TOPIC, PARTITIONS, config={"segment.ms": "1000"})
        admin.create_topics([topic])[TOPIC].result(30)
        producer = Producer(servers | {"enable.idempotence": True, "linger.ms": 0})
        for number in range(3):
            send_to_all(producer, ledger, number)
        os.kill(server.pid, signal.SIGUSR1)
        until(lambda: descriptors_of(server.pid) >= few_descriptors.LIMIT)
        assert not any(is_answered(port) for _ in range(20)), "there is no descriptor for a client"
        send_to_all(producer, ledger, 3)  # into new segments, by the spare descriptors
        created = admin.create_topics([NewTopic("new", 40)], operation_timeout=20)["new"]
        refusal = created.exception(30)
        assert refusal is None or refusal.args[0].code() == KafkaError.KAFKA_STORAGE_ERROR, refusal
        assert server.exit_code is None
        os.kill(server.pid, signal.SIGUSR2)
        until(lambda: is_answered(port))
        send_to_all(producer, ledger, 4)
        if refusal is not None:
            admin.create_topics([NewTopic("new", 40)])["new"].result(30)
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, PARTITIONS))
        assert not ledger.refused
        words = server.words()
        for sign in ("offline", "fsync", "Traceback", "quarantined"):
            assert sign not in words, words
        server.kill()
        server.start()
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, PARTITIONS))
        assert len(admin.list_topics("new", 30).topics["new"].partitions) == 40


def test_a_crowd_of_connections_takes_no_descriptor_that_the_log_needs():
    ledger = Ledger()
    with BrokerProcess(module="tests.crash.few_descriptors", queues=True) as server:
        servers = {"bootstrap.servers": server.bootstrap_servers, "log_level": 0}
        configs = {"segment.ms": "1000"}  # with these times every record is in a file of its own
        topic = NewTopic(TOPIC, PARTITIONS, config=configs)
        admin = AdminClient(servers)
        admin.create_topics([topic])[TOPIC].result(30)
        producer = Producer(servers | {"enable.idempotence": True, "linger.ms": 0})
        send_to_all(producer, ledger, 0)
        numbers = iter(range(1, 100))
        for port in (port_of(server.bootstrap_servers), port_of(server.amqp_url)):
            with connections(port, MANY) as crowd:
                for _ in range(5):
                    send_to_all(producer, ledger, next(numbers))
                assert server.exit_code is None
                assert not all(is_open(client) for client in crowd)
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, PARTITIONS))
        assert not ledger.refused
        words = server.words()
        for sign in ("offline", "fsync", "Traceback", "quarantined"):
            assert sign not in words
        server.kill()
        server.start()
        ledger.check(read_topic(server.bootstrap_servers, TOPIC, PARTITIONS))
