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

from confluent_kafka import KafkaError, KafkaException, Producer

from strom.client.topics import CLUSTER_DEFAULT, create_topic
from strom.connect.api import ConnectError, PoisonRecord, RetriableError, SourceRecord, SourceTask
from strom.connect.runtime.assignment import Unit
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.conversion import Conversion, ProducerRecord, StageError
from strom.connect.runtime.failures import Failures
from strom.connect.runtime.offsets import SourceOffsets
from strom.connect.runtime.runner import Ended, RunnerContext, UnitRunner, log_and_ignore
from strom.connect.runtime.settings import SourceSettings, with_prefix
from strom.connect.runtime.transaction_timeouts import (
    BROKER_LIMIT,
    TIMEOUT,
    commit_interval_ms,
    configured_timeout,
    timeout_ms,
)

TRANSACTION_S = 60.0
_QUEUE_FULL_WAIT_S = 0.05


@dataclass(frozen=True)
class SourceJob:
    """What one run of a source task is made of."""

    settings: SourceSettings
    make_task: Callable[["_Context"], SourceTask[Any]]
    conversion: Conversion
    clients: Clients
    offsets: SourceOffsets
    transactional_id: str | None
    """None for at least once."""
    ready: Callable[[UnitRunner], None]
    """Returns when zombies of older generations of the connector are fenced."""
    flush_s: float
    uses_topic: Callable[[Unit, str], None]


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
        self._failed: list[str] = []
        self._topics: set[str] = set()

    def work(self) -> None:
        """Run the task until it is stopped."""
        self._job = self._make_job()
        self._failures = Failures(
            self.common, self.unit.task, self.log, self.context.secrets.hide, self.stats
        )
        self._failed.clear()
        self._unstored: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._open_transaction = False
        self._job.ready(self)
        self._producer = self.retry(self._make_producer, "Opening transactions")
        # After `init_transactions`, which has ended any transaction that an earlier run left open.
        self.retry(self._job.offsets.catch_up, "Reading offsets")
        context = _Context(self.stopping, self._job.offsets, self.unit.connector)
        self._task = self._job.make_task(context)
        try:
            self.retry(self._task.start, "Opening the source")
            self._loop()
        finally:
            log_and_ignore(self._abort, self.log)
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
        outgoing = self._convert(records)
        if outgoing and self._job.transactional_id is not None:
            self._begin()
        self._note_topics(outgoing)
        self._produce(outgoing)
        self.stats.records += len(outgoing)
        self._producer.poll(0)
        self._check_failures()
        self._remember(records)

    def _begin(self) -> None:
        if not self._open_transaction:
            self._producer.begin_transaction()
            self._open_transaction = True
            self._begun_at = time.monotonic()

    def _produce(self, outgoing: Sequence[ProducerRecord]) -> None:
        produce = self._producer.produce
        done = 0
        while done < len(outgoing):
            try:
                for record in outgoing[done:] if done else outgoing:
                    topic, value, key, partition, timestamp, headers = record
                    if headers is None and timestamp == 0 and partition == -1:
                        produce(topic, value, key)
                    else:
                        produce(topic, value, key, partition, None, None, timestamp, headers)
                    done += 1
            except BufferError:
                self._producer.poll(_QUEUE_FULL_WAIT_S)
            except KafkaException as error:
                self._failures.handle(
                    "KAFKA_PRODUCE", "Producer", self._to_record_error(error, outgoing[done])
                )
                done += 1

    def _convert(self, records: Sequence[SourceRecord]) -> list[ProducerRecord]:
        convert = self._job.conversion.outgoing
        try:
            return self.retry(lambda: convert(records), "Converting")
        except ConnectError:
            pass
        except Exception as error:  # noqa: BLE001 - transforms may raise anything; handled record by record
            self.log.debug("One of %d records cannot be converted: %s", len(records), error)
        return [one for record in records if (one := self._convert_one(record)) is not None]

    def _convert_one(self, record: SourceRecord) -> ProducerRecord | None:
        try:
            return self.retry(lambda: self._job.conversion.one_outgoing(record), "Converting")
        except StageError as error:
            self._failures.handle(error.stage, error.executor, error.__cause__ or error)
            return None

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
        if len(newest) > 1:  # equal partitions may be different objects: the later one wins
            for record in records:
                self._remember_offset(record.source_partition, record.source_offset)
            return
        for record in newest.values():
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
            self._commit(records)
        else:
            self._flush()
            self.retry(lambda: self._job.offsets.write(records), "Storing offsets")
        self._unstored = {}
        self.retry(lambda: self._task.delivered(pairs), "Notifying the source")

    def _commit(self, records: Sequence[tuple[str, Mapping[str, Any] | None]]) -> None:
        self._begin()  # none is open if every record was dropped; the offsets still advance
        for key, offset in records:
            self._producer.produce(
                self._job.offsets.topic, json.dumps(offset).encode(), key.encode()
            )
        while True:
            try:
                self._producer.commit_transaction(TRANSACTION_S)
                break
            except KafkaException as error:
                if not error.args[0].retriable():
                    self._check_failures()
                    raise ConnectError(
                        f"The transaction cannot be committed: {error.args[0].str()}."
                        f"{self._expiry()}"
                    ) from None
        self._open_transaction = False

    def _to_record_error(self, error: KafkaException, record: ProducerRecord) -> ConnectError:
        """The error of a record that the producer refuses; errors of the producer itself are raised."""
        problem = _refusal(error.args[0], record.topic, len(record.value or b""))
        if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
            raise ConnectError(problem + self._expiry()) from None
        return ConnectError(problem)

    def _expiry(self) -> str:
        """A sentence for errors, if the broker has aborted the transaction after its timeout."""
        if not self._open_transaction:
            return ""
        clients, open_ms = self._job.clients, int((time.monotonic() - self._begun_at) * 1000)
        configured = configured_timeout(
            clients.overrides, with_prefix(clients.settings, "producer.")
        )
        limit_ms = configured.ms if configured else timeout_ms(int(self._interval() * 1000))
        if open_ms < limit_ms:
            return ""
        return (
            f" The transaction was open for {open_ms} ms, and the broker aborts it after {TIMEOUT}="
            f"{limit_ms}: none of it was committed, and it is read again. Raise "
            f"producer.override.{TIMEOUT}, or end transactions sooner."
        )

    def _abort(self) -> None:
        if self._open_transaction:
            self._open_transaction = False
            self._producer.abort_transaction(10)

    def _flush(self) -> None:
        deadline = time.monotonic() + TRANSACTION_S * 2
        while self._producer.flush(1.0):
            self._check_failures()
            if time.monotonic() > deadline:
                raise ConnectError(
                    f"The broker did not acknowledge the records within {TRANSACTION_S * 2:g} seconds."
                )
        self._check_failures()

    def _check_failures(self) -> None:
        if self._failed:
            raise ConnectError(self._failed[0] + self._expiry())

    def _make_producer(self) -> Producer:
        job = self._job
        if job.transactional_id is None:
            return job.clients.producer(on_failure=self._note_failure)
        producer = job.clients.producer(
            {
                "transactional.id": job.transactional_id,
                TIMEOUT: timeout_ms(int(self._interval() * 1000)),
            },
            on_failure=self._note_failure,
        )
        try:
            producer.init_transactions(TRANSACTION_S)
        except KafkaException as error:
            problem = f"The transactions of {self.unit} cannot be started: {error.args[0].str()}"
            if error.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                raise ConnectError(
                    f"{problem} Shorten transaction.boundary.interval.ms or "
                    f"producer.override.{TIMEOUT}, or raise the broker's {BROKER_LIMIT}."
                ) from None
            raise RetriableError(problem) from None
        return producer

    def _note_failure(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(_refusal(error, message.topic(), len(message)))


def _refusal(error: KafkaError, topic: str, size: int) -> str:
    problem = f"A record of {size} bytes cannot be written to topic {topic}: {error.str()}."
    if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
        return problem
    return (
        f"{problem} The connector's producer.override.message.max.bytes and the topic's "
        "max.message.bytes limit the size."
    )
