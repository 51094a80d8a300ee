"""Reads records by assignment (without a group) or as a member of a group, up to a limit."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strom.cli.connection import CliConnection
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
    """When to stop reading."""

    max_messages: int | None = None
    idle_ms: int | None = None
    """Stop after this time without a record."""


@dataclass(frozen=True)
class ResolvedRange:
    """The offsets of one partition to read; without an end, reading never stops."""

    begin: int
    end: int | None

    @property
    def is_empty(self) -> bool:
        return self.end is not None and self.begin >= self.end


def resolve_ranges(
    connection: CliConnection,
    partitions: Sequence[TopicPartition],
    wanted: OffsetRange,
    *,
    committed: bool = False,
) -> dict[TopicPartition, ResolvedRange]:
    """Resolve an offset range to the offsets of each partition, with the broker's help."""
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
        partition: ResolvedRange(
            *PartitionOffsets(
                earliest[partition],
                latest[partition],
                {moment: offsets[partition] for moment, offsets in at.items()},
            ).resolve(wanted)
        )
        for partition in partitions
    }


def group_settings(group: str, from_beginning: bool) -> dict[str, str]:
    """Settings of a group's consumer that commits exactly what a GroupReader has returned."""
    return {
        "group.id": group,
        "auto.offset.reset": "earliest" if from_beginning else "latest",
        "enable.auto.commit": "true",
        "enable.auto.offset.store": "false",
    }


class AssignedReader:
    """Reads offset ranges without a group; `discover` finds partitions that are added later."""

    def __init__(
        self,
        consumer: "Consumer",
        ranges: dict[TopicPartition, ResolvedRange],
        discover: Callable[[], Sequence[TopicPartition]] | None = None,
    ) -> None:
        self._consumer = consumer
        self._discover = discover
        self._ranges: dict[TopicPartition, ResolvedRange] = {}
        self._open: set[TopicPartition] = set()
        self._bounded = False
        self._next_discovery = time.monotonic() + (DISCOVERY_SECONDS if ranges else 0)
        self._assign(ranges)

    @property
    def finished(self) -> bool:
        """Whether every range has been read to its end, and no new partition can appear."""
        return not self._open and self._discover is None

    def wanted(self, message: "Message") -> bool:
        """Whether a record is within its range; closes the range at its end."""
        if not self._bounded:
            return True
        partition = TopicPartition(message.topic(), message.partition())
        end = self._ranges[partition].end
        if end is None:
            return True
        if message.offset() >= end - 1:
            self._open.discard(partition)
        return bool(message.offset() < end)

    def reached_end(self, message: "Message") -> None:
        """At the end of the partition: close the range if it ends here.

        The last offsets of a range may have no record (compacted away, or a transaction marker), so the
        record before the end may never arrive.
        """
        partition = TopicPartition(message.topic(), message.partition())
        end = self._ranges[partition].end
        if end is not None and message.offset() >= end:
            self._open.discard(partition)

    def idle(self) -> None:
        """Called between polls: look for new partitions from time to time."""
        if self._discover is None or time.monotonic() < self._next_discovery:
            return
        # Look for a missing topic more often than for added partitions: a user is waiting.
        pause = DISCOVERY_SECONDS if self._ranges else WAITING_SECONDS
        self._next_discovery = time.monotonic() + pause
        new = [partition for partition in self._discover() if partition not in self._ranges]
        self._assign({partition: ResolvedRange(0, None) for partition in new})

    def _assign(self, ranges: dict[TopicPartition, ResolvedRange]) -> None:
        from confluent_kafka import TopicPartition as Assignment

        self._ranges |= ranges
        self._bounded = any(resolved.end is not None for resolved in self._ranges.values())
        reading = {
            partition: resolved for partition, resolved in ranges.items() if not resolved.is_empty
        }
        self._open |= reading.keys()
        if reading:
            self._consumer.incremental_assign(
                [
                    Assignment(partition.topic, partition.partition, resolved.begin)
                    for partition, resolved in reading.items()
                ]
            )


class GroupReader:
    """Reads as a member of a consumer group, which commits what was printed."""

    finished = False

    def __init__(self, consumer: "Consumer", topics: Sequence[str]) -> None:
        self._consumer = consumer
        consumer.subscribe(list(topics))

    def wanted(self, message: "Message") -> bool:
        """Every record is; stores its offset for the next commit."""
        self._consumer.store_offsets(message)
        return True

    def reached_end(self, message: "Message") -> None:
        """A group keeps reading."""

    def idle(self) -> None:
        """The group protocol finds new partitions by itself."""


def read(
    consumer: "Consumer", reader: AssignedReader | GroupReader, limits: Limits
) -> Iterator[list["Message"]]:
    """Yields batches of records until the reader is finished or a limit is reached."""
    left = limits.max_messages
    last_record = time.monotonic()
    while not reader.finished and left != 0:
        first = consumer.poll(POLL_SECONDS)
        # Return the first record at once, with all others that have already arrived.
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
    connection: CliConnection, client: Any, topics: Sequence[str]
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
        raise UserError(f"Topic {message.topic()} or its partition no longer exists.")
    else:
        raise KafkaException(error)


def _ms_since(moment: float) -> float:
    return (time.monotonic() - moment) * 1000
