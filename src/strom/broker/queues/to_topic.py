"""An exchange that feeds a topic: what is routed through it is also appended to a Kafka topic.

The routing key becomes the record's key, the body its value, the message's headers its headers. Keys are
partitioned as by Kafka's default partitioner, so that AMQP and Kafka producers agree.

A publisher whose message the topic refuses gets a nack. A dead letter, a delayed message or a record of
another topic has no publisher: it is retried until the topic accepts it, and its source keeps it until
the copy is durable.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from strom.broker.partition import HostedTopic, Partition
from strom.broker.queues.turn import TickBatcher
from strom.model.clock import Clock
from strom.model.errors import ApiError, ErrorCode
from strom.model.retries import RetryPolicy
from strom.queues.message import Message
from strom.queues.receipts import Receipt
from strom.storage.log import Appended
from strom.wire.kafka.batch import HEADER_BYTES
from strom.wire.kafka.partitioner import partition_of
from strom.wire.kafka.records import Record, build_batch

log = logging.getLogger(__name__)

BATCH_RECORDS = 1000
BATCH_BYTES = 512 * 1024
RECORD_OVERHEAD = 64
"""Upper bound of a record's size besides its key, value and headers."""
RETRY = RetryPolicy(first_s=1.0, longest_s=5.0)
"""For temporary errors: a full disk, a missing topic."""
RETRY_OF_A_RECORD = RetryPolicy(first_s=1.0, longest_s=60.0)
"""For a record that the topic refuses until its configuration is changed."""
RETRIED_AT_ONCE = 100


@dataclass(slots=True, eq=False)
class FeedItem:
    """A record for the topic, and the receipt that waits for it."""

    record: Record | None
    """None while it is in the backlog and can be read again."""
    receipt: Receipt | None
    again: Callable[[], Message | None] | None = None
    """Reads the message again from its source; None if it is no longer needed."""
    partition: int | None = None
    """None: chosen by the key."""

    @property
    def is_patient(self) -> bool:
        """Whether to retry instead of failing the receipt."""
        return self.receipt is not None and self.receipt.is_patient

    def settle(self, *, durable: bool) -> None:
        if self.receipt is not None:
            self.receipt.settle(durable=durable)

    def load(self) -> Record | None:
        """Read the record; ApiError if it cannot be read now, None if it is no longer needed."""
        if self.record is None and self.again is not None:
            message = self.again()
            self.record = None if message is None else record_of(message)
        return self.record

    def unload(self) -> None:
        """Free the bytes, if they can be read again."""
        if self.again is not None:
            self.record = None


