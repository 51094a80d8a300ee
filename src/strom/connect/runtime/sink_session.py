"""One run of a sink task: its clients, and how far it has consumed, flushed and committed."""

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as NativePartition

from strom.connect.api import PoisonRecord, RetriableError, SinkRecord, SinkTask, TopicPartition
from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.failures import Failures
from strom.connect.runtime.runner import TaskJob
from strom.connect.runtime.settings import SinkSettings
from strom.connect.runtime.topic_ids import TopicIds
from strom.connect.runtime.topic_patterns import posix_pattern

GATHER_S = 0.05
"""A sink handles few large batches at less cost than many small ones; so short a wait costs little."""

AFTER_POISON = 500
"""The batch size after a poison record: each further one repeats the put of its whole batch."""


@dataclass(frozen=True, kw_only=True)
class SinkJob(TaskJob[SinkSettings, SinkTask[Any]]):
    """What one run of a sink task is made of."""

    session_ms: int
    """The session timeout: as for workers, so that a dead task's partitions move as soon as it does."""


def group_of(connector: str) -> str:
    """The consumer group of a sink, as Kafka names it."""
    return f"connect-{connector}"


class Puts:
    """Puts records into a sink task; poison records are removed one by one."""

    def __init__(self, task: SinkTask[Any], failures: Failures) -> None:
        self._task = task
        self._failures = failures
        self.left: Sequence[SinkRecord] = ()
        """The records of the last call, without its poison records."""
        self.is_partial = False
        """Whether the task has taken only a part of them before it failed."""

    def put(self, records: Sequence[SinkRecord], messages: Sequence[Message]) -> None:
        """Put records that were converted from these messages."""
        self.left = records
        self.is_partial = False
        if not records:
            return
        # A task may store its position with every put: dead letters before it must be durable first.
        self._failures.flush()
        try:
            self._task.put(records)
        except PoisonRecord as error:
            self._put_without(error, _Origins(messages))

    def _put_without(self, poison: PoisonRecord, origins: "_Origins") -> None:
        """Put the rest in small batches: each poison record repeats the put of its batch."""
        left = self.left = list(self.left)
        executor = type(self._task).__qualname__
        start = 0
        while True:
            poison_record = left.pop(start + poison.index)
            self._failures.handle("TASK_PUT", executor, poison, origins.of(poison_record))
            self._failures.flush()
            try:
                while start < len(left):
                    self._task.put(left[start : start + AFTER_POISON])
                    self.is_partial = True
                    start += AFTER_POISON
                return
            except PoisonRecord as another:
                poison = another


