"""How records are written: which of them together, into which columns of which table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from strom.connect.api import RecordBatch, Schema, SinkRecord, TopicPartition
from strom.connect.connectors.databases.dialect import (
    Column,
    Database,
    RejectedRows,
    Row,
    TableId,
    as_it_is,
)
from strom.connect.connectors.databases.rows import Shape

_MISFITS: Final = (ValueError, TypeError, LookupError, ArithmeticError)
"""What a converter raises for a value that its column cannot hold."""


class RowBatch(NamedTuple):
    """Rows of one table with the same columns."""

    table: TableId
    columns: tuple[Column, ...]
    rows: list[Row]
    deletes: bool
    distinct: bool
    """Whether no two rows have the same key, as the database compares keys."""


class WritePlan:
    """How records of one topic and shape are written."""

    def __init__(
        self,
        record: SinkRecord,
        table: TableId,
        shape: Shape,
        known: Mapping[str, Column],
        database: Database,
    ) -> None:
        self.table = table
        self.deletes = record.value is None
        self._like = record
        kept = [place for place, one in enumerate(shape.columns) if one.name in known]
        self._takes = [shape.takes[place] for place in kept]
        self._left_out = [
            take
            for one, take in zip(shape.columns, shape.takes, strict=True)
            if one.name not in known
        ]
        """The values for missing columns that were only seen null."""
        self.columns = tuple(known[shape.columns[place].name] for place in kept)
        schemas = {one.name: one.schema for one in shape.columns}
        declared: list[Schema | None] = [
            schemas[column.name] if _is_declared(record, column) else None
            for column in self.columns
        ]
        self._converters = [
            database.rows.converter(column, schema)
            for column, schema in zip(self.columns, declared, strict=True)
        ]
        self.key_names = frozenset(column.name for column in self.columns if column.key)
        self.identity = _identity(self.columns)
        """Maps a row to its key, equal if the database compares keys as equal; None: only the
        database can compare. Fields may be in any order."""

    def fits(self, record: SinkRecord) -> bool:
        """Whether this record has the same topic and shape."""
        like = self._like
        return (
            record.topic == like.topic
            and record.value_schema is like.value_schema
            and record.key_schema is like.key_schema
            and has_form_of(record.value, record.key, like.value, like.key, record.value_schema)
        )

    def first_omitted(self, records: RecordBatch) -> int | None:
        """The index of the first record with a value for a missing column."""
        places = (
            place
            for take in self._left_out
            for place, value in enumerate(take(records))
            if value is not None
        )
        return min(places, default=None)

    def rows(self, records: RecordBatch) -> list[Row]:
        """The records' rows; RejectedRows if a value cannot be converted for its column."""
        columns = [
            take(records) if convert is None else self._converted(column, take(records), convert)
            for column, take, convert in zip(
                self.columns, self._takes, self._converters, strict=True
            )
        ]
        if not columns:  # all columns of the table get their defaults
            return [()] * len(records)
        return list(zip(*columns, strict=True))

    def _converted(
        self, column: Column, values: Iterable[Any], convert: Callable[[Any], Any]
    ) -> list[Any]:
        items = list(values)
        try:
            return [None if item is None else convert(item) for item in items]
        except _MISFITS:
            raise RejectedRows(self._misfit(column, items, convert)) from None

    def _misfit(self, column: Column, items: Iterable[Any], convert: Callable[[Any], Any]) -> str:
        problem = f"Column {column.name} ({column.type}) of table {self.table} does not accept "
        for item in items:
            try:
                if item is not None:
                    convert(item)
            except _MISFITS:
                return f"{problem}the {type(item).__name__} {str(item)[:80]!r} of a record."
        return f"{problem}a value of a record."

    def batch(self, rows: list[Row], *, distinct: bool) -> RowBatch:
        """These rows as a batch for the database."""
        return RowBatch(self.table, self.columns, rows, self.deletes, distinct)


Run = tuple[WritePlan, RecordBatch]
"""Consecutive records that are written in the same way."""


class OffsetInterval(NamedTuple):
    """The offsets of one partition in a call, from `first` up to, not including, `end`."""

    first: int
    end: int


OffsetsByPartition = Mapping[TopicPartition, OffsetInterval]


def offsets_of(records: Sequence[RecordBatch]) -> dict[TopicPartition, OffsetInterval]:
    """The offsets of records by topic partition."""
    spans: dict[TopicPartition, OffsetInterval] = {}
    for part in records:
        known = spans.get(part.origin)
        first = part.offsets[0] if known is None else known.first
        spans[part.origin] = OffsetInterval(first, part.offsets[-1] + 1)
    return spans


def from_offset(records: RecordBatch, first: int) -> RecordBatch:
    """The records from this offset on."""
    return records.at([at for at, offset in enumerate(records.offsets) if offset >= first])


def runs_of(records: RecordBatch) -> Iterator[tuple[int, RecordBatch]]:
    """Consecutive records of the same form, with the index of the first."""
    values, keys, schema = records.values, records.keys, records.value_schema
    if schema is not None and None not in values and _have_one_form(keys, records.key_schema):
        yield 0, records
        return
    start = 0
    for at in range(1, len(records)):
        if not has_form_of(values[at], keys[at], values[start], keys[start], schema):
            yield start, records.part(start, at)
            start = at
    yield start, records.part(start, len(records))


def has_form_of(value: Any, key: Any, like: Any, like_key: Any, schema: Schema | None) -> bool:
    """Whether a record has the same columns as another with the same schemas."""
    if (value is None) != (like is None) or key_form(key) != key_form(like_key):
        return False
    if schema is not None or value is None:
        return True
    return isinstance(value, dict) and isinstance(like, dict) and value.keys() == like.keys()


def key_form(key: Any) -> Any:
    """A value that is equal for keys with the same columns."""
    return frozenset(key) if isinstance(key, dict) else key is None


def _have_one_form(keys: Sequence[Any], schema: Schema | None) -> bool:
    """Whether all keys certainly have the same form; without a schema, structs must be compared."""
    types = set(map(type, keys))
    return len(types) == 1 and (schema is not None or dict not in types)


def _is_declared(record: SinkRecord, column: Column) -> bool:
    """Whether a converter has validated the values against their schema."""
    return (record.key_schema if column.key else record.value_schema) is not None or (
        record.value_schema is not None
    )


def _identity(columns: Sequence[Column]) -> Callable[[Row], Any] | None:
    keys = sorted(
        (column.name, place, column.identity) for place, column in enumerate(columns) if column.key
    )
    parts = [(place, of) for _, place, of in keys if of is not None]
    if not keys or len(parts) < len(keys):
        return None
    if all(of is as_it_is for _, of in parts):
        return itemgetter(*(place for place, _ in parts))
    return lambda row: tuple(of(row[place]) for place, of in parts)
