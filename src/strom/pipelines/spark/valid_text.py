"""Replaces invalid UTF-8 in strings: DuckDB and Arrow require valid strings, and Spark does not.

Expressions such as `CAST(_key AS STRING)` keep invalid bytes. One such string in a Parquet file fails
every query of the view. Invalid bytes become U+FFFD, as in JSON and CSV, before anything is measured: the
maximum of raw bytes and that of valid strings may differ.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

Repair = Callable[[Column], Column]


def text_repairs(source: DataFrame, rows: DataFrame) -> dict[str, Repair]:
    """By column, the expression that replaces invalid bytes; columns passed on from the source are valid.

    Computed once per view.
    """
    fields = rows.schema.fields
    names = [one.name for one in fields]
    parsed = set(_column_ids(source))
    ids = _column_ids(rows) or [""] * len(fields)  # Spark Connect exposes none: repair all
    return {
        one.name: repair
        for one, number in zip(fields, ids, strict=True)
        if number not in parsed
        and names.count(one.name) == 1
        and (repair := _repair_of(one.dataType)) is not None
    }


def with_valid_text(rows: DataFrame, repairs: Mapping[str, Repair]) -> DataFrame:
    """The rows with invalid bytes replaced."""
    if not repairs:
        return rows
    return rows.withColumns({name: repair(rows[name]) for name, repair in repairs.items()})


def is_valid_text(column: Column, kind: DataType) -> Column | None:
    """Whether all strings in a column are valid or null; None if its type contains no strings."""
    valid: Column | None = None
    if isinstance(kind, StringType):
        valid = sf.is_valid_utf8(column)
    elif isinstance(kind, ArrayType):
        if is_valid_text(column, kind.elementType) is not None:
            valid = sf.forall(column, lambda item: _valid(item, kind.elementType))
    elif isinstance(kind, MapType):
        keys = is_valid_text(sf.map_keys(column), ArrayType(kind.keyType))
        values = is_valid_text(sf.map_values(column), ArrayType(kind.valueType))
        valid = keys & values if keys is not None and values is not None else keys
        valid = values if valid is None else valid
    elif isinstance(kind, StructType):
        for one in kind.fields:
            field = is_valid_text(column[one.name], one.dataType)
            if field is not None:
                valid = field if valid is None else valid & field
    return None if valid is None else sf.coalesce(valid, sf.lit(True))


def _valid(column: Column, kind: DataType) -> Column:
    valid = is_valid_text(column, kind)
    assert valid is not None  # noqa: S101 - checked by the caller
    return valid


def _repair_of(kind: DataType) -> Repair | None:
    """The expression that replaces invalid bytes in a type; None if it contains no strings."""
    if isinstance(kind, StringType):
        return sf.make_valid_utf8
    if isinstance(kind, ArrayType):
        item = _repair_of(kind.elementType)
        return None if item is None else lambda column: sf.transform(column, item)
    if isinstance(kind, MapType):
        return _map_repair(kind)
    return _struct_repair(kind) if isinstance(kind, StructType) else None


def _map_repair(kind: "MapType") -> Repair | None:
    key, value = _repair_of(kind.keyType), _repair_of(kind.valueType)
    if key is None and value is None:
        return None

    def repair(column: Column) -> Column:
        if key is not None:
            column = sf.transform_keys(column, lambda one, _: key(one))
        if value is not None:
            column = sf.transform_values(column, lambda _, one: value(one))
        return column

    return repair


def _struct_repair(kind: "StructType") -> Repair | None:
    repairs = {one.name: _repair_of(one.dataType) for one in kind.fields}
    if not any(repairs.values()):
        return None

    def repair(column: Column) -> Column:
        fields = [
            (one(column[name]) if one else column[name]).alias(name)
            for name, one in repairs.items()
        ]
        return sf.when(column.isNotNull(), sf.struct(*fields))

    return repair


def _column_ids(rows: DataFrame) -> list[str]:
    """Spark's expression ids: a column that is passed on keeps its id."""
    if not hasattr(rows, "_jdf"):
        return []
    output = rows._jdf.queryExecution().analyzed().output()
    return [output.apply(index).exprId().toString() for index in range(output.size())]
