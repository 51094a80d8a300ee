"""Compare-and-append on a topic: decide on its newest state and write, with no other writer in between.

Several programs may write to one topic. All use one transactional id: the one that wants to write calls
InitProducerId, which fences the others, reads to the end, decides, and appends in one transaction. A
successful commit proves that no other program wrote between the decision and the commit. So the order of
the log is the order of decisions, on any Kafka, without a leader and without a lease (ADR 12).
"""

import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from strom.client.compacted_topic import TopicFollower
from strom.client.factories import NO_CALLBACKS, SINGLE_RECORDS
from strom.model.errors import StromError
from strom.model.retries import RetryPolicy

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

RETRY: Final = RetryPolicy(first_s=0.01, longest_s=1.0, jitter=1.0)
TRANSACTION_TIMEOUT_MS: Final = 10_000
WRITE_HEADER: Final = "strom-write"
"""Identifies a writer's own records, in case the response to its commit was lost."""
Outcome = TypeVar("Outcome", covariant=True)

MakeProducer = Callable[[Mapping[str, Any]], "Producer"]
"""Makes a transactional producer; these properties take precedence over the user's."""


class RecordTooLarge(StromError):
    """A record exceeds the limit of the producer; nothing was written."""


class WriteTimeout(StromError):
    """The transaction was not committed in time."""


class Decision(NamedTuple, Generic[Outcome]):
    """Keys and values to append, and the outcome once they are durable."""

    records: Sequence[tuple[bytes, bytes | None]]
    outcome: Outcome


class FencedWriter:
    """Appends to a followed topic with one partition. The follower must pass every record to `note`."""

    def __init__(
        self,
        follower: TopicFollower,
        make_producer: MakeProducer,
        transactional_id: str,
        response_s: float,
    ) -> None:
        self._follower = follower
        self._make_producer = make_producer
        self._transactional_id = transactional_id
        self._response_s = response_s
        self._token: bytes | None = None
        self._seen: bytes | None = None
        self._lock = threading.Lock()
        self._producer: Producer | None = None

    def note(self, message: "Message") -> None:
        """Recognize this writer's records among those that were read and applied."""
        if (WRITE_HEADER, self._token) in (message.headers() or ()):
            self._seen = self._token

    def stop(self) -> None:
        """Drop the producer and its connections."""
        self._producer = None

    def write(self, decide: Callable[[], Decision[Outcome]], timeout_s: float) -> Outcome:
        """Append the decision's records; returns its outcome once they are durable and applied here.

        A writer that was fenced in the meantime decides again, on the newer state. Raises RecordTooLarge,
        WriteTimeout, or FollowerError if the topic cannot be read.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + timeout_s
        attempt = 0
        sent: Decision[Outcome] | None = None
        with self._lock:
            while True:
                # The state is stale once the follower has stopped.
                self._follower.check()
                try:
                    producer = self._current_producer()
                    if sent is not None and self._seen == self._token:
                        return sent.outcome  # committed: only the response was lost
                    sent = None
                    decision = decide()
                    if decision.records:
                        sent = decision
                        self._append(producer, decision.records)
                        self._follower.wait_for(lambda: self._seen == self._token, self._response_s)
                    return decision.outcome
                except KafkaException as error:
                    self._producer = None
                    if time.monotonic() > deadline:
                        raise WriteTimeout(str(error.args[0].str())) from None
                # The jitter separates two writers that keep fencing each other.
                time.sleep(RETRY.delay(attempt, random.random()))  # noqa: S311
                attempt += 1

    def _current_producer(self) -> "Producer":
        """The producer with the newest epoch.

        A new one aborts the transactions of earlier ones. When it is returned, everything that they
        committed has been applied.
        """
        if self._producer is None:
            producer = self._make_producer(
                {
                    **SINGLE_RECORDS,
                    **NO_CALLBACKS,
                    "transactional.id": self._transactional_id,
                    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                }
            )
            producer.init_transactions(self._response_s)
            self._follower.catch_up(self._response_s)
            self._producer = producer
        return self._producer

    def _append(self, producer: "Producer", records: Sequence[tuple[bytes, bytes | None]]) -> None:
        from confluent_kafka import KafkaError, KafkaException

        self._token = secrets.token_bytes(16)
        headers = [(WRITE_HEADER, self._token)]
        producer.begin_transaction()
        try:
            for key, value in records:
                producer.produce(self._follower.topic, value, key, partition=0, headers=headers)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                producer.abort_transaction(self._response_s)
                raise RecordTooLarge(error.args[0].str()) from None
            raise
        producer.commit_transaction(self._response_s)
