"""The brokers that are compared: how each is started, and what its process uses.

One strom and one Kafka run side by side, and what differs between the variants is a setting of the
topic. So all of them share the state of the machine, and the process warms up once.
"""

import itertools
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import psutil
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from strom.testing import BrokerProcess
from tools.kafka import RealKafka

KAFKA_HEAP = "1g"
KAFKA_JVM_FLAGS = (
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""What Kafka's own start script gives."""
KAFKA_SETTINGS = {
    # So that the disk space of a topic is free again soon after it was measured.
    "log.segment.delete.delay.ms": "1000",
}
STROM_SETTINGS = {
    # As the real Kafka has it here: groups do not wait for members that might still come.
    "group.initial.rebalance.delay.ms": "0",
}
SILENT = 2
"""librdkafka's log level: what goes wrong is raised, and need not be printed as well."""
_SAMPLE_SECONDS = 0.05
_ADMIN_SECONDS = 300


class Variant(NamedTuple):
    """One broker with one promise about what it has acknowledged."""

    key: str
    title: str
    broker: str
    topic_settings: Mapping[str, str]


STROM_OS = Variant("strom-os", "strom, flush=os", "strom", {"flush": "os"})
STROM_DISK = Variant("strom-disk", "strom", "strom", {"flush": "disk"})
KAFKA = Variant("kafka", "Kafka", "kafka", {"flush.messages": str(2**63 - 1)})
KAFKA_SYNCED = Variant("kafka-synced", "Kafka, flush.messages=1", "kafka", {"flush.messages": "1"})
VARIANTS = (STROM_OS, KAFKA, STROM_DISK, KAFKA_SYNCED)


_numbers = itertools.count(1)


class _Process(Protocol):
    @property
    def pid(self) -> int: ...

    @property
    def bootstrap_servers(self) -> str: ...


class Peer:
    """A running broker of either kind."""

    def __init__(self, process: _Process) -> None:
        self.bootstrap_servers = process.bootstrap_servers
        self._process = psutil.Process(process.pid)
        self._admin = self._new_admin()

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": SILENT})

    def create_topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic, and return when it can be used."""
        topic = NewTopic(name, partitions, 1, config=dict(settings))
        created = self._admin.create_topics([topic], operation_timeout=_ADMIN_SECONDS)
        created[name].result(_ADMIN_SECONDS)
        deadline = time.monotonic() + _ADMIN_SECONDS
        while not self._has_all_partitions(name, partitions):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} is not ready after {_ADMIN_SECONDS} seconds")
            time.sleep(0.1)

    def _has_all_partitions(self, topic: str, partitions: int) -> bool:
        # Kafka says that a topic is created before it can take records for it. And a client that
        # has received that response once repeats it for as long as it is polled.
        asked = {TopicPartition(topic, one): OffsetSpec.latest() for one in range(partitions)}
        admin = self._new_admin()
        try:
            for answer in admin.list_offsets(asked).values():
                answer.result(_ADMIN_SECONDS)
        except KafkaException:
            return False
        return True

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        deleted = self._admin.delete_topics([name], operation_timeout=_ADMIN_SECONDS)
        deleted[name].result(_ADMIN_SECONDS)

    def end_offset(self, topic: str) -> int:
        """The offset that the next record of a topic's first partition will have."""
        asked = {TopicPartition(topic, 0): OffsetSpec.latest()}
        (answer,) = self._admin.list_offsets(asked).values()
        return int(answer.result(_ADMIN_SECONDS).offset)

    def set_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Give a topic that exists, perhaps an internal one, these settings."""
        self._set(ConfigResource.Type.TOPIC, name, settings)

    def set_group(self, name: str, settings: Mapping[str, str]) -> None:
        """Give a group, which need not exist yet, these settings."""
        self._set(ConfigResource.Type.GROUP, name, settings)

    def _set(self, kind: Any, name: str, settings: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in settings.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        for answer in self._admin.incremental_alter_configs([resource]).values():
            answer.result(_ADMIN_SECONDS)

    def topic_id(self, name: str) -> bytes:
        """The id by which newer requests name a topic."""
        answer = self._admin.describe_topics(TopicCollection([name]))[name]
        found = answer.result(_ADMIN_SECONDS).topic_id
        halves = found.get_most_significant_bits(), found.get_least_significant_bits()
        return b"".join((half % 2**64).to_bytes(8, "big") for half in halves)

    @contextmanager
    def topic(self, name: str, partitions: int, settings: Mapping[str, str]) -> Iterator[str]:
        """A topic for one measurement, begun with nothing left for the disk to do.

        It gets a name of its own: librdkafka remembers the partitions of a deleted topic for a while.
        """
        name = f"{name}-{next(_numbers)}"
        self.create_topic(name, partitions, settings)
        os.sync()
        yield name
        self.delete_topic(name)

    def cpu_seconds(self) -> float:
        """What the broker has computed so far, in user and in kernel mode."""
        return sum(sum(one.cpu_times()[:2]) for one in self._family())

    def resident_bytes(self) -> int:
        """The memory that the broker occupies."""
        return sum(int(one.memory_info().rss) for one in self._family())

    def _family(self) -> list[psutil.Process]:
        return [self._process, *self._process.children(recursive=True)]


@contextmanager
def running(broker: str) -> Iterator[Peer]:
    """A fresh broker, `strom` or `kafka`, that goes when the block ends."""
    process = start(broker)
    try:
        yield Peer(process)
    finally:
        process.stop()


@contextmanager
def running_both() -> Iterator[dict[str, Peer]]:
    """One of each, by name."""
    with ExitStack() as stack:
        yield {broker: stack.enter_context(running(broker)) for broker in ("strom", "kafka")}


def start(broker: str) -> BrokerProcess | RealKafka:
    """Start a broker with an empty data folder, and return when it says that it is ready."""
    if broker == "strom":
        return BrokerProcess(settings=STROM_SETTINGS).start()
    kafka = RealKafka(heap=KAFKA_HEAP, jvm_flags=KAFKA_JVM_FLAGS, config=KAFKA_SETTINGS)
    kafka.start()
    return kafka


class ResidentPeak:
    """Within a `with` block, watches how much memory a broker occupies at most."""

    def __init__(self, peer: Peer) -> None:
        self.bytes = 0
        self._peer = peer
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, self._peer.resident_bytes())
            if self._done.wait(_SAMPLE_SECONDS):
                return
