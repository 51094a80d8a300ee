"""Records from sources and for sinks, before and after conversion to bytes.

Both are tuples, because millions of them are created. Transforms see what they have in common:
topic, partition, key, value, their schemas, timestamp and headers.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from strom.connect.api.schema import Schema
from strom.model.topics import TopicPartition


class Header(NamedTuple):
    """A named value beside key and value."""

    key: str
    value: Any
    schema: Schema | None = None


class SourceRecord(NamedTuple):
    """A record that a source has read, with the source offset to continue from.

    `source_partition` identifies what was read (a file, a table), `source_offset` how far: plain JSON
    values. After a restart the task gets the offset of its last delivered record from
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
    """Milliseconds since the epoch; None: the producer sets it."""
    headers: tuple[Header, ...] = ()


class SinkRecord(NamedTuple):
    """A record of a topic, to be written by a sink."""

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
    """The topic that it was read from, if a transform has changed `topic`."""

    @property
    def origin(self) -> TopicPartition:
        """The topic partition that its offset belongs to: stored positions must use this, not `topic`."""
        return TopicPartition(self.original_topic or self.topic, self.partition)
