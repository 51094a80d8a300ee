"""How records are written: which of them go together, into which columns of which table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from strom.connect.api import RecordBatch, Schema, SinkRecord, TopicPartition
from strom.connect.connectors.databases.dialect import (
    Column,
    Database,
    RefusedRows,
    Row,
    TableId,
    as_it_is,
)
from strom.connect.connectors.databases.rows import Shape

_MISFITS: Final = (ValueError, TypeError, LookupError, ArithmeticError)
"""What a converter raises for a value that its column cannot hold."""


class Batch(NamedTuple):
    """Rows of one table that have the same columns."""

    table: TableId
    columns: tuple[Column, ...]
    rows: list[Row]
    deletes: bool
    distinct: bool
    """Whether no two rows have the same key, as the database compares keys."""


class Plan:
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
        """Of columns that are not there, as nothing but nulls was seen for them."""
        self.columns = tuple(known[shape.columns[place].name] for place in kept)
        schemas = {one.name: one.schema for one in shape.columns}
        declared: list[Schema | None] = [
            schemas[column.name] if _is_declared(record, column) else None
            for column in self.columns
        ]
        self._converters = [
            database.converter(column, schema)
            for column, schema in zip(self.columns, declared, strict=True)
        ]
        self.key_names = frozenset(column.name for column in self.columns if column.key)
        self.identity = _identity(self.columns)
        """Of a row: its key, equal where the database finds keys equal; None: only that can tell. The
        order of the fields is no part of it, for records may bring them in any order."""

    def fits(self, record: SinkRecord) -> bool:
        """Whether this record is of the same topic and shape."""
        like = self._like
        return (
            record.topic == like.topic
            and record.value_schema is like.value_schema
            and record.key_schema is like.key_schema
            and has_form_of(record.value, record.key, like.value, like.key, record.value_schema)
        )

    def first_left_out(self, records: RecordBatch) -> int | None:
        """The place of the first record that has a value for a column which is not there yet."""
        places = (
            place
            for take in self._left_out
            for place, value in enumerate(take(records))
            if value is not None
        )
        return min(places, default=None)

    def rows(self, records: RecordBatch) -> list[Row]:
        """The records' rows; RefusedRows if a value cannot be one of its column."""
        columns = [
            take(records) if convert is None else self._converted(column, take(records), convert)
            for column, take, convert in zip(
                self.columns, self._takes, self._converters, strict=True
            )
        ]
        if not columns:  # a table whose columns are all left to their defaults
            return [()] * len(records)
        return list(zip(*columns, strict=True))

    def _converted(
        self, column: Column, values: Iterable[Any], convert: Callable[[Any], Any]
    ) -> list[Any]:
        items = list(values)
        try:
            return [None if item is None else convert(item) for item in items]
        except _MISFITS:
            raise RefusedRows(self._misfit(column, items, convert)) from None

    def _misfit(self, column: Column, items: Iterable[Any], convert: Callable[[Any], Any]) -> str:
        problem = f"Column {column.name} ({column.type}) of table {self.table} does not take "
        for item in items:
            try:
                if item is not None:
                    convert(item)
            except _MISFITS:
                return f"{problem}the {type(item).__name__} {str(item)[:80]!r} of a record."
        return f"{problem}a value of a record."

    def batch(self, rows: list[Row], *, distinct: bool) -> Batch:
        """These rows, as they are handed to the database."""
        return Batch(self.table, self.columns, rows, self.deletes, distinct)


Run = tuple[Plan, RecordBatch]
"""Records one after the other that are written in the same way."""


class Span(NamedTuple):
    """The offsets of one partition in a call, from `first` up to before `end`."""

    first: int
    end: int


Spans = Mapping[TopicPartition, Span]


def offsets_of(records: Sequence[RecordBatch]) -> dict[TopicPartition, Span]:
    """The offsets that records have, by where they were read."""
    spans: dict[TopicPartition, Span] = {}
    for part in records:
        known = spans.get(part.origin)
        first = part.offsets[0] if known is None else known.first
        spans[part.origin] = Span(first, part.offsets[-1] + 1)
    return spans


def from_offset(records: RecordBatch, first: int) -> RecordBatch:
    """Those at this offset or behind it."""
    return records.at([at for at, offset in enumerate(records.offsets) if offset >= first])


def runs_of(records: RecordBatch) -> Iterator[tuple[int, RecordBatch]]:
    """Records one after the other that have the same form, and where they begin."""
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
    """Whether a record makes columns as another of the same schemas does."""
    if (value is None) != (like is None) or key_form(key) != key_form(like_key):
        return False
    if schema is not None or value is None:
        return True
    return isinstance(value, dict) and isinstance(like, dict) and value.keys() == like.keys()


def key_form(key: Any) -> Any:
    """What is equal for keys that make the same columns."""
    return frozenset(key) if isinstance(key, dict) else key is None


def _have_one_form(keys: Sequence[Any], schema: Schema | None) -> bool:
    """Whether all keys surely have the same form; without a schema, structs need a closer look."""
    types = set(map(type, keys))
    return len(types) == 1 and (schema is not None or dict not in types)


def _is_declared(record: SinkRecord, column: Column) -> bool:
    """Whether a converter has made sure that values are of their declared shape."""
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
