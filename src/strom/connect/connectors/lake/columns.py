"""Records become columns: Connect's schemas as Arrow's, values as arrays. Pure."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from strom.connect.api import PoisonRecord, SinkRecord
from strom.connect.api.schema import (
    DATE_NAME,
    DECIMAL,
    SCALE,
    TIME_NAME,
    TIMESTAMP_NAME,
    Schema,
    Type,
)

if TYPE_CHECKING:
    import pyarrow as pa

TIME = "__time"
"""The column that tables are split by on their way to files; it is in no file."""
_DECIMAL_DIGITS = 38


def arrow_type(schema: Schema) -> "pa.DataType":
    """The Arrow type for values of a schema."""
    import pyarrow as pa

    if schema.name == DECIMAL:
        return pa.decimal128(_DECIMAL_DIGITS, int(schema.parameter(SCALE) or 0))
    if schema.name == TIMESTAMP_NAME:
        return pa.timestamp("us", "UTC")
    if schema.name == DATE_NAME:
        return pa.date32()
    if schema.name == TIME_NAME:
        # Delta has no time of day: it is stored as it travels, in milliseconds.
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


def make_table(
    records: Sequence[SinkRecord], record_columns: Sequence[str], timestamp_field: str | None
) -> "pa.Table":
    """One row for each record; PoisonRecord tells which cannot be one.

    A record whose value is a struct or a map gets a column for each field, any other the one column
    `value`.
    """
    import pyarrow as pa

    try:
        return _make_table(records, record_columns, timestamp_field)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        for index, record in enumerate(records):
            try:
                _make_table([record], record_columns, timestamp_field)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as reason:
                raise PoisonRecord(f"It does not fit a table: {reason}", index) from None
        index = _first_misfit(records, record_columns, timestamp_field)
        raise PoisonRecord(
            f"It does not fit a table together with the records before it: {error}", index
        ) from None


def _first_misfit(
    records: Sequence[SinkRecord], record_columns: Sequence[str], timestamp_field: str | None
) -> int:
    """The first record with which those before it no longer make a table."""
    import pyarrow as pa

    fits, breaks = 0, len(records)
    while fits + 1 < breaks:
        middle = (fits + breaks) // 2
        try:
            _make_table(records[:middle], record_columns, timestamp_field)
            fits = middle
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            breaks = middle
    return breaks - 1


def _make_table(
    records: Sequence[SinkRecord], record_columns: Sequence[str], timestamp_field: str | None
) -> "pa.Table":
    import pyarrow as pa

    columns = _value_columns(records)
    for name in record_columns:
        if f"_{name}" in columns:
            raise ValueError(f"both the value and record.columns have a column _{name}")
        values: list[Any] = [getattr(record, name) for record in records]
        if name == "timestamp":
            columns["_timestamp"] = pa.array(values, pa.int64()).cast(pa.timestamp("ms", "UTC"))
        else:
            columns[f"_{name}"] = pa.array(values)
    columns[TIME] = _times(records, columns, timestamp_field)
    return pa.table(columns)


def _value_columns(records: Sequence[SinkRecord]) -> "dict[str, pa.Array]":
    import pyarrow as pa

    values = [record.value for record in records]
    schema = records[0].value_schema
    one_schema = all(record.value_schema is schema for record in records)
    if schema is not None and one_schema and schema.type is Type.STRUCT:
        return {
            field.name: _array((value.get(field.name) for value in values), field.schema)
            for field in schema.fields
        }
    if all(isinstance(value, dict) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        return {str(name): pa.array([value.get(name) for value in values]) for name in names}
    if schema is not None and one_schema:
        return {"value": _array(values, schema)}
    return {"value": pa.array(values)}


def _array(values: Iterable[Any], schema: Schema) -> "pa.Array":
    import pyarrow as pa

    if schema.name == TIME_NAME:
        values = (value and _milliseconds(value) for value in values)
    return pa.array(list(values), arrow_type(schema))


def _milliseconds(of_day: Any) -> int:
    if isinstance(of_day, int):
        return of_day
    seconds = of_day.hour * 3600 + of_day.minute * 60 + of_day.second
    return int(seconds * 1000 + of_day.microsecond // 1000)


def _times(
    records: Sequence[SinkRecord], columns: "dict[str, pa.Array]", timestamp_field: str | None
) -> "pa.Array":
    import pyarrow as pa

    if timestamp_field is None:
        times = pa.array([record.timestamp or 0 for record in records], pa.int64())
    elif timestamp_field not in columns:
        raise ValueError(f"it has no field {timestamp_field} (timestamp.field)")
    else:
        times = columns[timestamp_field]
        if times.null_count:
            raise ValueError(f"its field {timestamp_field} is null (timestamp.field)")
        if pa.types.is_string(times.type):
            times = times.cast(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(times.type) or pa.types.is_date(times.type):
            times = times.cast(pa.timestamp("ms"), safe=False)
    return times.cast(pa.int64()).cast(pa.timestamp("ms", "UTC"))
