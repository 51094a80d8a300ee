"""The producer of a source task: its transactions, and what the broker or librdkafka refuses."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from strom.connect.api import ConnectError, RetriableError
from strom.connect.runtime.clients import Clients
from strom.connect.runtime.conversion import ProducerRecord
from strom.connect.runtime.settings import with_prefix
from strom.connect.runtime.transaction_timeouts import (
    BROKER_LIMIT,
    TIMEOUT,
    configured_timeout,
    timeout_ms,
)

TRANSACTION_S = 60.0
_QUEUE_FULL_WAIT_S = 0.05


class SourceProducer:
    """Made once per run of a task; with a transactional id it fences any earlier run."""

    def __init__(
        self, clients: Clients, transactional_id: str | None, interval_ms: int, task: str
    ) -> None:
        """Open the producer; RetriableError if the broker does not start its transactions yet.

        `interval_ms` is the time between commits, which the transaction timeout follows.
        """
        self._clients = clients
        self._transactional = transactional_id is not None
        self._timeout_ms = timeout_ms(interval_ms)
        self._failed: list[str] = []
        self._begun_at: float | None = None
        """When the open transaction began; None if none is open."""
        settings: dict[str, Any] = {}
        if transactional_id is not None:
            settings = {"transactional.id": transactional_id, TIMEOUT: self._timeout_ms}
        self._producer = clients.producer(settings, on_failure=self._note_failure)
        if not self._transactional:
            return
        try:
            self._producer.init_transactions(TRANSACTION_S)
        except KafkaException as error:
            problem = f"The transactions of {task} cannot be started: {error.args[0].str()}"
            if error.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                raise ConnectError(
                    f"{problem} Shorten transaction.boundary.interval.ms or "
                    f"producer.override.{TIMEOUT}, or raise the broker's {BROKER_LIMIT}."
                ) from None
            raise RetriableError(problem) from None

    def produce(
        self, outgoing: Sequence[ProducerRecord], on_refused: Callable[[ConnectError], None]
    ) -> None:
        """Send records, in a transaction if there are any; `on_refused` gets those too large."""
        if outgoing and self._transactional:
            self._begin()
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
                on_refused(self._to_record_error(error, outgoing[done]))
                done += 1
        self._producer.poll(0)
        self._check_failures()

    def commit(self, topic: str, offsets: Sequence[tuple[str, Mapping[str, Any] | None]]) -> None:
        """Commit everything sent so far together with these records of the offsets topic."""
        self._begin()  # none is open if every record was dropped; the offsets still advance
        for key, offset in offsets:
            self._producer.produce(topic, json.dumps(offset).encode(), key.encode())
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
        self._begun_at = None

    def abort(self) -> None:
        """Abort the open transaction, if there is one."""
        if self._begun_at is not None:
            self._begun_at = None
            self._producer.abort_transaction(10)

    def flush(self) -> None:
        """Return when the broker has acknowledged everything sent so far; ConnectError if it does not."""
        deadline = time.monotonic() + TRANSACTION_S * 2
        while self._producer.flush(1.0):
            self._check_failures()
            if time.monotonic() > deadline:
                raise ConnectError(
                    f"The broker did not acknowledge the records within {TRANSACTION_S * 2:g} seconds."
                )
        self._check_failures()

    def _begin(self) -> None:
        if self._begun_at is None:
            self._producer.begin_transaction()
            self._begun_at = time.monotonic()

    def _to_record_error(self, error: KafkaException, record: ProducerRecord) -> ConnectError:
        """The error of a record that the producer refuses; errors of the producer itself are raised."""
        problem = _refusal(error.args[0], record.topic, len(record.value or b""))
        if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
            raise ConnectError(problem + self._expiry()) from None
        return ConnectError(problem)

    def _expiry(self) -> str:
        """A sentence for errors, if the broker has aborted the transaction after its timeout."""
        if self._begun_at is None:
            return ""
        open_ms = int((time.monotonic() - self._begun_at) * 1000)
        configured = configured_timeout(
            self._clients.overrides, with_prefix(self._clients.settings, "producer.")
        )
        limit_ms = configured.ms if configured else self._timeout_ms
        if open_ms < limit_ms:
            return ""
        return (
            f" The transaction was open for {open_ms} ms, and the broker aborts it after {TIMEOUT}="
            f"{limit_ms}: none of it was committed, and it is read again. Raise "
            f"producer.override.{TIMEOUT}, or end transactions sooner."
        )

    def _check_failures(self) -> None:
        if self._failed:
            raise ConnectError(self._failed[0] + self._expiry())

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
