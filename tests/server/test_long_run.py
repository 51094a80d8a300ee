"""Half an hour of mixed load: memory and descriptors stay where they were after the warm-up.

STROM_SOAK_MINUTES sets another length.
"""

import os
import random
import socket
import time

import pika
import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import BrokerProcess
from tests.server.growth import Sample, growth

MIB = 2**20
MINUTES = float(os.environ.get("STROM_SOAK_MINUTES", "30"))
LEAST_ROUNDS = 20
TIMEOUT_S = 60
RECORDS = 500
KEYS = 1000
MESSAGES = 100
RSS_TOLERANCE = 0.1
"""Of the median. A leak of 100 bytes per record would exceed it in half an hour."""
DESCRIPTOR_TOLERANCE = 8
SETTINGS = {
    # Old segments and producers must go in the time of the test, or they would be taken for a leak.
    "log.retention.check.interval.ms": "2000",
    "log.cleaner.backoff.ms": "2000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "producer.id.expiration.ms": "10000",
    "log.cleaner.delete.retention.ms": "1000",
}


class MixedLoad:
    """One round of what clients do, from new connections that are closed at its end."""

    def __init__(self, server: BrokerProcess, chance: random.Random) -> None:
        self._server = server
        self._chance = chance
        self._address = {"bootstrap.servers": server.bootstrap_servers}
        self._round = 0
        self._consumed = 0
        admin = AdminClient(self._address)
        bounded = {"segment.bytes": str(MIB), "retention.bytes": str(2 * MIB)}
        compacted = {"segment.bytes": str(MIB), "cleanup.policy": "compact"}
        wanted = [NewTopic("log", 2, config=bounded), NewTopic("table", 1, config=compacted)]
        for made in admin.create_topics(wanted).values():
            made.result(TIMEOUT_S)
        with self._amqp() as connection:
            connection.channel().queue_declare("q", durable=True)

    def run(self) -> None:
        self._round += 1
        self._produce()
        self._produce_in_a_transaction()
        self._consume()
        self._exchange_messages()
        self._create_and_delete()
        self._send_nonsense()

    def _amqp(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.URLParameters(self._server.amqp_url))

    def _produce(self) -> None:
        producer = Producer({**self._address, "enable.idempotence": True})
        for number in range(RECORDS):
            producer.produce("log", self._chance.randbytes(1000))
            producer.produce("table", b"%d" % number, key=b"%d" % self._chance.randrange(KEYS))
        assert producer.flush(TIMEOUT_S) == 0

    def _produce_in_a_transaction(self) -> None:
        producer = Producer({**self._address, "transactional.id": "soak"})
        producer.init_transactions(TIMEOUT_S)
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce("log", b"transactional")
            end(TIMEOUT_S)

    def _consume(self) -> None:
        consumer = Consumer({**self._address, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["log"])
        try:
            deadline = time.monotonic() + TIMEOUT_S
            found = 0
            while found < RECORDS:
                assert time.monotonic() < deadline, "nothing is delivered any more"
                found += len(consumer.consume(1000, 0.5))
            self._consumed += found
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    def _exchange_messages(self) -> None:
        with self._amqp() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            persistent = pika.BasicProperties(delivery_mode=2)
            for number in range(MESSAGES):
                channel.basic_publish("", "q", b"%d" % number, persistent)
            for _ in range(MESSAGES):
                method, _, _ = channel.basic_get("q")
                assert method is not None
                channel.basic_ack(method.delivery_tag)

    def _create_and_delete(self) -> None:
        admin = AdminClient(self._address)
        name = f"short-lived-{self._round}"
        admin.create_topics([NewTopic(name, 3)])[name].result(TIMEOUT_S)
        admin.delete_topics([name])[name].result(TIMEOUT_S)
        with pytest.raises(KafkaException):
            admin.delete_topics([name])[name].result(TIMEOUT_S)

    def _send_nonsense(self) -> None:
        host, port = self._server.bootstrap_servers.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
            connection.sendall(self._chance.randbytes(200))


@pytest.mark.soak
def test_memory_and_descriptors_stay_level():
    seed = int(os.environ.get("STROM_SEED", random.SystemRandom().randrange(2**32)))
    print(f"STROM_SEED={seed}")
    memory: list[Sample] = []
    descriptors: list[Sample] = []
    with BrokerProcess(settings=SETTINGS, queues=True) as server:
        broker = psutil.Process(server.pid)
        load = MixedLoad(server, random.Random(seed))
        began = time.monotonic()
        while time.monotonic() < began + 60 * MINUTES or len(memory) < LEAST_ROUNDS:
            load.run()
            at_s = time.monotonic() - began
            memory.append(Sample(at_s, broker.memory_info().rss))
            descriptors.append(Sample(at_s, broker.num_fds()))
        words = server.words()
    middle = sorted(one.value for one in memory)[len(memory) // 2]
    print(f"{len(memory)} rounds, {middle / MIB:.0f} MiB, grown by {growth(memory) / MIB:.1f} MiB")
    print(f"{descriptors[-1].value:.0f} descriptors, grown by {growth(descriptors):.1f}")
    assert growth(memory) < RSS_TOLERANCE * middle
    assert growth(descriptors) < DESCRIPTOR_TOLERANCE
    assert "Traceback" not in words, words


@pytest.mark.parametrize("leak_a_second", [0, 10])
def test_growth_is_distinguished_from_noise(leak_a_second: int):
    noise = random.Random(1)

    def value(at_s: int) -> float:
        """A warm-up, a leak, noise, and a peak now and then."""
        peak = 5000 if at_s % 97 == 0 else 0
        return 50 * min(at_s, 300) + leak_a_second * at_s + noise.gauss(0, 100) + peak

    samples = [Sample(at_s, value(at_s)) for at_s in range(0, 1801, 5)]
    assert growth(samples) == pytest.approx(1200 * leak_a_second, abs=100)
