"""What kafka-python and confluent-kafka show in their READMEs does on strom what it does on Kafka.

Nothing of the examples is changed but the address of the broker. They read until they are stopped.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import Target
from tools import kafka, published_examples

PATIENCE_SECONDS = 40


@pytest.fixture
def address(target: Target) -> str:
    """The address of the broker that all tests share: no two examples name the same topic or group."""
    return target.bootstrap_servers


def published(find: Callable[[str], str], containing: str) -> str:
    try:
        return find(containing)
    except kafka.UnavailableError as reason:
        pytest.skip(str(reason))


def for_kafka_python(example: str, bootstrap_servers: str) -> str:
    """The example, with another default than localhost:9092 for the address."""
    classes = "kafka.KafkaConsumer, kafka.KafkaProducer"
    return (
        f"import kafka\nfrom kafka import KafkaConsumer, KafkaProducer\nfor one in {classes}:\n"
        f"    one.DEFAULT_CONFIG['bootstrap_servers'] = {bootstrap_servers!r}\n{example}"
    )


def create_topic(bootstrap_servers: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(name, 1)])[name].result(30)


class Running:
    """A program, and what it has printed so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.output = ""
        self._process = process
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def prints(
        self, words: str, *, times: int = 1, meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """Whether the words come, before patience is at its end."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.output.count(words) < times and time.monotonic() < deadline:
            meanwhile()
            time.sleep(0.1)
        return self.output.count(words) >= times

    def ends_well(self) -> bool:
        """Whether it comes to its end by itself, and without an error."""
        return self._process.wait(PATIENCE_SECONDS) == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            self.output += line


@contextmanager
def running(program: str) -> Iterator[Running]:
    started = Running(
        subprocess.Popen(
            [sys.executable, "-u", "-W", "ignore", "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    )
    try:
        yield started
    finally:
        started.kill()


@pytest.mark.slow
def test_kafka_pythons_consumer_in_a_group(address: str) -> None:
    example = published(published_examples.kafka_python, "group_id='my_favorite_group'")
    create_topic(address, "my_favorite_topic")
    producer = Producer({"bootstrap.servers": address})

    def send() -> None:  # it reads only what comes after it has joined
        producer.produce("my_favorite_topic", "hello")
        producer.flush(10)

    with running(for_kafka_python(example, address)) as program:
        assert program.prints("value=b'hello'", meanwhile=send), program.output


@pytest.mark.slow
def test_kafka_pythons_transactions_and_their_reader(address: str) -> None:
    write = published(published_examples.kafka_python, "transactional_id='fizzbuzz'")
    read = published(published_examples.kafka_python, "isolation_level=IsolationLevel")
    create_topic(address, "txn_topic")

    def write_once() -> (
        None
    ):  # again and again: the reader reads only what comes after it has begun
        with running(for_kafka_python(write, address)) as writer:
            assert writer.ends_well(), writer.output

    with running(for_kafka_python(read, address)) as reader:
        assert reader.prints("value=b'yes'", meanwhile=write_once), reader.output
        before = reader.output.count("value=b'yes'")
        write_once()
        assert reader.prints("value=b'yes'", times=before + 1), reader.output
        assert "value=b'no'" not in reader.output


@pytest.mark.slow
def test_confluents_consumer_in_a_group(address: str) -> None:
    example = published(published_examples.confluent_kafka, "'group.id': 'mygroup'")
    create_topic(address, "mytopic")
    producer = Producer({"bootstrap.servers": address})
    producer.produce("mytopic", "hello")
    assert producer.flush(10) == 0
    with running(example.replace("'mybroker'", repr(address))) as program:
        assert program.prints("Received message: hello"), program.output
