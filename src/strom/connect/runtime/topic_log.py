"""The worker's compacted topics: JSON records, followed and written."""

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaException, Message, Producer

from strom.client.compacted_topic import FollowerError, TopicFollower, ensure_compacted_topic
from strom.connect.api import ConnectError, RetriableError
from strom.connect.runtime.clients import Clients

log = logging.getLogger(__name__)

RESPONSE_S = 30.0
Apply = Callable[[str, Any, int], None]
"""Gets the key, the parsed JSON value and the offset of a record."""


class TopicLog:
    """Follows one topic: passes every record to `apply`, in order, under `lock`."""

    def __init__(
        self, clients: Clients, topic: str, apply: Apply, *, committed: bool = False
    ) -> None:
        self.topic = topic
        self._apply = apply
        self._admin = clients.admin()
        self._follower = TopicFollower(
            self._admin,
            lambda fixed: clients.consumer(fixed=fixed),
            topic,
            self._take,
            committed=committed,
            on_rewind=self._log_rewind,
        )
        self.lock = self._follower.lock
        self.changed = self._follower.changed

    def start(self, partitions: int, replication: int) -> None:
        """Create the topic if needed, and read it to its end."""
        try:
            count = ensure_compacted_topic(
                self._admin,
                self.topic,
                partitions=partitions,
                replication_factor=replication,
                timeout_s=RESPONSE_S,
            )
        except KafkaException as error:
            raise ConnectError(
                f"The topic {self.topic} cannot be created or read: {error.args[0].str()}"
            ) from None
        with _retriable():
            self._follower.start(count, RESPONSE_S)

    def stop(self) -> None:
        self._follower.stop()

    def catch_up(
        self, timeout_s: float = RESPONSE_S, *, past_open_transactions: bool = True
    ) -> None:
        """Return when everything that is in the topic by now is applied.

        With read_committed and `past_open_transactions`, waits until all transactions that are open
        now have ended.
        """
        with _retriable():
            self._follower.catch_up(timeout_s, past_open_transactions=past_open_transactions)

    def _take(self, message: Message) -> None:
        key, value = message.key(), message.value()
        try:
            read = None if value is None else json.loads(value)
            self._apply((key or b"").decode(), read, message.offset())
        except Exception:
            # One malformed record must not keep all workers from starting.
            log.exception("Skipped a record of %s at offset %d.", self.topic, message.offset())

    def _log_rewind(self, partition: int, position: int, offset: int) -> None:
        # Continue, as Kafka Connect does: known connectors and offsets are kept, and the new content
        # of the topic is applied on top.
        log.error(
            "Partition %d of the topic %s was read up to offset %d and starts again at %d: it was "
            "truncated or recreated. Its previous content is kept in memory until the worker ends.",
            partition,
            self.topic,
            position,
            offset,
        )


class LogWriter:
    """Writes records to the topics, and waits until they are durable."""

    def __init__(self, clients: Clients) -> None:
        self._producer: Producer = clients.reporting_producer()
        self._lock = threading.Lock()

    def write(self, topic: str, records: Iterable[tuple[str, Mapping[str, Any] | None]]) -> None:
        """Write records in this order; RetriableError if they cannot be written."""
        failed: list[Any] = []

        def done(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error)

        with self._lock:
            for key, value in records:
                data = None if value is None else json.dumps(value).encode()
                self._producer.produce(topic, data, key.encode(), on_delivery=done)
            left = self._producer.flush(RESPONSE_S)
        if failed or left:
            reason = failed[0].str() if failed else "the broker does not respond"
            raise RetriableError(f"{topic} cannot be written: {reason}")

    def close(self) -> None:
        self._producer.flush(5)


@contextlib.contextmanager
def _retriable() -> Iterator[None]:
    try:
        yield
    except FollowerError as error:
        raise RetriableError(str(error)) from None
