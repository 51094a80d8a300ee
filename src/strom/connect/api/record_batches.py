"""Records in columns, for sinks that write many at once.

A sink may iterate over its records, or get them in columns from `record_batches`. Where the runtime
already has columns, no record objects are created; where it has records, they are converted. So a sink
that reads columns has one code path and sees the same data in both cases.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, repeat
from typing import Any, overload

from strom.connect.api.records import Header, SinkRecord
from strom.connect.api.schema import Schema
from strom.model.topics import TopicPartition

Timestamps = Sequence[int | None]


class RecordBatch:
    """Consecutive records of one partition that share topic and schemas."""

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
        """The topic partition that the offsets belong to."""
        self.topic = origin.topic if topic is None else topic
        self.offsets = offsets
        self.values = values
        self.value_schema = value_schema
        self.keys: Sequence[Any] = [None] * len(values) if keys is None else keys
        self.key_schema = key_schema
        self.headers: Sequence[tuple[Header, ...]] | None = headers
        """None: no record has headers."""
        self._timestamps: Timestamps | Callable[[], Timestamps] = timestamps or [None] * len(values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def timestamps(self) -> Timestamps:
        """Milliseconds since the epoch; collected on first access, because few sinks use them."""
        if callable(self._timestamps):
            self._timestamps = self._timestamps()
        return self._timestamps

    def part(self, start: int, end: int) -> "RecordBatch":
        """The records from `start` up to, not including, `end`."""
        if start == 0 and end >= len(self):
            return self
        return self._with(lambda column: column[start:end])

    def at(self, places: Sequence[int]) -> "RecordBatch":
        """The records at these indexes, in this order."""
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
        """The same data, record by record."""
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


class ColumnarRecords(Sequence[SinkRecord]):
    """A sequence of records that is stored in columns; record objects are created on access."""

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
    """The records in columns, in the same order."""
    if isinstance(records, ColumnarRecords):
        return records.parts
    return [_columns(group) for _, group in groupby(records, _form)]


def joined(parts: Sequence[RecordBatch]) -> RecordBatch:
    """Batches of one topic partition merged into one; a schema that they do not share becomes None."""
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
    """What the records of a batch have in common; schemas by identity, which is cheap."""
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
