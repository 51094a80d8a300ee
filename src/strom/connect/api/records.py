"""Records on their way in and out, before and after conversion to bytes.

Both kinds are tuples, for millions of them are made. Transforms see what they have in common:
topic, partition, key, value, their schemas, timestamp and headers.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from strom.connect.api.schema import Schema


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Header(NamedTuple):
    """A named value that travels beside key and value."""

    key: str
    value: Any
    schema: Schema | None = None


class SourceRecord(NamedTuple):
    """A record that a source has read, with the position from which to go on after it.

    `source_partition` names what was read (a file, a table), `source_offset` how far: plain JSON
    values. After a restart the task finds the offset of its last delivered record through
    `SourceContext.offset(source_partition)`.
    """

    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any]
    topic: str
    value: Any
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    partition: int | None = None
    timestamp: int | None = None
    """Milliseconds since 1970; None lets the producer say."""
    headers: tuple[Header, ...] = ()


class SinkRecord(NamedTuple):
    """A record of a topic, for a sink to store."""

    topic: str
    partition: int
    offset: int
    value: Any
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    timestamp: int | None = None
    headers: tuple[Header, ...] = ()
    original_topic: str | None = None
    """The topic that it was read from, where a transform has given it another."""

    @property
    def origin(self) -> TopicPartition:
        """Where its offset counts: stored positions must go by this, not by `topic`."""
        return TopicPartition(self.original_topic or self.topic, self.partition)
