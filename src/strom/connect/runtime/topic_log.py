"""A compacted topic as a log that is followed to its end, and written to."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic, OffsetSpec

from strom.connect.api import ConnectError, RetriableError
from strom.connect.runtime.clients import Clients

log = logging.getLogger(__name__)

ANSWER_S = 30.0
_BATCH = 1000
Apply = Callable[[str, Any, int], None]
"""Takes key, value (of JSON) and offset of one record."""


class TopicLog:
    """One topic: everything it holds goes through `apply`, in order, under `lock`."""

    def __init__(
        self, clients: Clients, topic: str, apply: Apply, *, committed: bool = False
    ) -> None:
        self._clients = clients
        self.topic = topic
        self._apply = apply
        self._committed = committed
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self._ends: dict[int, int] = {}
        self._stopping = threading.Event()
        self._consumer: Consumer | None = None
        self._admin = clients.admin()
        self._thread = threading.Thread(
            target=self._follow, name=f"connect-log-{topic}", daemon=True
        )

    def start(self, partitions: int, replication: int) -> None:
        """Create the topic if it is not there, and read what can be read of it now."""
        self._create(partitions, replication)
        count = self._partition_count()
        self._consumer = self._clients.consumer(
            f"strom-connect-log-{self.topic}",
            {
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if self._committed else "read_uncommitted",
                "fetch.wait.max.ms": 50,
            },
        )
        self._ends = dict.fromkeys(range(count), 0)
        self._consumer.assign([TopicPartition(self.topic, number, 0) for number in range(count)])
        self._thread.start()
        self.catch_up(behind_open=False)

    def stop(self) -> None:
        """End following."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def catch_up(self, timeout_s: float = ANSWER_S, *, behind_open: bool = True) -> None:
        """Return when everything that is in the topic at this moment was applied.

        Of a log that reads what is committed, this waits until all transactions that are open
        have ended: what lies behind an open one cannot be seen before. Without `behind_open` it
        is content with what can be seen now.
        """
        deadline = time.monotonic() + timeout_s
        ends = self._present_ends(timeout_s, behind_open)
        with self.changed:
            while any(self._ends[number] < end for number, end in ends.items()):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise RetriableError(f"The end of {self.topic} was not reached in time.")
                self.changed.wait(left)

    def _present_ends(self, timeout_s: float, behind_open: bool) -> dict[int, int]:
        level = IsolationLevel.READ_UNCOMMITTED
        if self._committed and not behind_open:
            level = IsolationLevel.READ_COMMITTED
        asked = {TopicPartition(self.topic, number): OffsetSpec.latest() for number in self._ends}
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                futures = self._admin.list_offsets(
                    asked, isolation_level=level, request_timeout=timeout_s
                )
                return {one.partition: future.result().offset for one, future in futures.items()}
            except KafkaException as error:
                # A topic that was just created may have no leader yet.
                if time.monotonic() > deadline:
                    text = f"{self.topic} cannot be read: {error.args[0].str()}"
                    raise RetriableError(text) from None
                time.sleep(0.1)

    def _create(self, partitions: int, replication: int) -> None:
        new = NewTopic(self.topic, partitions, replication, config={"cleanup.policy": "compact"})
        try:
            self._admin.create_topics([new], operation_timeout=ANSWER_S)[self.topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ConnectError(
                    f"The topic {self.topic} cannot be created: {error.args[0].str()}"
                ) from None

    def _partition_count(self) -> int:
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline:
            found = self._admin.list_topics(self.topic, timeout=ANSWER_S).topics[self.topic]
            if found.error is None and found.partitions:
                return len(found.partitions)
            time.sleep(0.05)
        raise ConnectError(f"The topic {self.topic} has no partitions that can be reached.")

    def _follow(self) -> None:
        consumer = self._consumer
        if consumer is None:
            return
        while not self._stopping.is_set():
            first = consumer.poll(0.1)  # `consume` alone would wait on for a whole batch
            if first is not None:
                with self.changed:
                    for message in (first, *consumer.consume(_BATCH, 0)):
                        self._take(message)
                    self.changed.notify_all()
        consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._ends[message.partition()] = message.offset()
            else:
                log.warning("Reading %s: %s", self.topic, error.str())
            return
        self._ends[message.partition()] = message.offset() + 1
        key, value = message.key(), message.value()
        try:
            read = None if value is None else json.loads(value)
            self._apply((key or b"").decode(), read, message.offset())
        except Exception:
            # One record that nobody understands must not keep all workers from starting.
            log.exception("A record of %s at %d is passed over.", self.topic, message.offset())


class LogWriter:
    """Writes records to the logs, and waits until they are safe."""

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
            left = self._producer.flush(ANSWER_S)
        if failed or left:
            reason = failed[0].str() if failed else "the broker does not answer"
            raise RetriableError(f"{topic} cannot be written: {reason}")

    def close(self) -> None:
        """Write what is left."""
        self._producer.flush(5)
