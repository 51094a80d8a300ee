"""Reading records: by assignment (no group needed) or as a member of a group, up to a limit."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strom.cli.connection import Connection
from strom.cli.offsets import OffsetRange, PartitionOffsets
from strom.client.offsets import list_offsets, offset_bounds
from strom.model.errors import UserError
from strom.model.topics import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

POLL_SECONDS = 0.25
BATCH = 1000
DISCOVERY_SECONDS = 5.0
WAITING_SECONDS = 0.5


@dataclass(frozen=True)
class Limits:
    """When to stop by itself."""

    max_messages: int | None = None
    idle_ms: int | None = None
    """Stop when no record came for so long."""


@dataclass(frozen=True)
class Span:
    """The offsets of one partition to read; without an end, for ever."""

    begin: int
    end: int | None

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return self.end is not None and self.begin >= self.end


def plan_spans(
    connection: Connection,
    partitions: Sequence[TopicPartition],
    wanted: OffsetRange,
    *,
    committed: bool = False,
) -> dict[TopicPartition, Span]:
    """Turn an offset range into offsets for each partition, by asking the broker."""
    from confluent_kafka.admin import OffsetSpec

    admin = connection.admin()
    earliest, latest = offset_bounds(admin, partitions, committed=committed)
    at = {
        moment: list_offsets(
            admin, partitions, OffsetSpec.for_timestamp(moment), committed=committed
        )
        for moment in wanted.times
    }
    return {
        partition: Span(
            *PartitionOffsets(
                earliest[partition],
                latest[partition],
                {moment: offsets[partition] for moment, offsets in at.items()},
            ).resolve(wanted)
        )
        for partition in partitions
    }


def group_settings(group: str, from_beginning: bool) -> dict[str, str]:
    """Settings of a consumer in a group that commits exactly what a GroupReader has handed out."""
    return {
        "group.id": group,
        "auto.offset.reset": "earliest" if from_beginning else "latest",
        "enable.auto.commit": "true",
        "enable.auto.offset.store": "false",
    }


class AssignedReader:
    """Reads given spans without any group. Finds partitions that are added meanwhile."""

    def __init__(
        self,
        consumer: "Consumer",
        spans: dict[TopicPartition, Span],
        discover: Callable[[], Sequence[TopicPartition]] | None = None,
    ) -> None:
        self._consumer = consumer
        self._discover = discover
        self._spans: dict[TopicPartition, Span] = {}
        self._open: set[TopicPartition] = set()
        self._bounded = False
        self._next_discovery = time.monotonic() + (DISCOVERY_SECONDS if spans else 0)
        self._assign(spans)

    @property
    def finished(self) -> bool:
        """Whether every span has been read to its end, and no more can appear."""
        return not self._open and self._discover is None

    def wanted(self, message: "Message") -> bool:
        """Whether a record belongs to its span; closes the span at its end."""
        if not self._bounded:
            return True
        partition = TopicPartition(message.topic(), message.partition())
        end = self._spans[partition].end
        if end is None:
            return True
        if message.offset() >= end - 1:
            self._open.discard(partition)
        return bool(message.offset() < end)

    def reached_end(self, message: "Message") -> None:
        """The broker has nothing more now: close the span if that is its end.

        The last offsets of a span may hold no record that is shown (compacted away, or the mark
        that ends a transaction), so that waiting for the record before the end could be for ever.
        """
        partition = TopicPartition(message.topic(), message.partition())
        end = self._spans[partition].end
        if end is not None and message.offset() >= end:
            self._open.discard(partition)

    def idle(self) -> None:
        """Called between polls: look for new partitions now and then."""
        if self._discover is None or time.monotonic() < self._next_discovery:
            return
        # Someone waits for a topic to appear: look more often than for a partition to be added.
        pause = DISCOVERY_SECONDS if self._spans else WAITING_SECONDS
        self._next_discovery = time.monotonic() + pause
        new = [partition for partition in self._discover() if partition not in self._spans]
        self._assign({partition: Span(0, None) for partition in new})

    def _assign(self, spans: dict[TopicPartition, Span]) -> None:
        from confluent_kafka import TopicPartition as Assignment

        self._spans |= spans
        self._bounded = any(span.end is not None for span in self._spans.values())
        reading = {partition: span for partition, span in spans.items() if not span.empty}
        self._open |= reading.keys()
        if reading:
            self._consumer.incremental_assign(
                [
                    Assignment(partition.topic, partition.partition, span.begin)
                    for partition, span in reading.items()
                ]
            )


class GroupReader:
    """Reads as a member of a consumer group; what was printed is committed."""

    finished = False

    def __init__(self, consumer: "Consumer", topics: Sequence[str]) -> None:
        self._consumer = consumer
        consumer.subscribe(list(topics))

    def wanted(self, message: "Message") -> bool:
        """Every record is; its offset is noted for the next commit."""
        self._consumer.store_offsets(message)
        return True

    def reached_end(self, message: "Message") -> None:
        """A group reads on."""

    def idle(self) -> None:
        """The group protocol finds new partitions by itself."""


def read(
    consumer: "Consumer", reader: AssignedReader | GroupReader, limits: Limits
) -> Iterator[list["Message"]]:
    """Batches of records, until the reader is finished or a limit is reached."""
    left = limits.max_messages
    last_record = time.monotonic()
    while not reader.finished and left != 0:
        first = consumer.poll(POLL_SECONDS)
        # The first record is shown at once; whatever else has come already goes with it.
        polled = [] if first is None else [first, *consumer.consume(BATCH - 1, 0)]
        batch: list[Message] = []
        for message in polled:
            if left is not None and len(batch) == left:
                break
            if message.error() is not None:
                _handle_event(message, reader)
            elif reader.wanted(message):
                batch.append(message)
        if batch:
            last_record = time.monotonic()
            left = None if left is None else left - len(batch)
            yield batch
        elif limits.idle_ms is not None and _ms_since(last_record) >= limits.idle_ms:
            return
        reader.idle()


def partitions_of(
    connection: Connection, client: Any, topics: Sequence[str]
) -> list[TopicPartition]:
    """All partitions of the topics that exist."""
    found = []
    for topic in topics:
        metadata = connection.metadata(client, topic).topics.get(topic)
        if metadata is not None and metadata.error is None:
            found += [TopicPartition(topic, number) for number in sorted(metadata.partitions)]
    return found


def _handle_event(message: "Message", reader: AssignedReader | GroupReader) -> None:
    from confluent_kafka import KafkaException

    error = message.error()
    if error.name() == "_PARTITION_EOF":
        reader.reached_end(message)
    elif error.name() in {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}:
        raise UserError(f"Topic {message.topic()} or its partition does not exist (any more).")
    else:
        raise KafkaException(error)


def _ms_since(moment: float) -> float:
    return (time.monotonic() - moment) * 1000