class TopicFeed:
    """Collects messages for one topic during a turn of the event loop, and appends them at its end."""

    def __init__(
        self,
        name: str,
        topic: Callable[[], HostedTopic | None],
        turn: TickBatcher,
        clock: Clock,
    ) -> None:
        self.name = name
        self._topic = topic
        self._turn = turn
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._waiting: list[FeedItem] = []
        self._backlog: deque[FeedItem] = deque()
        """Refused records that are retried."""
        self._is_unavailable = False
        """Whether the topic refuses all records, not only some."""
        self._retries = 0
        """Retries in a row of which the topic accepted nothing."""
        self._timer: asyncio.TimerHandle | None = None
        self._has_warned = False
        self._stopped = False
        self._closed = False

    def add(
        self,
        message: Message,
        receipt: Receipt | None,
        again: Callable[[], Message | None] | None = None,
    ) -> None:
        """Append a message at the end of the turn."""
        self._add(FeedItem(record_of(message), receipt, again))

    def add_record(self, record: Record, receipt: Receipt, partition: int) -> None:
        """Append a record unchanged to a partition (modulo the number of partitions)."""
        self._add(FeedItem(record, receipt, partition=partition))

    def _add(self, item: FeedItem) -> None:
        if item.receipt is not None:
            item.receipt.expect()
        if self._is_unavailable and item.is_patient:  # keeps the order of the backlog
            self._retry_later(item)
            return
        if not self._waiting:
            self._turn.write_later(self)
        self._waiting.append(item)

    def refusal(self, message: Message) -> str | None:
        """Why the topic would refuse this message; None if it would not."""
        topic = self._topic()
        if topic is None:
            return "it does not exist"
        size = len(build_batch([record_of(message)]))
        limit = topic.settings.max_message_bytes
        return None if size <= limit else f"{size} bytes exceed max.message.bytes={limit}"

    def stop(self) -> None:
        """Stop retrying; refused messages are still in their sources."""
        self._stopped = True
        self._cancel_retry()

    def close(self) -> None:
        """Drop the backlog of a deleted exchange, as for messages to any missing exchange."""
        self.stop()
        self._closed = True
        dropped, self._backlog = self._backlog, deque()
        if dropped:
            log.warning(
                "Dropped %d messages that topic %s had refused: their exchange was deleted.",
                len(dropped),
                self.name,
            )
        for item in dropped:
            item.settle(durable=True)

    # --- writing -------------------------------------------------------------------------------

    def write_progress(self) -> None:
        """Nothing to do: a topic has no progress."""

    def write_messages(self) -> None:
        """Append the messages; those that the topic refuses are nacked, or retried."""
        waiting, self._waiting = self._waiting, []
        self._write(waiting)

    def _write(self, items: list[FeedItem]) -> None:
        topic = self._topic()
        if topic is None:
            self._refuse(items, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        parts: dict[int, list[FeedItem]] = {}
        for item in items:
            index = item.partition
            if index is None:
                assert item.record is not None  # noqa: S101 - only the backlog has none
                index = partition_of(item.record.key or b"", len(topic.partitions))
            parts.setdefault(index % len(topic.partitions), []).append(item)
        for index, of_one in parts.items():
            for batch in _batches(of_one, topic.settings.max_message_bytes):
                self._append(topic.partitions[index], batch)

    def _append(self, partition: Partition, items: list[FeedItem]) -> None:
        records = [
            item.record._replace(offset=offset)
            for offset, item in enumerate(items)
            if item.record is not None
        ]
        try:
            appended = partition.append(
                build_batch(records), self._clock.now_ms(), from_client=False
            )
        except ApiError as error:
            if len(items) > 1 and not error.code.retriable:
                for item in items:  # one invalid record must not fail the others
                    self._append(partition, [item])
            else:
                self._refuse(items, error)
            return
        self._await_disk(partition, appended, items)

    def _await_disk(self, partition: Partition, appended: Appended, items: list[FeedItem]) -> None:
        """Settle what is durable; where a source is removed for it, only after a sync to disk."""
        if partition.deleted:
            self._refuse(items, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        if partition.is_durable(appended):
            for item in items:
                if not item.is_patient:
                    item.settle(durable=True)
            items = [item for item in items if item.is_patient]
            if partition.log.flushed_offset > appended.last_offset:
                for item in items:
                    item.settle(durable=True)
                return
        if items:
            partition.on_durable(
                appended, lambda code: self._synced(partition, appended, items, code)
            )
            partition.sync_soon()

    def _synced(
        self, partition: Partition, appended: Appended, items: list[FeedItem], code: ErrorCode
    ) -> None:
        patient = []
        for item in items:
            if code is ErrorCode.NONE or not item.is_patient:
                item.settle(durable=code is ErrorCode.NONE)
            else:
                patient.append(item)
        if not patient:
            return
        if partition.deleted:
            self._refuse(patient, ApiError(code))
        elif not self._stopped or self._closed:
            # The records are in the log: wait for the next sync instead of appending duplicates.
            self._loop.call_later(RETRY.delay(0, 0), self._await_disk, partition, appended, patient)

    # --- refusals ------------------------------------------------------------------------------

    def _refuse(self, items: list[FeedItem], error: ApiError) -> None:
        patient = [item for item in items if item.is_patient]
        if len(patient) < len(items):
            log.warning("Topic %s refuses messages, which are nacked: %s", self.name, error)
        if patient and not self._has_warned:
            self._has_warned = True
            log.warning(
                "Topic %s refuses %d messages: %s They stay in their source and are retried. %s",
                self.name,
                len(patient),
                error,
                "Free disk space, or create the topic if it is missing."
                if error.code.retriable
                else "Change the topic's configuration (such as max.message.bytes), or the exchange.",
            )
        self._is_unavailable = self._is_unavailable or (bool(patient) and error.code.retriable)
        for item in items:
            if item.is_patient:
                self._retry_later(item)
            else:
                item.settle(durable=False)

    def _retry_later(self, item: FeedItem) -> None:
        if self._closed:
            item.settle(durable=True)
            return
        item.unload()
        self._backlog.append(item)
        if self._timer is None:
            self._retry_in(RETRY.delay(self._retries, 0))

    def _retry_in(self, seconds: float) -> None:
        self._cancel_retry()
        if not self._stopped:
            self._timer = self._loop.call_later(seconds, self.retry)

    def _cancel_retry(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def retry(self) -> None:
        """Retry some of the backlog; the rest follows as soon as these are accepted."""
        before = len(self._backlog)
        tried = [self._backlog.popleft() for _ in range(min(before, RETRIED_AT_ONCE))]
        self._is_unavailable = False
        self._write(list(self._loaded(tried)))
        refused = len(self._backlog) - (before - len(tried))
        if not self._backlog:
            self._cancel_retry()
            self._retries = 0
            self._has_warned = False
            log.info("Topic %s accepts messages again.", self.name)
        elif refused < len(tried):
            self._retries = 0
            self._retry_in(0)
        else:
            if self._is_unavailable:  # then they keep their order; otherwise retry the others first
                self._backlog.rotate(refused)
            policy = RETRY if self._is_unavailable else RETRY_OF_A_RECORD
            self._retry_in(policy.delay(self._retries, 0))
            self._retries += 1

    def _loaded(self, items: list[FeedItem]) -> Iterator[FeedItem]:
        for item in items:
            try:
                record = item.load()
            except ApiError as error:
                self._refuse([item], error)
                continue
            if record is None:
                item.settle(durable=True)
            else:
                yield item


def _batches(items: list[FeedItem], max_message_bytes: int) -> Iterator[list[FeedItem]]:
    """Batches that the topic accepts, unless a single record is too large for it."""
    most = min(BATCH_BYTES, max_message_bytes - HEADER_BYTES)
    batch: list[FeedItem] = []
    size = 0
    for item in items:
        size_of_one = _size(item.record)
        if batch and (size + size_of_one > most or len(batch) >= BATCH_RECORDS):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += size_of_one
    if batch:
        yield batch


def _size(record: Record | None) -> int:
    if record is None:
        return 0
    headers = sum(len(name) * 4 + len(value or b"") + 10 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + RECORD_OVERHEAD


def record_of(message: Message) -> Record:
    """Convert a message to a record of the topic."""
    key = message.routing_key.encode("utf-8", "surrogateescape")
    headers = tuple((name, _as_bytes(value)) for name, value in (message.headers or {}).items())
    return Record(0, message.timestamp_ms, key, message.body, headers)


def _as_bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode("utf-8", "surrogateescape")
