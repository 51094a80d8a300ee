"""An exchange that feeds a topic: what is routed through it is also appended to a Kafka topic.

The routing key is the record's key, the body its value, the message's headers are its headers. Keys go
to partitions as Kafka's own producers send them there, so both kinds of producers agree.
"""

import logging
from collections.abc import Callable

from strom.broker.queues.turn import EndOfTurn
from strom.broker.topics import HostedTopic
from strom.model.clock import Clock
from strom.model.errors import ApiError, ErrorCode
from strom.queues.message import Message
from strom.queues.queue import Receipt
from strom.wire.kafka.partitioner import partition_of
from strom.wire.kafka.records import Record, build_batch

log = logging.getLogger(__name__)

BATCH_RECORDS = 1000


class TopicFeed:
    """Gathers messages for one topic during a turn, and appends them at its end."""

    def __init__(
        self,
        topic: Callable[[], HostedTopic | None],
        turn: EndOfTurn,
        clock: Clock,
    ) -> None:
        self._topic = topic
        self._turn = turn
        self._clock = clock
        self._waiting: list[tuple[Message, Receipt | None]] = []

    def add(self, message: Message, receipt: Receipt | None) -> None:
        """One more."""
        if receipt is not None:
            receipt.expect()
        if not self._waiting:
            self._turn.write_later(self)
        self._waiting.append((message, receipt))

    def write_progress(self) -> None:
        """A topic keeps everything."""

    def write_messages(self) -> None:
        """Append them; those that the topic does not take are not confirmed."""
        waiting, self._waiting = self._waiting, []
        topic = self._topic()
        if topic is None:
            _settle(waiting, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        parts: dict[int, list[tuple[Message, Receipt | None]]] = {}
        for message, receipt in waiting:
            key = message.routing_key.encode("utf-8", "surrogateescape")
            index = partition_of(key, len(topic.partitions))
            parts.setdefault(index, []).append((message, receipt))
        for index, items in parts.items():
            for start in range(0, len(items), BATCH_RECORDS):
                self._append(topic, index, items[start : start + BATCH_RECORDS])

    def _append(
        self, topic: HostedTopic, index: int, items: list[tuple[Message, Receipt | None]]
    ) -> None:
        partition = topic.partitions[index]
        records = [_record(offset, message) for offset, (message, _) in enumerate(items)]
        try:
            appended = partition.append(
                build_batch(records), self._clock.now_ms(), from_client=False
            )
        except ApiError as error:
            log.warning("Messages did not get into topic %s: %s", topic.topic.name, error)
            _settle(items, error.code)
            return
        if partition.is_safe(appended):
            _settle(items, ErrorCode.NONE)
        else:
            partition.when_safe(appended, lambda code: _settle(items, code))


def _settle(items: list[tuple[Message, Receipt | None]], code: ErrorCode) -> None:
    for _, receipt in items:
        if receipt is not None:
            receipt.settle(safe=code is ErrorCode.NONE)


def _record(offset: int, message: Message) -> Record:
    key = message.routing_key.encode("utf-8", "surrogateescape")
    headers = tuple((name, _as_bytes(value)) for name, value in (message.headers or {}).items())
    return Record(offset, message.timestamp_ms, key, message.body, headers)


def _as_bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode("utf-8", "surrogateescape")
