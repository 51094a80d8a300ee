"""Schema evolution: which types a table's columns get, and which records are rejected. Pure.

Both formats decide it here. A stored value reads back equal, or the record is rejected:

- An existing column keeps its type. delta-rs cannot widen a column of a Delta table, and a folder of
Parquet files with several types of one column is an error in DuckDB, Spark and Arrow, or worse, is cast
by them. - Fields may be added, at any depth; readers fill them with null where they are missing. Not
all readers do so inside the maps of a Delta table, so this is rejected. - Columns of rows in memory
that are not stored yet may still be widened. - A list that was only seen empty gets items of type
string when it is stored, as Spark infers it. - A value of another type is stored if it is equal after
conversion. - Names that differ only in case are the same name for Delta, Spark and DuckDB.

`TableColumns.with_rows` decides which columns a table gets, `conversion.fit` converts rows to them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from strom.connect.connectors.lake.columns import TIME

_MOST_DECIMAL_DIGITS = 38
_UNITS = ("s", "ms", "us", "ns")
_INTEGER_BITS = (8, 16, 32, 64)


class TableFormat(NamedTuple):
    """The capabilities of a table format."""

    name: str
    timestamp_unit: str | None = None
    """The unit of its timestamps; None if it has several."""
    has_time_of_day: bool = True
    has_evolving_maps: bool = True
    """Whether readers can fill in a field that was added to structs inside a map."""


# delta-rs itself fails to query a table whose older files lack a field inside a map.
DELTA = TableFormat("Delta", timestamp_unit="us", has_time_of_day=False, has_evolving_maps=False)
PARQUET = TableFormat("Parquet")


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table, and those that rows in memory will add."""

    format: TableFormat
    stored: pa.Schema
    """The stored columns: their types are final."""
    schema: pa.Schema
    """The stored columns, and those of rows that are not stored yet."""

    @classmethod
    def of_table(cls, table_format: TableFormat, stored: Iterable[pa.Field]) -> "TableColumns":
        """The columns of a table without rows in memory."""
        schema = pa.schema(stored)
        return cls(table_format, schema, schema)

    def with_rows(self, incoming: pa.Schema) -> "TableColumns":
        """The columns including these rows; columns that are not stored yet may be widened.

        What cannot become a column is omitted; the values decide whether that matters.
        """
        return self._merged(self.stored, incoming)

    def with_new_fields(self, incoming: pa.Schema) -> "TableColumns":
        """The same, but without changing any type, not even of a column that is not stored yet."""
        return self._merged(self.schema, incoming)

    def settled(self) -> "TableColumns":
        """The columns to store: lists that were only seen empty become lists of strings."""
        return replace(self, schema=pa.schema(_resolved_fields(self.schema, pa.string())))

    def _merged(self, final: pa.Schema, incoming: pa.Schema) -> "TableColumns":
        fields = [field for field in incoming if field.name != TIME]
        if fields == list(self.schema):
            return self
        merged = _merge_fields(self.format, list(final), list(self.schema), fields)
        return replace(self, schema=pa.schema(merged))


def storable(table_format: TableFormat, incoming: pa.DataType) -> pa.DataType | None:
    """The type of a new column for such values.

    None if there is none: the format has no such type, or the fields of an empty struct are still
    unknown. The items of an empty list have the type null until `TableColumns.settled`.
    """
    if pa.types.is_struct(incoming):
        fields = _merge_fields(table_format, [], [], list(incoming))
        return pa.struct(fields) if fields else None
    if pa.types.is_list(incoming):
        if pa.types.is_null(incoming.value_type):
            return pa.list_(pa.null())
        items = storable(table_format, incoming.value_type)
        return None if items is None else pa.list_(items)
    if pa.types.is_map(incoming):
        keys = storable(table_format, incoming.key_type)
        items = storable(table_format, incoming.item_type)
        return None if keys is None or items is None else pa.map_(keys, items)
    return _storable_leaf(table_format, incoming)


def is_unknown(incoming: pa.DataType) -> bool:
    """Whether a type has no column because its content is still unknown."""
    if pa.types.is_nested(incoming):
        return all(is_unknown(incoming.field(index).type) for index in range(incoming.num_fields))
    return bool(pa.types.is_null(incoming))


def typed_fields(fields: Iterable[pa.Field]) -> list[pa.Field]:
    """The fields without lists that were only stored empty: their item type is unknown."""
    return _resolved_fields(fields, None)


