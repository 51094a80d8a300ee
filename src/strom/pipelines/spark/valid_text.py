"""Strings that are valid UTF-8, as DuckDB and Arrow demand; Spark takes any bytes for a string.

`CAST(_key AS STRING)` and its like keep bytes that are no UTF-8. One such string in a Parquet file, and
every query of the view would fail. Invalid bytes become U+FFFD, as in JSON and CSV, and they do before
anything is measured: a maximum of raw bytes and one of valid strings need not be the same.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, MapType, StructType

Change = Callable[["Column"], "Column"]


def text_changes(source: "DataFrame", rows: "DataFrame") -> dict[str, Change]:
    """What makes the strings in columns valid that do not come straight from the source, by column.

    It is found out once for a view, and holds for all its rows.
    """
    fields = rows.schema.fields
    names = [one.name for one in fields]
    parsed = set(_column_ids(source))
    ids = _column_ids(rows) or [""] * len(fields)  # Spark Connect does not tell: take all of them
    return {
        one.name: change
        for one, number in zip(fields, ids, strict=True)
        if number not in parsed
        and names.count(one.name) == 1
        and (change := _change(one.dataType)) is not None
    }


def with_valid_text(rows: "DataFrame", changes: Mapping[str, Change]) -> "DataFrame":
    """The rows with invalid bytes in strings replaced."""
    if not changes:
        return rows
    return rows.withColumns({name: change(rows[name]) for name, change in changes.items()})


def is_valid_text(column: "Column", kind: "DataType") -> "Column | None":
    """Whether all strings in a column are valid, as null is; None if it has none."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

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


def _valid(column: "Column", kind: "DataType") -> "Column":
    valid = is_valid_text(column, kind)
    assert valid is not None  # noqa: S101 - asked before
    return valid


def _change(kind: "DataType") -> Change | None:
    """What makes the strings of a type valid; None if it has no strings."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    if isinstance(kind, StringType):
        return sf.make_valid_utf8
    if isinstance(kind, ArrayType):
        item = _change(kind.elementType)
        return None if item is None else lambda column: sf.transform(column, item)
    if isinstance(kind, MapType):
        return _change_of_map(kind)
    return _change_of_struct(kind) if isinstance(kind, StructType) else None


def _change_of_map(kind: "MapType") -> Change | None:
    from pyspark.sql import functions as sf

    key, value = _change(kind.keyType), _change(kind.valueType)
    if key is None and value is None:
        return None

    def change(column: "Column") -> "Column":
        if key is not None:
            column = sf.transform_keys(column, lambda one, _: key(one))
        if value is not None:
            column = sf.transform_values(column, lambda _, one: value(one))
        return column

    return change


def _change_of_struct(kind: "StructType") -> Change | None:
    from pyspark.sql import functions as sf

    changes = {one.name: _change(one.dataType) for one in kind.fields}
    if not any(changes.values()):
        return None

    def change(column: "Column") -> "Column":
        fields = [
            (one(column[name]) if one else column[name]).alias(name)
            for name, one in changes.items()
        ]
        return sf.when(column.isNotNull(), sf.struct(*fields))

    return change


def _column_ids(rows: "DataFrame") -> list[str]:
    """Spark's numbers for columns: one that is passed on keeps its own."""
    if not hasattr(rows, "_jdf"):
        return []
    output = rows._jdf.queryExecution().analyzed().output()
    return [output.apply(index).exprId().toString() for index in range(output.size())]
