"""A sink task: consume, convert, transform, put; flush and commit at intervals.

Its place is safe in two ways at once: the group's offsets are committed only after a flush, and
positions that the task itself returns from `open` win over them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from strom.connect.api import (
    ConnectError,
    RetriableError,
    SinkRecord,
    SinkTask,
    TopicPartition,
)
from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.conversion import Conversion, StageError
from strom.connect.runtime.failures import Failures
from strom.connect.runtime.puts import Puts
from strom.connect.runtime.runner import Ended, Runner, RunnerContext, log_and_ignore
from strom.connect.runtime.settings import SinkSettings
from strom.connect.runtime.spans import Span, spans_of
from strom.connect.runtime.topic_ids import AskedIds, TopicIds, topics_of
from strom.connect.runtime.topic_patterns import posix_pattern

POLL_S = 0.2
GATHER_S = 0.05
"""Few large batches cost a sink less than many small ones, and nobody notices so short a wait."""
_BEHIND_ALL = 2**63 - 1


@dataclass(frozen=True)
class SinkJob:
    """What one run of a sink task is made of."""

    settings: SinkSettings
    make_task: Callable[["_Context"], SinkTask[Any]]
    conversion: Conversion
    clients: Clients
    flush_s: float
    session_ms: int
    """How soon a dead task's partitions go to another: as soon as a dead worker's tasks do."""
    uses_topic: Callable[[Unit, str], None]


def group_of(connector: str) -> str:
    """The consumer group of a sink, as Kafka names it."""
    return f"connect-{connector}"


class _Reassigned(Exception):
    """Not an error: the group has assigned other partitions meanwhile."""


class _Context:
    def __init__(self, run: "SinkRun") -> None:
        self.stopping = run.stopping
        self.connector = run.unit.connector
        self._run = run

    def topic_id(self, topic: str) -> str | None:
        return self._run.topic_ids.get(topic)

    def end_offset(self, partition: TopicPartition) -> int:
        return self._run.end_offset(partition)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._run.pause_partitions(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self._run.resume_partitions(partitions)


class SinkRun(Runner):
    """Runs one sink task."""

    def __init__(
        self, unit: Unit, job: Callable[[], SinkJob], context: RunnerContext, common: SinkSettings
    ) -> None:
        super().__init__(unit, common, context)
        self._make_job = job
        self._topics: set[str] = set()
        self._begun_anew: set[TopicPartition] = set()
        """Partitions whose topic was recreated, and that the task was not opened for since."""
        self._refused: set[TopicPartition] = set()
        """Those of them for which the task knows no better than its position in the old topic."""

    def work(self) -> None:
        """Run the task until told to stop."""
        self._job = self._make_job()
        self._failures = Failures(
            self.common, self.unit.task, self.log, self.context.secrets.hide, self.stats
        )
        self._failures.open(self._job.clients)
        self._assigned: list[TopicPartition] = []
        self._held: set[TopicPartition] = set()
        self._waiting: list[Message] = []
        """Consumed, but not yet taken over by the task."""
        self._ends: dict[TopicPartition, int] = {}
        """The offsets after what the task has taken over since the last flush."""
        self._reached: dict[TopicPartition, int] = {}
        """The same up to the last flush: no record may come from before it."""
        self._uncommitted: dict[TopicPartition, int] = {}
        """Flushed, but not committed to the group yet."""
        self._rewind_due = False
        self.topic_ids = TopicIds(self._job.clients.consumer_admin())
        self._task = self._job.make_task(_Context(self))
        self._puts = Puts(self._task, self._failures)
        self._consumer = self._make_consumer()
        try:
            self.retry(self._task.start, "Opening the sink")
            self._consumer.subscribe(
                self._pattern(),
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            self.report_state("RUNNING")
            self._loop()
        finally:
            log_and_ignore(self._consumer.close, self.log)
            log_and_ignore(self._task.stop, self.log)
            log_and_ignore(self._job.conversion.close, self.log)

    def _pattern(self) -> list[str]:
        settings = self._job.settings
        if settings.topics_regex:
            return [posix_pattern(settings.topics_regex)]
        return list(settings.topics)

    def _make_consumer(self) -> Consumer:
        return self._job.clients.consumer(
            {
                "group.id": group_of(self.unit.connector),
                "client.id": f"connector-consumer-{self.unit}",
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 10_000,
                "session.timeout.ms": self._job.session_ms,
                "heartbeat.interval.ms": min(3000, self._job.session_ms // 3),
            }
        )

    def _loop(self) -> None:
        due = time.monotonic() + self._job.flush_s
        while True:
            if self.stopping.is_set():
                self._flush_and_commit()
                return
            self.check()
            self._follow_pause()
            # First: what is read before it would be put as records of the topic as it was before.
            if self._rewind_due:
                self._rewind()
            messages = self._consumed(POLL_S)
            if messages:
                self._waiting += self._good(messages)
            if self._waiting:
                self._deliver()
            now = time.monotonic()
            if now >= due or (not messages and self._ends and now >= due - self._job.flush_s + 1):
                self._flush_and_commit()
                self._look_for_recreated()
                log_and_ignore(self._note_lag, self.log)
                due = now + self._job.flush_s

    def _note_lag(self) -> None:
        """For metrics: how much is left to read, by the ends that came with what was fetched."""
        lag = 0
        for place in self._consumer.position(_native(self._assigned)):
            if place.offset >= 0:
                # Cached: it asks no broker. Negative until the first fetch of a partition.
                _, end = self._consumer.get_watermark_offsets(place, cached=True)
                lag += max(0, end - place.offset)
        self.stats.lag = lag + len(self._waiting)

    def _consumed(self, seconds: float) -> list[Message]:
        """What is there, or comes within so long; a little longer for what comes right behind it."""
        first = self._consumer.poll(seconds)
        if first is None:
            return []
        before = self._assigned
        rest = self._consumer.consume(self._task.most_at_once - 1, GATHER_S)
        # Reassigned meanwhile: the first is another task's, or it is read again.
        return [first, *rest] if self._assigned is before else rest

    def _follow_pause(self) -> None:
        if self.paused.is_set() and self.state != "PAUSED":
            self._flush_and_commit()
            self._consumer.pause(_native(self._assigned))
            self.report_state("PAUSED")
        elif not self.paused.is_set() and self.state == "PAUSED":
            self._consumer.resume(_native(set(self._assigned) - self._held))
            self.report_state("RUNNING")

    def _good(self, messages: list[Message]) -> list[Message]:
        if not any(map(Message.error, messages)):
            return messages
        good = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
            elif error.fatal():
                raise ConnectError(f"The topics cannot be read: {error.str()}")
            elif error.code() not in {KafkaError._PARTITION_EOF, KafkaError._ALL_BROKERS_DOWN}:
                self.log.warning("Reading: %s", error.str())
        return good

    def _deliver(self) -> None:
        """Hand over what waits. While the sink is away, the group is kept and nothing is read."""
        messages = self._waiting
        spans = spans_of(messages)
        asked = self._asked_ids(spans)
        records = self._converted(messages, spans)
        retries = 0
        while self._waiting:
            if self._begins_again(asked):
                return
            began = time.perf_counter()
            try:
                self._puts.put(records, self._waiting)
                self.stats.batch(time.perf_counter() - began)
                self.stats.records += len(messages)
                self._taken(messages, spans)
                return
            except RetriableError as error:
                self.stats.retries += 1
                if not retries:
                    self.log.warning("The sink waits: %s", self.context.secrets.hide(str(error)))
                # What it took since the last flush may be gone with its connection.
                if self._ends or self._puts.is_partial:
                    self._rewind_due = True
                    self._idle(self.retry_delay(retries))
                    return
                records = self._puts.left
            self._idle(self.retry_delay(retries))
            retries += 1
            if self._waiting is not messages:  # partitions were taken away meanwhile
                messages = self._waiting
                spans = spans_of(messages)
                records = self._converted(messages, spans)
            asked = self._asked_ids(spans)

    def _asked_ids(self, spans: Sequence[Span]) -> AskedIds:
        return self.topic_ids.ask({span.place.topic for span in spans})

    def _look_for_recreated(self) -> None:
        """Look without having read anything: the consumer may be at the end of a topic that is gone."""
        self._begins_again(self.topic_ids.ask(topics_of(self._assigned)))

    def _begins_again(self, asked: AskedIds) -> bool:
        """Whether a topic was recreated: then all is read again from where it is stored up to.

        What was read may be of either topic, so it is given up. What the task has taken before is
        stored as that of the old topic.
        """
        try:
            present = asked.result()
        except RetriableError as error:
            # Nothing is lost by that: as soon as the cluster responds, the topic is begun again.
            self.log.debug("Topic ids: %s", error)
            return False
        if not self.topic_ids.changed(present):
            return False
        self._flush_and_commit()
        self._note_recreated(present)
        self._waiting = []
        self._rewind_due = True
        return True

    def _note_recreated(self, present: Mapping[str, str]) -> None:
        recreated = self.topic_ids.learn(present)
        for topic in sorted(recreated):
            self.log.warning("Topic %s was deleted and recreated: it begins again.", topic)
        for place in [place for place in self._assigned if place.topic in recreated]:
            self._begun_anew.add(place)
            self._failures.forget({place: _BEHIND_ALL})
            self._ends.pop(place, None)
            # It replaces an offset of the old topic that may have been committed for the new one.
            self._uncommitted[place] = 0

    def _taken(self, messages: Sequence[Message], spans: Sequence[Span]) -> None:
        for place, start, end in spans:
            if messages[start].offset() < self._reached.get(place, 0):
                self._begun_anew.add(place)
                self._rewind_due = True
            if place.topic not in self._topics:
                self._topics.add(place.topic)
                self._job.uses_topic(self.unit, place.topic)
            self._ends[place] = messages[end - 1].offset() + 1
        self._waiting = []

    def _idle(self, seconds: float) -> None:
        """Wait without reading on, but answer the group: it may take partitions away."""
        self.check()
        self._consumer.pause(_native(self._assigned))
        late = self._good(self._consumed(seconds))
        if late:
            self._waiting = [*self._waiting, *late]
        self.check()
        if self.state != "PAUSED":
            self._consumer.resume(_native(set(self._assigned) - self._held))

    def _converted(
        self, messages: Sequence[Message], spans: Sequence[Span]
    ) -> Sequence[SinkRecord]:
        convert = self._job.conversion.incoming
        try:
            return self.retry(lambda: convert(messages, spans), "Converting")
        except ConnectError:
            pass
        except Exception as error:  # noqa: BLE001 - transforms may raise anything; told record by record
            self.log.debug("One of %d records cannot be converted: %s", len(messages), error)
        return [one for message in messages if (one := self._converted_alone(message)) is not None]

    def _converted_alone(self, message: Message) -> SinkRecord | None:
        try:
            return self.retry(lambda: self._job.conversion.one_incoming(message), "Converting")
        except StageError as error:
            self._failures.handle(error.stage, error.executor, error.__cause__ or error, message)
            return None

    def _flush_and_commit(self) -> None:
        """Store everything taken so far, then say so to the group."""
        if not self._ends and not self._uncommitted:
            return
        if self._rewind_due:
            return  # the task may have lost what it took: that is read again
        if not self.context.holds_lease():
            raise Ended
        self._failures.flush()
        try:
            self._task.advance(dict(self._ends))
            self._task.flush()
        except RetriableError as error:
            self.log.warning("The sink waits: %s", self.context.secrets.hide(str(error)))
            self._rewind_due = True
            self.stopping.wait(self.retry_delay(0))
            return
        self._failures.forget(self._ends)
        self._reached |= self._ends
        self._uncommitted = self._of_same_topics(self._uncommitted | self._ends)
        self._ends = {}
        places = [
            confluent_kafka.TopicPartition(topic, partition, offset)
            for (topic, partition), offset in self._uncommitted.items()
        ]
        try:
            self._consumer.commit(offsets=places, asynchronous=False)
            self._uncommitted = {}
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self.log.info("A topic was deleted, and its offsets with it: none are committed.")
                self._uncommitted = {}
                return
            # The next flush tries again; a sink that keeps its own positions does not need it at all.
            self.log.warning("Offsets are not committed yet: %s", error.args[0].str())

    def _of_same_topics(self, ends: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Leave out offsets of topics that were recreated: they would be committed for the new ones."""
        try:
            changed = self.topic_ids.changed(self.topic_ids.ask(topics_of(ends)).result())
        except RetriableError:
            return ends
        return {place: end for place, end in ends.items() if place.topic not in changed}

    def _rewind(self) -> None:
        """Begin again after the last flush: the task forgets what it took since, and gets it anew."""
        self._rewind_due = False
        partitions = list(self._assigned)
        self._waiting, self._ends, self._reached = [], {}, {}
        if not partitions:
            return
        log_and_ignore(lambda: self._task.close(partitions), self.log)
        try:
            places = self._places(partitions, committed=True, pause=self._idle_unopened)
        except _Reassigned:
            return  # whatever is assigned now was opened with it
        for place in places:
            self._consumer.seek(place)

    def _idle_unopened(self, seconds: float) -> None:
        """Wait in the group, for opening the task again; what is read meanwhile is read again."""
        before = self._assigned
        self._idle(seconds)
        self._waiting = []
        if self._assigned is not before:
            raise _Reassigned

    def _places(
        self,
        partitions: Sequence[TopicPartition],
        *,
        committed: bool,
        pause: Callable[[float], object] | None = None,
    ) -> list[confluent_kafka.TopicPartition]:
        """Where to go on: where the task says, else where the group was."""
        own = self.retry(lambda: self._task.open(partitions), "Opening the sink", pause)
        native = _native(partitions)
        if committed:
            native = self._consumer.committed(native, timeout=30)
        for place in native:
            partition = TopicPartition(place.topic, place.partition)
            position = own.get(partition)
            if position:
                self._check_position(partition, position)
                place.offset = position
            elif position == 0 or partition in self._begun_anew or (committed and place.offset < 0):
                place.offset = confluent_kafka.OFFSET_BEGINNING
            self._begun_anew.discard(partition)
            self._refused.discard(partition)
        return native

    def end_offset(self, partition: TopicPartition) -> int:
        """For the task: where a partition ends."""
        try:
            watermarks = self._consumer.get_watermark_offsets(*_native([partition]), timeout=10)
        except KafkaException as error:
            raise RetriableError(
                f"The end of topic {partition.topic}, partition {partition.partition} cannot be read: "
                f"{error.args[0].str()}"
            ) from None
        return int(watermarks[1])

    def _check_position(self, partition: TopicPartition, position: int) -> None:
        """Refuse to go on behind the end of a topic: what it gets would be taken for old records."""
        if partition in self._begun_anew:
            self._refused.add(partition)
        try:
            end = self.end_offset(partition)
        except RetriableError:
            if partition in self._refused:
                raise
            return  # nobody knows, and without a broker nothing is read anyway
        if partition in self._refused or position > end:
            raise ConnectError(
                f"The sink has stored everything before offset {position} of topic {partition.topic}, "
                f"partition {partition.partition}, which now ends at {end}: the topic was deleted and "
                "recreated, or has lost records. To read it from its beginning, stop the connector "
                f"and reset its offsets (DELETE /connectors/{self.unit.connector}/offsets)."
            )

    def _on_assign(
        self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]
    ) -> None:
        self._assigned = [TopicPartition(place.topic, place.partition) for place in partitions]
        self._held.clear()
        self._waiting, self._ends, self._reached, self._uncommitted = [], {}, {}, {}
        asked = topics_of(self._assigned)
        self.topic_ids.learn(
            self.retry(lambda: self.topic_ids.ask(asked).result(), "Reading topic ids")
        )
        consumer.assign(self._places(self._assigned, committed=False) if partitions else [])
        if self.paused.is_set():
            consumer.pause(partitions)

    def _on_revoke(
        self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]
    ) -> None:
        if self.context.holds_lease():
            log_and_ignore(self._flush_and_commit, self.log)
        self._on_lost(consumer, partitions)

    def _on_lost(
        self, consumer: Consumer, partitions: list[confluent_kafka.TopicPartition]
    ) -> None:
        if self._assigned:
            log_and_ignore(lambda: self._task.close(self._assigned), self.log)
        self._assigned, self._waiting, self._ends, self._uncommitted = [], [], {}, {}
        # Another task may read them from here on, and begin with a topic that was recreated.
        self._begun_anew.clear()
        self.topic_ids.forget()
        self._failures.forget_all()
        self._rewind_due = False
        consumer.unassign()

    def pause_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """For the task: nothing more of these."""
        self._held.update(partitions)
        self._consumer.pause(_native(partitions))

    def resume_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """For the task: these again."""
        self._held.difference_update(partitions)
        if self.state != "PAUSED":
            self._consumer.resume(_native(partitions))


def _native(
    partitions: Sequence[TopicPartition] | set[TopicPartition],
) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(topic, number) for topic, number in partitions]