def _resolved_fields(fields: Iterable[pa.Field], items: pa.DataType | None) -> list[pa.Field]:
    resolved = ((field, _resolved(field.type, items)) for field in fields)
    return [field.with_type(kind) for field, kind in resolved if kind is not None]


def _resolved(kind: pa.DataType, items: pa.DataType | None) -> pa.DataType | None:
    """The type with these items for lists of null; None if `items` is None and nothing else is left."""
    if pa.types.is_struct(kind):
        fields = _resolved_fields(kind, items)
        return pa.struct(fields) if fields else None
    if pa.types.is_list(kind):
        inner = items if pa.types.is_null(kind.value_type) else _resolved(kind.value_type, items)
        return None if inner is None else pa.list_(kind.value_field.with_type(inner))
    if pa.types.is_map(kind):
        inner = _resolved(kind.item_type, items)
        return None if inner is None else pa.map_(kind.key_field, kind.item_field.with_type(inner))
    return kind


def _storable_leaf(table_format: TableFormat, incoming: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(incoming):
        # A time zone only affects how an instant is shown, and both formats store just the instant.
        zone = None if incoming.tz is None else "UTC"
        return pa.timestamp(table_format.timestamp_unit or incoming.unit, zone)
    if pa.types.is_time(incoming):
        return incoming if table_format.has_time_of_day else None
    is_stored = (
        pa.types.is_boolean(incoming)
        or pa.types.is_signed_integer(incoming)
        or pa.types.is_float32(incoming)
        or pa.types.is_float64(incoming)
        or pa.types.is_string(incoming)
        or pa.types.is_binary(incoming)
        or pa.types.is_date32(incoming)
        or pa.types.is_decimal128(incoming)
    )
    return incoming if is_stored else None


def _merge_fields(
    table_format: TableFormat,
    final: list[pa.Field],
    present: list[pa.Field],
    incoming: list[pa.Field],
) -> list[pa.Field]:
    """The present fields in their order, followed by the new ones."""
    types = {field.name: field.type for field in incoming}
    final_types = {field.name: field.type for field in final}
    merged = [
        field.with_type(
            _merge(table_format, final_types.get(field.name), field.type, types[field.name])
        )
        if field.name in types
        else field
        for field in present
    ]
    taken = {field.name.lower() for field in present}
    for field in incoming:
        new = None if field.name.lower() in taken else storable(table_format, field.type)
        if new is not None:
            taken.add(field.name.lower())
            merged.append(pa.field(field.name, new))
    return merged


def _merge(
    table_format: TableFormat,
    final: pa.DataType | None,
    present: pa.DataType,
    incoming: pa.DataType,
) -> pa.DataType:
    """The type for values of both; the present one if there is none."""
    if pa.types.is_struct(present) and pa.types.is_struct(incoming):
        fields = [] if final is None else list(final)
        return pa.struct(_merge_fields(table_format, fields, list(present), list(incoming)))
    if pa.types.is_list(present) and pa.types.is_list(incoming):
        items = None if final is None else final.value_type
        merged = _merge(table_format, items, present.value_type, incoming.value_type)
        return pa.list_(present.value_field.with_type(merged))
    if pa.types.is_map(present) and pa.types.is_map(incoming):
        if final is not None and not table_format.has_evolving_maps:
            return present
        items = None if final is None else final.item_type
        merged = _merge(table_format, items, present.item_type, incoming.item_type)
        return pa.map_(present.key_field, present.item_field.with_type(merged))
    new = storable(table_format, incoming)
    if final is not None or new is None:
        return present
    return new if pa.types.is_null(present) else _wider(present, new) or present


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """A type that can hold the values of both, at least those of moderate size."""
    numbers = (pa.types.is_integer, pa.types.is_floating)
    if all(any(is_number(each) for is_number in numbers) for each in (one, other)):
        if pa.types.is_integer(one) and pa.types.is_integer(other):
            return max(one, other, key=lambda each: _INTEGER_BITS.index(each.bit_width))
        return one if one == other else pa.float64()
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        scale = max(one.scale, other.scale)
        digits = scale + max(one.precision - one.scale, other.precision - other.scale)
        return pa.decimal128(digits, scale) if digits <= _MOST_DECIMAL_DIGITS else None
    if (
        pa.types.is_timestamp(one)
        and pa.types.is_timestamp(other)
        and (one.tz is None) == (other.tz is None)
    ):
        return max(one, other, key=lambda each: _UNITS.index(each.unit))
    return None