class _Origins:
    """The messages of records; a transform may have changed a record's topic."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._found: dict[tuple[int, int], list[Message]] = {}
        for message in messages:
            self._found.setdefault((message.partition(), message.offset()), []).append(message)

    def of(self, record: SinkRecord) -> Message:
        found = self._found[record.partition, record.offset]
        return min(found, key=lambda one: one.topic() != record.origin.topic)


class SinkSession:
    """Made once per run of a task: nothing of a failed run is carried over to the next."""

    def __init__(
        self, job: SinkJob, failures: Failures, unit: Unit, stopping: threading.Event
    ) -> None:
        self.job = job
        self.failures = failures
        failures.open(job.clients)
        self.topic_ids = TopicIds(job.clients.consumer_admin())
        self.task = job.make_task(_Context(self, unit.connector, stopping))
        self.puts = Puts(self.task, failures)
        self.consumer = self._make_consumer(unit)
        self.is_paused = False
        """Whether the connector is paused, with all partitions."""
        self.assigned: list[TopicPartition] = []
        """A new list with every assignment: its identity shows whether there was another."""
        self.held: set[TopicPartition] = set()
        """Partitions that the task has paused."""
        self.waiting: list[Message] = []
        """Consumed, but not yet put into the task."""
        self.ends: dict[TopicPartition, int] = {}
        """The offsets after what was put into the task since the last flush."""
        self.reached: dict[TopicPartition, int] = {}
        """The same up to the last flush: a record from before it is of a recreated topic."""
        self.uncommitted: dict[TopicPartition, int] = {}
        """Flushed, but not committed to the group yet."""
        self.rewind_due = False
        """Whether to read again from the last flush, as the task may have lost what came after."""

    def _make_consumer(self, unit: Unit) -> Consumer:
        return self.job.clients.consumer(
            {
                "group.id": group_of(unit.connector),
                "client.id": f"connector-consumer-{unit}",
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 10_000,
                "session.timeout.ms": self.job.session_ms,
                "heartbeat.interval.ms": min(3000, self.job.session_ms // 3),
            }
        )

    def subscription(self) -> list[str]:
        """The topics' names, or a pattern of them in librdkafka's syntax."""
        settings = self.job.settings
        if settings.topics_regex:
            return [posix_pattern(settings.topics_regex)]
        return list(settings.topics)

    def consume(self, seconds: float) -> list[Message]:
        """What arrives within this time, and what arrives right after the first; errors too."""
        first = self.consumer.poll(seconds)
        if first is None:
            return []
        before = self.assigned
        rest = self.consumer.consume(self.task.most_at_once - 1, GATHER_S)
        # Reassigned meanwhile: the first belongs to another task, or is read again.
        return [first, *rest] if self.assigned is before else rest

    def lag(self) -> int:
        """How many records are left, by the end offsets that came with the last fetches."""
        lag = len(self.waiting)
        for position in self.consumer.position(to_native(self.assigned)):
            if position.offset >= 0:
                # Cached: it sends no request. Negative until the first fetch of a partition.
                _, end = self.consumer.get_watermark_offsets(position, cached=True)
                lag += max(0, end - position.offset)
        return lag

    def end_offset(self, partition: TopicPartition) -> int:
        """The end offset of a partition; RetriableError if the brokers do not respond."""
        try:
            watermarks = self.consumer.get_watermark_offsets(*to_native([partition]), timeout=10)
        except KafkaException as error:
            raise RetriableError(
                f"The end offset of topic {partition.topic}, partition {partition.partition} cannot be "
                f"read: {error.args[0].str()}"
            ) from None
        return int(watermarks[1])

    def pause_all(self) -> None:
        """Stop fetching from every partition; polling still keeps the member in its group."""
        self.consumer.pause(to_native(self.assigned))

    def resume_all(self) -> None:
        """Fetch again from every partition that the task itself has not paused."""
        self.consumer.resume(to_native(set(self.assigned) - self.held))

    def hold(self, partitions: Sequence[TopicPartition]) -> None:
        """Pause partitions for the task, until `release`."""
        self.held.update(partitions)
        self.consumer.pause(to_native(partitions))

    def release(self, partitions: Sequence[TopicPartition]) -> None:
        """End the task's pause of partitions; those of a paused connector resume with it."""
        self.held.difference_update(partitions)
        if not self.is_paused:
            self.consumer.resume(to_native(partitions))

    def assign(self, partitions: list[NativePartition]) -> None:
        """Begin with the partitions of an assignment, without any positions."""
        self.assigned = [TopicPartition(one.topic, one.partition) for one in partitions]
        self.held.clear()
        self.waiting, self.ends, self.reached, self.uncommitted = [], {}, {}, {}

    def unassign(self) -> None:
        """Forget what depends on partitions that another task may read from now on."""
        self.assigned, self.waiting, self.ends, self.uncommitted = [], [], {}, {}
        self.topic_ids.forget()
        self.failures.forget_all()
        self.rewind_due = False

    def commit(self) -> None:
        """Commit to the group what was flushed."""
        self.consumer.commit(
            offsets=[
                NativePartition(topic, partition, offset)
                for (topic, partition), offset in self.uncommitted.items()
            ],
            asynchronous=False,
        )
        self.uncommitted = {}


class _Context:
    """Gives the task its part of the session, and nothing else to depend on."""

    def __init__(self, session: SinkSession, connector: str, stopping: threading.Event) -> None:
        self.stopping = stopping
        self.connector = connector
        self._session = session

    def topic_id(self, topic: str) -> str | None:
        return self._session.topic_ids.get(topic)

    def end_offset(self, partition: TopicPartition) -> int:
        return self._session.end_offset(partition)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._session.hold(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self._session.release(partitions)


def to_native(partitions: Collection[TopicPartition]) -> list[NativePartition]:
    """The partitions in the client's own type."""
    return [NativePartition(topic, number) for topic, number in partitions]
