"""Converts records to rows in the types of their table's columns.

Every value stays equal, or `Misfit` is raised. Pure.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from strom.connect.api import PoisonRecord, RecordBatch
from strom.connect.connectors.lake.columns import TIME, ColumnSelection, make_tables
from strom.connect.connectors.lake.evolution import (
    TableColumns,
    TableFormat,
    is_unknown,
    storable,
)

_SHOWN = 100
"""The limit on the characters of a value in a message."""
_WAY_OUT = (
    "Convert it with a transform (Cast), correct it at the producer, or write to a new table "
    "(table.name.format)."
)


class Misfit(Exception):
    """A value that a table cannot hold: the path of its field, both types, and what to do."""


def rows_of(
    records: RecordBatch,
    wanted: ColumnSelection,
    columns: TableColumns,
    waiting: Callable[[], Sequence[pa.Table]],
) -> tuple[TableColumns, list[pa.Table]]:
    """The table's columns including these records, and the rows.

    `waiting` returns the rows of the same table that are not stored yet. It is called only if columns
    change, because those of rows in memory may still be widened.
    """
    made = make_tables(records, wanted)
    for count, (_, table) in enumerate(made):
        wider = columns.with_rows(table.schema)
        if wider != columns and not fits([*waiting(), *(one for _, one in made[:count])], wider):
            # A large integer before it is not exact as a float. Then this one must be an integer, too.
            wider = columns.with_new_fields(table.schema)
        columns = wider
    return columns, [_fitted(table, columns, start) for start, table in made]


def _fitted(rows: pa.Table, columns: TableColumns, start: int) -> pa.Table:
    try:
        return fit(rows, columns)
    except Misfit:
        index, misfit = first_misfit(rows, columns)
        raise PoisonRecord(str(misfit), start + index) from None


def fit(rows: pa.Table, columns: TableColumns) -> pa.Table:
    """The rows with all columns of the table, in its order, and the time column if they have it."""
    fields = list(columns.schema)
    if not fields:
        raise Misfit(
            "The record has no field of a known type, and the table has no columns yet, but a "
            "row needs one. "
            "Declare the fields with a schema (value.converter)."
        )
    times = [field for field in rows.schema if field.name == TIME]
    schema = pa.schema([*fields, *times])
    if rows.schema.equals(schema):
        return rows
    fitting = _Fitting(columns.format)
    fitted = []
    for batch in rows.to_batches():
        children = dict(zip(batch.schema.names, batch.columns, strict=True))
        kept = [children.pop(field.name) for field in times]
        arrays = fitting.fields(children, fields, "", len(batch))
        fitted.append(pa.record_batch([*arrays, *kept], schema=schema))
    return pa.Table.from_batches(fitted, schema)


def fits(tables: Iterable[pa.Table], columns: TableColumns) -> bool:
    """Whether all these rows can be converted to the columns."""
    try:
        for table in tables:
            fit(table, columns)
    except Misfit:
        return False
    return True


def first_misfit(rows: pa.Table, columns: TableColumns) -> tuple[int, Misfit]:
    """The first row that does not fit, and why; there must be one."""
    fitting, failing = 0, rows.num_rows
    while fitting + 1 < failing:
        middle = (fitting + failing) // 2
        if fits([rows.slice(0, middle)], columns):
            fitting = middle
        else:
            failing = middle
    try:
        fit(rows.slice(failing - 1, 1), columns)
    except Misfit as misfit:
        return failing - 1, misfit
    raise AssertionError("every row fits on its own")


class _Fitting:
    """Converts arrays for one format, which its messages name."""

    def __init__(self, table_format: TableFormat) -> None:
        self._format = table_format

    def fields(
        self,
        children: dict[str, pa.Array],
        fields: list[pa.Field],
        prefix: str,
        length: int,
        parent: pa.Array | None = None,
    ) -> list[pa.Array]:
        """The children of a struct, or of the table, in the order of the fields."""
        names = {field.name.lower(): field.name for field in fields}
        for name, child in children.items():
            if names.get(name.lower()) != name and child.null_count < len(child):
                raise self._no_column(f"{prefix}{name}", child, names.get(name.lower()), prefix)
        fitted = []
        for field in fields:
            child = children.get(field.name)
            path = f"{prefix}{field.name}"
            array = (
                pa.nulls(length, field.type) if child is None else self.array(child, field, path)
            )
            if not field.nullable:
                _check_no_nulls(array, path, parent)
            fitted.append(array)
        return fitted

    def array(self, array: pa.Array, field: pa.Field, path: str) -> pa.Array:
        """The values converted to the field's type."""
        wanted, given = field.type, array.type
        if given == wanted:
            return array
        if array.null_count == len(array):
            return pa.nulls(len(array), wanted)
        if pa.types.is_struct(given) and pa.types.is_struct(wanted):
            return self._struct(array, wanted, path)
        if pa.types.is_list(given) and pa.types.is_list(wanted):
            return self._list(array, wanted, path)
        if pa.types.is_map(given) and pa.types.is_map(wanted):
            return self._map(array, wanted, path)
        converted = _converted(array, wanted)
        if converted is None:
            raise _changed(array, wanted, path)
        return converted

    def _struct(self, array: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
        # flatten() makes the children of a null struct null.
        children = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        fields = list(wanted)
        fitted = self.fields(children, fields, f"{path}.", len(array), array)
        return pa.StructArray.from_arrays(fitted, fields=fields, mask=array.is_null())

    def _list(self, array: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
        offsets, start, length = _offsets(array)
        items = self.array(array.values.slice(start, length), wanted.value_field, f"{path}[]")
        if not wanted.value_field.nullable:
            _check_no_nulls(items, f"{path}[]")
        return pa.ListArray.from_arrays(offsets, items, type=wanted, mask=array.is_null())

    def _map(self, array: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
        offsets, start, length = _offsets(array)
        keys = self.array(array.keys.slice(start, length), wanted.key_field, f"{path}.key")
        items = self.array(array.items.slice(start, length), wanted.item_field, f"{path}.value")
        if not wanted.item_field.nullable:
            _check_no_nulls(items, f"{path}.value")
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=array.is_null())

    def _no_column(self, path: str, values: pa.Array, same: str | None, prefix: str) -> Misfit:
        """Why these values have no column."""
        if same is not None:
            return Misfit(
                f"Field {path} differs from column {prefix}{same} only in case, which readers do "
                "not distinguish. Rename it with the transform ReplaceField."
            )
        if is_unknown(values.type):
            return Misfit(
                f"Field {path} is empty ({_shown(values)}), and the table has no column for it yet: "
                "its type is unknown. Declare it with a schema (value.converter), omit it at the "
                "producer, or "
                "drop the whole field with the transform ReplaceField."
            )
        if storable(self._format, values.type) is not None:
            return Misfit(
                f"Field {path} is new, and fields cannot be added inside a map of a "
                f"{self._format.name} table: not all readers could read its older files. {_WAY_OUT}"
            )
        return Misfit(
            f"Field {path} has the type {values.type}, which a {self._format.name} table cannot "
            f"store (value {_shown(values)}). {_WAY_OUT}"
        )


def _offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """The offsets of a list or map relative to its first item, the index of that, and the length."""
    offsets = array.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    return pc.subtract(offsets, offsets[0]), start, end - start


def _converted(array: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """The same values in another type; None if one of them would change."""
    convert = _conversion(array.type, wanted)
    if convert is None:
        return None
    try:
        return convert(array, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


_Convert = Callable[[pa.Array, pa.DataType], pa.Array | None]


def _conversion(given: pa.DataType, wanted: pa.DataType) -> _Convert | None:
    """The conversion between two types; None if they have no values in common."""
    types = pa.types
    if types.is_integer(given):
        if types.is_integer(wanted) or types.is_floating(wanted):
            return _checked_cast
        return _integer_to_decimal if types.is_decimal(wanted) else None
    if types.is_floating(given):
        return _exact_float if types.is_integer(wanted) or types.is_floating(wanted) else None
    if types.is_timestamp(given) and types.is_timestamp(wanted):
        # With a time zone it is an instant, without one a wall-clock time: they are not comparable.
        return _checked_cast if (given.tz is None) == (wanted.tz is None) else None
    both = (types.is_decimal, types.is_time)
    return _checked_cast if any(is_kind(given) and is_kind(wanted) for is_kind in both) else None


def _checked_cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Arrow's checked cast: it raises if a number, a decimal or a time would be truncated."""
    return array.cast(wanted)


def _integer_to_decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    # In one step Arrow requires precision for the largest integer, not for the actual ones.
    return array.cast(pa.int64()).cast(pa.decimal128(19, 0)).cast(wanted)


def _exact_float(array: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Checked by casting back, bit by bit: Arrow rounds to float32, and drops the sign of -0.0."""
    converted = array.cast(wanted)
    bits = pa.int64() if array.type.bit_width == 64 else pa.int32()
    back = converted.cast(array.type, safe=False)
    is_same = pc.equal(back.view(bits), array.view(bits))
    is_equal = pc.or_(is_same, pc.is_nan(array))
    return converted if pc.all(is_equal).as_py() is not False else None


def _check_no_nulls(array: pa.Array, path: str, parent: pa.Array | None = None) -> None:
    missing = array.is_null()
    if parent is not None:
        missing = pc.and_(missing, parent.is_valid())
    if pc.any(missing).as_py():
        raise Misfit(
            f"Field {path} is null or missing, but its column is declared NOT NULL. Supply a value, or "
            "make the column nullable (ALTER COLUMN … DROP NOT NULL)."
        )


def _changed(array: pa.Array, wanted: pa.DataType, path: str) -> Misfit:
    values = array.drop_null()
    singles = (values.slice(index, 1) for index in range(len(values)))
    wrong = next(single for single in singles if _converted(single, wanted) is None)
    return Misfit(
        f"Field {path}: the value {_shown(wrong)} ({array.type}) cannot be stored in a column of type "
        f"{wanted} without changing it. {_WAY_OUT}"
    )


def _shown(values: pa.Array) -> str:
    """The first value, shortened."""
    value: Any = values.drop_null()[0].as_py()
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
