"""Converts records to columns: Connect schemas to Arrow schemas, values to arrays. Pure."""

import datetime as dt
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from strom.connect.api import PoisonRecord, RecordBatch
from strom.connect.api.schema import (
    DATE_NAME,
    DECIMAL,
    SCALE,
    TIME_NAME,
    TIMESTAMP_NAME,
    Schema,
    Type,
)
from strom.connect.logical_values import time_to_millis

TIME = "__time"
"""The temporary column that tables are partitioned by; it is in no file."""


class ColumnSelection(NamedTuple):
    """The columns of a table beside those of the records' values."""

    record_columns: Sequence[str] = ()
    levels: Sequence[str] = ()
    """The time levels that the table is partitioned by; if empty, timestamps are not read."""
    timestamp_field: str | None = None


_DECIMAL_DIGITS = 38


def arrow_type(schema: Schema) -> pa.DataType:
    """The Arrow type for values of a schema."""
    if schema.name == DECIMAL:
        return pa.decimal128(_DECIMAL_DIGITS, int(schema.parameter(SCALE) or 0))
    if schema.name == TIMESTAMP_NAME:
        return pa.timestamp("us", "UTC")
    if schema.name == DATE_NAME:
        return pa.date32()
    if schema.name == TIME_NAME:
        # Delta has no time of day: it is stored in milliseconds.
        return pa.int32()
    if schema.type is Type.STRUCT:
        return pa.struct([(field.name, arrow_type(field.schema)) for field in schema.fields])
    if schema.type is Type.ARRAY and schema.value is not None:
        return pa.list_(arrow_type(schema.value))
    if schema.type is Type.MAP and schema.key is not None and schema.value is not None:
        return pa.map_(arrow_type(schema.key), arrow_type(schema.value))
    plain: dict[Type, pa.DataType] = {
        Type.INT8: pa.int8(),
        Type.INT16: pa.int16(),
        Type.INT32: pa.int32(),
        Type.INT64: pa.int64(),
        Type.FLOAT32: pa.float32(),
        Type.FLOAT64: pa.float64(),
        Type.BOOLEAN: pa.bool_(),
        Type.STRING: pa.string(),
        Type.BYTES: pa.binary(),
    }
    return plain[schema.type]


def make_tables(records: RecordBatch, wanted: ColumnSelection) -> list[tuple[int, pa.Table]]:
    """One row per record; PoisonRecord identifies a record that cannot be a row.

    A record whose value is a struct or a map gets a column for each field, any other the single column
    `value`. Records whose values have no common Arrow type are in several tables, each with the index
    of its first record: the table's columns decide which of them fit.
    """
    return _make_tables(records, wanted, 0)


def _make_tables(
    records: RecordBatch, wanted: ColumnSelection, start: int
) -> list[tuple[int, pa.Table]]:
    try:
        return [(start, _make_table(records, wanted))]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
        if len(records) == 1:
            raise PoisonRecord(f"The record cannot be a row: {reason}", start) from None
    middle = len(records) // 2
    first, second = records.part(0, middle), records.part(middle, len(records))
    return _make_tables(first, wanted, start) + _make_tables(second, wanted, start + middle)


def _make_table(records: RecordBatch, wanted: ColumnSelection) -> pa.Table:
    columns = _value_columns(records)
    for name in columns:
        if name == TIME or name.lower() in wanted.levels:
            raise ValueError(
                f"the field name {name} is reserved ({TIME}, and the levels of "
                "time.partition): rename it with the transform ReplaceField"
            )
    for name in wanted.record_columns:
        if f"_{name}" in columns:
            raise ValueError(f"both the value and record.columns have a column _{name}")
        columns[f"_{name}"] = _record_column(records, name)
    columns[TIME] = _times(records, columns, wanted)
    return pa.table(columns)


def _record_column(records: RecordBatch, name: str) -> pa.Array:
    if name == "timestamp":
        return pa.array(records.timestamps, pa.int64()).cast(pa.timestamp("ms", "UTC"))
    if name in ("topic", "partition"):
        value = records.topic if name == "topic" else records.origin.partition
        return pa.repeat(value, len(records))
    return _inferred("_key", records.keys) if name == "key" else pa.array(records.offsets)


def _value_columns(records: RecordBatch) -> dict[str, pa.Array]:
    values, schema = records.values, records.value_schema
    if schema is not None and schema.type is Type.STRUCT:
        return {
            field.name: _array(
                field.name, [value.get(field.name) for value in values], field.schema
            )
            for field in schema.fields
        }
    if all(isinstance(value, dict) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        return {
            str(name): _inferred(str(name), [value.get(name) for value in values]) for name in names
        }
    if schema is not None:
        return {"value": _array("value", values, schema)}
    return {"value": _inferred("value", values)}


def _inferred(name: str, values: Sequence[Any]) -> pa.Array:
    """An array of values without a schema, in the type that holds them all."""
    try:
        array = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
        raise ValueError(f"field {name}: {reason}") from None
    if not _is_uniform(values, array.type):
        raise ValueError(f"field {name}: its values are of several types ({array.type} and others)")
    return array


def _is_uniform(values: Sequence[Any], inferred: pa.DataType) -> bool:
    """Whether all values have this type, rather than Arrow having cast some of them.

    Arrow casts false to 0.0, text to bytes or bytes to text, a number to a time, truncates times to
    dates, and drops or adds time zones. It casts an integer to a float only if that is exact.
    """
    if pa.types.is_struct(inferred):
        there = [value for value in values if value is not None]
        return all(
            _is_uniform([value.get(field.name) for value in there], field.type)
            for field in inferred
        )
    if pa.types.is_list(inferred):
        items = chain.from_iterable(value for value in values if value is not None)
        return _is_uniform(list(items), inferred.value_type)
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {dt.datetime}:
        return len({value.tzinfo is None for value in values if value is not None}) == 1
    return len(kinds) <= 1 or kinds == {int, float}


def _array(name: str, values: Sequence[Any], schema: Schema) -> pa.Array:
    try:
        if schema.name == TIME_NAME:
            values = [value and _milliseconds(value) for value in values]
        return pa.array(values, arrow_type(schema))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
        raise ValueError(f"field {name}: {reason}") from None


def _milliseconds(of_day: Any) -> int:
    if isinstance(of_day, int):
        return of_day
    if of_day.microsecond % 1000:
        raise ValueError(f"{of_day} has microseconds, but a time of day is stored in milliseconds")
    return time_to_millis(of_day)


def _times(records: RecordBatch, columns: dict[str, pa.Array], wanted: ColumnSelection) -> pa.Array:
    timestamp_field = wanted.timestamp_field
    if not wanted.levels:
        return pa.nulls(len(records), pa.timestamp("ms", "UTC"))
    if timestamp_field is None:
        times = pa.array([stamp or 0 for stamp in records.timestamps], pa.int64())
    elif timestamp_field not in columns:
        raise ValueError(f"the record has no field {timestamp_field} (timestamp.field)")
    else:
        times = columns[timestamp_field]
        if times.null_count:
            raise ValueError(f"the field {timestamp_field} is null (timestamp.field)")
        if pa.types.is_string(times.type):
            times = times.cast(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(times.type) or pa.types.is_date(times.type):
            times = times.cast(pa.timestamp("ms"), safe=False)
    return times.cast(pa.int64()).cast(pa.timestamp("ms", "UTC"))
