"""A source task: poll, transform, convert, produce; then store its offsets, so that none is skipped.

Exactly once: records and offsets are in one transaction, whose id fences any earlier run of the same
task. At least once: offsets are stored when all records before them are acknowledged.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException

from strom.client.topics import CLUSTER_DEFAULT, create_topic
from strom.connect.api import ConnectError, PoisonRecord, RetriableError, SourceRecord, SourceTask
from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.conversion import ProducerRecord
from strom.connect.runtime.failures import Failures
from strom.connect.runtime.runner import Ended, RunnerContext, TaskJob, UnitRunner, log_and_ignore
from strom.connect.runtime.settings import SourceSettings
from strom.connect.runtime.source_producer import SourceProducer
from strom.connect.runtime.stores import SourceOffsets
from strom.connect.runtime.transaction_timeouts import commit_interval_ms


@dataclass(frozen=True, kw_only=True)
class SourceJob(TaskJob[SourceSettings, SourceTask[Any]]):
    """What one run of a source task is made of."""

    offsets: SourceOffsets
    transactional_id: str | None
    """None for at least once."""
    ready: Callable[[UnitRunner], None]
    """Returns when zombies of older generations of the connector are fenced."""


class _Context:
    def __init__(self, stopping: threading.Event, offsets: SourceOffsets, connector: str) -> None:
        self.stopping = stopping
        self._offsets = offsets
        self._connector = connector

    def offset(self, source_partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._offsets.get(self._connector, source_partition)


class SourceRun(UnitRunner):
    """The lifecycle of one source task."""

    def __init__(
        self,
        unit: Unit,
        job: Callable[[], SourceJob],
        context: RunnerContext,
        common: SourceSettings,
    ) -> None:
        super().__init__(unit, common, context)
        self._make_job = job
        self._topics: set[str] = set()

    def work(self) -> None:
        """Run the task until it is stopped."""
        self._job = self._make_job()
        self._failures = Failures(
            self.common, self.unit.task, self.log, self.context.secrets.hide, self.stats
        )
        self._unstored: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._job.ready(self)
        interval_ms = int(self._interval() * 1000)
        self._producer = self.retry(
            lambda: SourceProducer(
                self._job.clients, self._job.transactional_id, interval_ms, str(self.unit)
            ),
            "Opening transactions",
        )
        # After `init_transactions`, which has ended any transaction that an earlier run left open.
        self.retry(self._job.offsets.catch_up, "Reading offsets")
        context = _Context(self.stopping, self._job.offsets, self.unit.connector)
        self._task = self._job.make_task(context)
        try:
            self.retry(self._task.start, "Opening the source")
            self._loop()
        finally:
            log_and_ignore(self._producer.abort, self.log)
            log_and_ignore(self._task.stop, self.log)
            log_and_ignore(self._job.conversion.close, self.log)

    def _loop(self) -> None:
        interval = self._interval()
        due = time.monotonic() + interval
        while True:
            if self.paused.is_set():
                self._store_between()
                self._wait_while_paused()
            self.report_state("RUNNING")
            if self.stopping.is_set():
                self._store_between()
                return
            self.check()
            records = self._polled()
            if records:
                self._send(records)
            now = time.monotonic()
            is_idle = records is not None and not records
            if self._task.ends_transaction() if self._asks_task else now >= due or is_idle:
                self._store()
                due = now + interval

    def _polled(self) -> Sequence[SourceRecord] | None:
        """What the task has read; None if a malformed record was skipped."""
        try:
            return self.retry(self._poll, "Reading the source")
        except PoisonRecord as error:
            if self.common.tolerance == "none":
                # First, so that a restart begins at the malformed record and repeats none.
                self._store_between()
            self._failures.handle("TASK_POLL", type(self._task).__qualname__, error)
            if error.source_partition is not None and error.source_offset is not None:
                self._remember_offset(error.source_partition, error.source_offset)
            return None

    def _poll(self) -> Sequence[SourceRecord]:
        began = time.perf_counter()
        try:
            records = self._task.poll()
            if records:
                self.stats.batch(time.perf_counter() - began)
            return records
        except RetriableError:
            # The wait may be long: the broker would abort a transaction that stays open meanwhile.
            self._store_between()
            raise

    @property
    def _asks_task(self) -> bool:
        """Whether the task itself defines where transactions end."""
        boundary = self._job.settings.transaction_boundary
        return boundary == "connector" and self._job.transactional_id is not None

    def _store_between(self) -> None:
        """Store what was sent, unless the task ends the transaction itself: then it is aborted."""
        if not self._asks_task:
            self._store()

    def _interval(self) -> float:
        job = self._job
        if job.transactional_id is None:
            return job.flush_s
        return commit_interval_ms(job.settings, int(job.flush_s * 1000)) / 1000

    def _wait_while_paused(self) -> None:
        self.report_state("PAUSED")
        while self.paused.is_set() and not self.stopping.is_set():
            self.check()
            self.stopping.wait(0.1)

    def _send(self, records: Sequence[SourceRecord]) -> None:
        conversion = self._job.conversion
        outgoing = self.convert(
            records, conversion.outgoing, conversion.one_outgoing, self._failures
        )
        self._note_topics(outgoing)
        self._producer.produce(outgoing, self._refused)
        self.stats.records += len(outgoing)
        self._remember(records)

    def _refused(self, error: ConnectError) -> None:
        self._failures.handle("KAFKA_PRODUCE", "Producer", error)

    def _note_topics(self, outgoing: Sequence[ProducerRecord]) -> None:
        for topic in {one[0] for one in outgoing} - self._topics:
            self._create(topic)
            self._topics.add(topic)
            self._job.uses_topic(self.unit, topic)

    def _create(self, topic: str) -> None:
        """Create a topic with the connector's settings; without any, the broker may auto-create it."""
        settings = self._job.settings
        partitions, copies = settings.creation_partitions, settings.creation_replication
        if partitions is None and copies is None:
            return
        try:
            create_topic(
                self._job.clients.admin(),
                topic,
                partitions=partitions or CLUSTER_DEFAULT,
                replication_factor=copies or CLUSTER_DEFAULT,
            )
        except KafkaException as error:
            raise ConnectError(
                f"The topic {topic} cannot be created: {error.args[0].str()}"
            ) from None

    def _remember(self, records: Sequence[SourceRecord]) -> None:
        """Keep the newest offset of each source partition, to be stored."""
        newest = {id(record[0]): record for record in records}
        # Equal partitions may be different objects: the later one wins.
        for record in records if len(newest) > 1 else newest.values():
            self._remember_offset(record.source_partition, record.source_offset)

    def _remember_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        self._unstored[json.dumps(partition, sort_keys=True)] = (partition, offset)

    def _store(self) -> None:
        """Make everything sent so far and its offsets durable, then notify the task."""
        if not self._unstored:
            for partition, offset in self._task.idle_offsets():
                self._remember_offset(partition, offset)
        if not self._unstored:
            return
        if not self.context.holds_lease():
            raise Ended
        pairs = list(self._unstored.values())
        records = self._job.offsets.records(self.unit.connector, pairs)
        if self._job.transactional_id is not None:
            self._producer.commit(self._job.offsets.topic, records)
        else:
            self._producer.flush()
            self.retry(lambda: self._job.offsets.write(records), "Storing offsets")
        self._unstored = {}
        self.retry(lambda: self._task.delivered(pairs), "Notifying the source")
