"""Records in columns, for sinks that store many at once.

A sink may read what it is given record by record, or ask `record_batches` for the same in columns. Where
the runtime has columns already, no record is ever made; where it has records, columns are made of
them. So a sink that reads columns has one way through its code, and sees the same either way.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, repeat
from typing import Any, overload

from strom.connect.api.records import Header, SinkRecord, TopicPartition
from strom.connect.api.schema import Schema

Timestamps = Sequence[int | None]


class RecordBatch:
    """Records of one partition, one after the other, that share topic and schemas."""

    def __init__(
        self,
        origin: TopicPartition,
        offsets: Sequence[int],
        values: Sequence[Any],
        value_schema: Schema | None = None,
        *,
        topic: str | None = None,
        keys: Sequence[Any] | None = None,
        key_schema: Schema | None = None,
        timestamps: Callable[[], Timestamps] | None = None,
        headers: Sequence[tuple[Header, ...]] | None = None,
    ) -> None:
        self.origin = origin
        """Where the offsets count."""
        self.topic = origin.topic if topic is None else topic
        self.offsets = offsets
        self.values = values
        self.value_schema = value_schema
        self.keys: Sequence[Any] = [None] * len(values) if keys is None else keys
        self.key_schema = key_schema
        self.headers: Sequence[tuple[Header, ...]] | None = headers
        """None: no record has any."""
        self._timestamps: Timestamps | Callable[[], Timestamps] = timestamps or [None] * len(values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def timestamps(self) -> Timestamps:
        """Milliseconds since 1970; few sinks want to know, so they are gathered when asked for."""
        if callable(self._timestamps):
            self._timestamps = self._timestamps()
        return self._timestamps

    def part(self, start: int, end: int) -> "RecordBatch":
        """The records from one place up to before another."""
        if start == 0 and end >= len(self):
            return self
        return self._with(lambda column: column[start:end])

    def at(self, places: Sequence[int]) -> "RecordBatch":
        """The records at some places, in their order."""
        if len(places) == len(self):
            return self
        return self._with(lambda column: [column[place] for place in places])

    def _with(self, pick: Callable[[Any], Any]) -> "RecordBatch":
        return RecordBatch(
            self.origin,
            pick(self.offsets),
            pick(self.values),
            self.value_schema,
            topic=self.topic,
            keys=pick(self.keys),
            key_schema=self.key_schema,
            timestamps=lambda: pick(self.timestamps),
            headers=None if self.headers is None else pick(self.headers),
        )

    def records(self) -> list[SinkRecord]:
        """The same, record by record."""
        original = None if self.topic == self.origin.topic else self.origin.topic
        columns = zip(
            repeat(self.topic),
            repeat(self.origin.partition),
            self.offsets,
            self.values,
            repeat(self.value_schema),
            self.keys,
            repeat(self.key_schema),
            self.timestamps,
            repeat(()) if self.headers is None else self.headers,
            repeat(original),
            strict=False,
        )
        return list(map(SinkRecord._make, columns))


class Stretches(Sequence[SinkRecord]):
    """A sequence of records that is kept in columns; records are made when one is asked for."""

    def __init__(self, parts: Sequence[RecordBatch]) -> None:
        self.parts = parts
        self._length = sum(map(len, parts))
        self._records: list[SinkRecord] | None = None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[SinkRecord]:
        return iter(self._made())

    @overload
    def __getitem__(self, place: int) -> SinkRecord: ...

    @overload
    def __getitem__(self, place: slice) -> list[SinkRecord]: ...

    def __getitem__(self, place: int | slice) -> SinkRecord | list[SinkRecord]:
        return self._made()[place]

    def _made(self) -> list[SinkRecord]:
        if self._records is None:
            self._records = [record for part in self.parts for record in part.records()]
        return self._records


def record_batches(records: Sequence[SinkRecord]) -> Sequence[RecordBatch]:
    """Records in columns, in the same order."""
    if isinstance(records, Stretches):
        return records.parts
    return [_columns(group) for _, group in groupby(records, _form)]


def joined(parts: Sequence[RecordBatch]) -> RecordBatch:
    """Stretches of one partition and topic as one; a schema that they do not share is left out."""
    first = parts[0]
    if len(parts) == 1:
        return first
    one_value = all(part.value_schema == first.value_schema for part in parts)
    one_key = all(part.key_schema == first.key_schema for part in parts)
    return RecordBatch(
        first.origin,
        [offset for part in parts for offset in part.offsets],
        [value for part in parts for value in part.values],
        first.value_schema if one_value else None,
        topic=first.topic,
        keys=[key for part in parts for key in part.keys],
        key_schema=first.key_schema if one_key else None,
        timestamps=lambda: [stamp for part in parts for stamp in part.timestamps],
        headers=[one for part in parts for one in part.headers or [()] * len(part)],
    )


def _form(record: SinkRecord) -> tuple[Any, ...]:
    """What the records of a stretch have in common; schemas by themselves, not by what they say."""
    topic, partition, _, _, schema, _, key_schema, _, _, original = record
    return topic, partition, original, id(schema), id(key_schema)


def _columns(group: Iterable[SinkRecord]) -> RecordBatch:
    columns = zip(*group, strict=True)
    topics, partitions, offsets, values, schemas, keys, key_schemas, stamps, headers, origins = (
        columns
    )
    return RecordBatch(
        TopicPartition(origins[0] or topics[0], partitions[0]),
        offsets,
        values,
        schemas[0],
        topic=topics[0],
        keys=keys,
        key_schema=key_schemas[0],
        timestamps=lambda: stamps,
        headers=headers if any(headers) else None,
    )
