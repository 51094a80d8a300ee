"""The clients that put load on a broker: librdkafka, each in a process of its own.

`run(job)` does a job in a fresh process, so that it shares neither the interpreter nor any warm
state with another one, and gives the job's result.
"""

import itertools
import multiprocessing
import random
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from benchmarks.peers import SILENT

T_co = TypeVar("T_co", covariant=True)

FLUSH_SECONDS = 120
STALL_SECONDS = 60
_CALL_RECORDS = 1000
"""Records that are handed to librdkafka in one call; the next call is for the next partition."""
_DISTINCT_RECORDS = 20_000


class Job(Protocol[T_co]):
    """Something to do in a client process."""

    def __call__(self) -> T_co:
        """Do it, and give its result."""
        ...


def run(job: Job[T_co]) -> T_co:
    """Do a job in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(job).result()


@dataclass(frozen=True)
class Produce:
    """Produce records with acks=all; the result is records per second."""

    bootstrap_servers: str
    topic: str
    records: int
    record_bytes: int = 100
    partitions: int = 1
    compression: str = "none"
    batch_records: int = 10_000

    def __call__(self) -> float:
        """From the first record until the last one is acknowledged."""
        failures: list[KafkaError] = []
        producer = Producer(self._settings())
        producer.list_topics(self.topic, timeout=FLUSH_SECONDS)
        values = clicks(self.record_bytes, min(self.records, _DISTINCT_RECORDS))
        calls = [
            [{"value": value} for value in values[start : start + _CALL_RECORDS]]
            for start in range(0, len(values), _CALL_RECORDS)
        ]
        began = time.perf_counter()
        missing = self.records
        for call, partition in zip(
            itertools.cycle(calls), itertools.cycle(range(self.partitions)), strict=False
        ):
            queued = producer.produce_batch(
                self.topic,
                call if missing >= len(call) else call[:missing],
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
            missing -= queued
            if not missing:
                break
            producer.poll(0 if queued else 0.01)
        left = producer.flush(FLUSH_SECONDS)
        seconds = time.perf_counter() - began
        if left or failures:
            raise RuntimeError(
                f"{left} records were not sent, {len(failures)} failed: {failures[:1]}"
            )
        return self.records / seconds

    def _settings(self) -> dict[str, str | int | bool]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "log_level": SILENT,
            "acks": "all",
            "compression.type": self.compression,
            "linger.ms": 5,
            "delivery.report.only.error": True,
            "batch.num.messages": self.batch_records,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 1_048_576,
        }


@dataclass(frozen=True)
class ProduceInTransactions:
    """Produce records in transactions, one after the other; the result is records per second."""

    bootstrap_servers: str
    topic: str
    transactional_id: str
    transactions: int
    records: int
    """In each transaction."""
    record_bytes: int = 100
    partitions: int = 1

    def __call__(self) -> float:
        """From the begin of the first transaction to the end of the last."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "log_level": SILENT,
                "transactional.id": self.transactional_id,
                "linger.ms": 5,
                "delivery.report.only.error": True,
            }
        )
        producer.init_transactions(FLUSH_SECONDS)
        values = [{"value": value} for value in clicks(self.record_bytes, self.records)]
        shares = [values[one :: self.partitions] for one in range(self.partitions)]
        self._one_transaction(producer, shares)  # the first one finds the partitions
        began = time.perf_counter()
        for _ in range(self.transactions):
            self._one_transaction(producer, shares)
        return self.transactions * self.records / (time.perf_counter() - began)

    def _one_transaction(self, producer: Producer, shares: list[list[dict[str, bytes]]]) -> None:
        producer.begin_transaction()
        for partition, share in enumerate(shares):
            if producer.produce_batch(self.topic, share, partition=partition) != len(share):
                raise RuntimeError("the producer's queue is full")
        producer.flush(FLUSH_SECONDS)
        # It raises if any record was not acknowledged.
        producer.commit_transaction(FLUSH_SECONDS)


@dataclass(frozen=True)
class Consume:
    """Read records by assignment, without a group; the result is records per second."""

    bootstrap_servers: str
    topic: str
    records: int
    partitions: int = 1
    first_offset: int = 0

    def __call__(self) -> float:
        """From the arrival of the first records to that of the last."""
        consumer = Consumer(self._settings())
        consumer.assign(
            [TopicPartition(self.topic, one, self.first_offset) for one in range(self.partitions)]
        )
        missing = self.records - self._read(consumer, 1)
        timed = missing
        began = time.perf_counter()
        while missing > 0:
            missing -= self._read(consumer, min(missing, _CALL_RECORDS))
        seconds = time.perf_counter() - began
        consumer.close()
        return timed / seconds

    def _read(self, consumer: Consumer, count: int) -> int:
        # It waits until there are as many as asked for.
        messages = consumer.consume(count, timeout=STALL_SECONDS)
        if not messages:
            raise RuntimeError(f"no more records came from {self.topic}")
        for message in messages:
            if (error := message.error()) is not None:
                raise KafkaException(error)
        return len(messages)

    def _settings(self) -> dict[str, str | int | bool]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "log_level": SILENT,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.queue.backoff.ms": 0,
            "queued.min.messages": 500_000,
            "queued.max.messages.kbytes": 1_048_576,
            "fetch.message.max.bytes": 4 * 1024 * 1024,
        }


def clicks(size: int, count: int) -> list[bytes]:
    """Records of exactly this size that look like clicks, and compress as such do; always the same."""
    source = random.Random(size)
    records = []
    for number in range(count):
        text = (
            f'{{"user":"user-{source.randrange(10_000)}","page":"/articles/{source.randrange(500)}",'
            f'"ms":{source.randrange(5_000)},"at":{1_700_000_000_000 + number}}}'
        )
        while len(text) < size:
            text += f" {source.randrange(1 << 32):x} clicked on the page"
        records.append(text[:size].encode())
    return records
