"""A sink task: consume, convert, transform, put; flush and commit at intervals.

No record is lost in a crash: offsets are committed to the group only after a flush, and positions that
the task itself returns from `open` take precedence over them.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as NativePartition

from strom.connect.api import ConnectError, RetriableError, SinkRecord, TopicPartition
from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.conversion import PartitionSpan, spans_of
from strom.connect.runtime.failures import Failures
from strom.connect.runtime.runner import Ended, RunnerContext, UnitRunner, log_and_ignore
from strom.connect.runtime.settings import SinkSettings
from strom.connect.runtime.sink_positions import SinkPositions
from strom.connect.runtime.sink_session import SinkJob, SinkSession
from strom.connect.runtime.topic_ids import TopicIdsFuture, topics_of

POLL_S = 0.2
_AFTER_ALL_OFFSETS = 2**63 - 1


class _Reassigned(Exception):
    """Not an error: the group has assigned other partitions meanwhile."""


class SinkRun(UnitRunner):
    """The lifecycle of one sink task; what belongs to a single run is in its `SinkSession`."""

    _session: SinkSession

    def __init__(
        self, unit: Unit, job: Callable[[], SinkJob], context: RunnerContext, common: SinkSettings
    ) -> None:
        super().__init__(unit, common, context)
        self._make_job = job
        self._topics: set[str] = set()
        self._start = SinkPositions(unit.connector)

    def work(self) -> None:
        """Run the task until it is stopped."""
        failures = Failures(
            self.common, self.unit.task, self.log, self.context.secrets.hide, self.stats
        )
        self._session = session = SinkSession(self._make_job(), failures, self.unit, self.stopping)
        try:
            self.retry(session.task.start, "Opening the sink")
            session.consumer.subscribe(
                session.subscription(),
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
            self.report_state("RUNNING")
            self._loop()
        finally:
            log_and_ignore(session.consumer.close, self.log)
            log_and_ignore(session.task.stop, self.log)
            log_and_ignore(session.job.conversion.close, self.log)

    def _loop(self) -> None:
        session = self._session
        flush_s = session.job.flush_s
        due = time.monotonic() + flush_s
        while True:
            if self.stopping.is_set():
                self._flush_and_commit()
                return
            self.check()
            self._follow_pause()
            # Before consuming: what is consumed earlier would be put as records of the old topic.
            if session.rewind_due:
                self._rewind()
            messages = session.consume(POLL_S)
            if messages:
                session.waiting += self._without_errors(messages)
            if session.waiting:
                self._deliver()
            now = time.monotonic()
            if now >= due or (not messages and session.ends and now >= due - flush_s + 1):
                self._flush_and_commit()
                self._look_for_recreated()
                log_and_ignore(self._note_lag, self.log)
                due = now + flush_s

    def _note_lag(self) -> None:
        self.stats.lag = self._session.lag()

    def _follow_pause(self) -> None:
        session = self._session
        if self.paused.is_set() and not session.is_paused:
            self._flush_and_commit()
            session.pause_all()
            session.is_paused = True
            self.report_state("PAUSED")
        elif not self.paused.is_set() and session.is_paused:
            session.resume_all()
            session.is_paused = False
            self.report_state("RUNNING")

    def _without_errors(self, messages: list[Message]) -> list[Message]:
        if not any(map(Message.error, messages)):
            return messages
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif error.fatal():
                raise ConnectError(f"The topics cannot be read: {error.str()}")
            elif error.code() not in {KafkaError._PARTITION_EOF, KafkaError._ALL_BROKERS_DOWN}:
                self.log.warning("Reading: %s", error.str())
        return records

    def _deliver(self) -> None:
        """Put what waits. While the target is unavailable, stay in the group without reading on."""
        session = self._session
        messages = session.waiting
        spans = spans_of(messages)
        requested = session.topic_ids.request(topics_of(span.partition for span in spans))
        records = self._convert(messages, spans)
        retries = 0
        while session.waiting:
            if self._restarts_recreated(requested):
                return
            began = time.perf_counter()
            try:
                session.puts.put(records, session.waiting)
                self.stats.batch(time.perf_counter() - began)
                self.stats.records += len(messages)
                self._note_put(messages, spans)
                return
            except RetriableError as error:
                self.stats.retries += 1
                if not retries:
                    self.log.warning("The sink waits: %s", self.context.secrets.hide(str(error)))
                # What was put since the last flush may be lost with the task's connection.
                if session.ends or session.puts.is_partial:
                    session.rewind_due = True
                    self._idle(self.retry_delay(retries))
                    return
                records = session.puts.left
            self._idle(self.retry_delay(retries))
            retries += 1
            if session.waiting is not messages:  # partitions were revoked meanwhile
                messages = session.waiting
                spans = spans_of(messages)
                records = self._convert(messages, spans)
            requested = session.topic_ids.request(topics_of(span.partition for span in spans))

    def _look_for_recreated(self) -> None:
        """Compare topic ids even without records: the consumer may be at the end of a deleted topic."""
        topic_ids = self._session.topic_ids
        self._restarts_recreated(topic_ids.request(topics_of(self._session.assigned)))

    def _restarts_recreated(self, requested: TopicIdsFuture) -> bool:
        """Whether a topic was recreated: then everything is read again from its stored position.

        What was consumed may be of either topic, so it is discarded. What was put before is flushed as
        records of the old topic.
        """
        session = self._session
        try:
            present = requested.result()
        except RetriableError as error:
            # No record is lost by that: the ids are compared again with the next records.
            self.log.debug("Topic ids: %s", error)
            return False
        if not session.topic_ids.changed(present):
            return False
        self._flush_and_commit()
        self._note_recreated(present)
        session.waiting = []
        session.rewind_due = True
        return True

    def _note_recreated(self, present: Mapping[str, str]) -> None:
        session = self._session
        recreated = session.topic_ids.learn(present)
        for topic in sorted(recreated):
            self.log.warning(
                "Topic %s was deleted and recreated: it is read from its beginning.", topic
            )
        for partition in [one for one in session.assigned if one.topic in recreated]:
            self._start.note_recreated(partition)
            session.failures.forget({partition: _AFTER_ALL_OFFSETS})
            session.ends.pop(partition, None)
            # It replaces an offset of the old topic that may have been committed for the new one.
            session.uncommitted[partition] = 0

    def _note_put(self, messages: Sequence[Message], spans: Sequence[PartitionSpan]) -> None:
        session = self._session
        for partition, start, end in spans:
            if messages[start].offset() < session.reached.get(partition, 0):
                self._start.note_recreated(partition)
                session.rewind_due = True
            if partition.topic not in self._topics:
                self._topics.add(partition.topic)
                session.job.uses_topic(self.unit, partition.topic)
            session.ends[partition] = messages[end - 1].offset() + 1
        session.waiting = []

    def _idle(self, seconds: float) -> None:
        """Wait without reading on, but poll: the group may revoke partitions."""
        session = self._session
        self.check()
        session.pause_all()
        late = self._without_errors(session.consume(seconds))
        if late:
            session.waiting = [*session.waiting, *late]
        self.check()
        if not session.is_paused:
            session.resume_all()

    def _convert(
        self, messages: Sequence[Message], spans: Sequence[PartitionSpan]
    ) -> Sequence[SinkRecord]:
        conversion = self._session.job.conversion
        return self.convert(
            messages,
            lambda messages: conversion.incoming(messages, spans),
            conversion.one_incoming,
            self._session.failures,
        )

    def _flush_and_commit(self) -> None:
        """Flush everything put so far, then commit its offsets to the group."""
        session = self._session
        if not session.ends and not session.uncommitted:
            return
        if session.rewind_due:
            return  # the task may have lost what was put: it is read again
        if not self.context.holds_lease():
            raise Ended
        session.failures.flush()
        try:
            session.task.advance(dict(session.ends))
            session.task.flush()
        except RetriableError as error:
            self.log.warning("The sink waits: %s", self.context.secrets.hide(str(error)))
            session.rewind_due = True
            self.stopping.wait(self.retry_delay(0))
            return
        session.failures.forget(session.ends)
        session.reached |= session.ends
        session.uncommitted = session.topic_ids.of_same(session.uncommitted | session.ends)
        session.ends = {}
        try:
            session.commit()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self.log.info("A topic was deleted, and its offsets with it: none are committed.")
                session.uncommitted = {}
                return
            # The next flush tries again; a sink that stores its own positions needs no commit.
            self.log.warning("Offsets are not committed yet: %s", error.args[0].str())

    def _rewind(self) -> None:
        """Read again from the last flush: the task discards what was put since, and gets it again."""
        session = self._session
        session.rewind_due = False
        partitions = list(session.assigned)
        session.waiting, session.ends, session.reached = [], {}, {}
        if not partitions:
            return
        log_and_ignore(lambda: session.task.close(partitions), self.log)
        try:
            positions = self._positions(partitions, committed=True, pause=self._idle_unopened)
        except _Reassigned:
            return  # the task was opened with the new assignment
        for position in positions:
            session.consumer.seek(position)

    def _idle_unopened(self, seconds: float) -> None:
        """Wait in the group until the task can be opened; what is consumed meanwhile is read again."""
        session = self._session
        before = session.assigned
        self._idle(seconds)
        session.waiting = []
        if session.assigned is not before:
            raise _Reassigned

    def _positions(
        self,
        partitions: Sequence[TopicPartition],
        *,
        committed: bool,
        pause: Callable[[float], object] | None = None,
    ) -> list[NativePartition]:
        """Open the task for these partitions; returns where to continue."""
        session = self._session
        own = self.retry(lambda: session.task.open(partitions), "Opening the sink", pause)
        return self._start.choose(session, partitions, own, committed=committed)

    def _on_assign(self, consumer: Consumer, partitions: list[NativePartition]) -> None:
        session = self._session
        session.assign(partitions)
        topics = topics_of(session.assigned)
        session.topic_ids.learn(
            self.retry(lambda: session.topic_ids.request(topics).result(), "Reading topic ids")
        )
        consumer.assign(self._positions(session.assigned, committed=False) if partitions else [])
        if self.paused.is_set():
            consumer.pause(partitions)

    def _on_revoke(self, consumer: Consumer, partitions: list[NativePartition]) -> None:
        if self.context.holds_lease():
            log_and_ignore(self._flush_and_commit, self.log)
        self._on_lost(consumer, partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[NativePartition]) -> None:
        session = self._session
        if session.assigned:
            log_and_ignore(lambda: session.task.close(session.assigned), self.log)
        session.unassign()
        # Another task may read them from here on, and begin with a topic that was recreated.
        self._start.forget_recreated()
        consumer.unassign()
