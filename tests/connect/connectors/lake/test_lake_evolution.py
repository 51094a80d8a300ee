"""Records whose types change: what LakeSink stores reads back equal, and what cannot is refused."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from strom.connect.api import PoisonRecord, RetriableError, SinkRecord
from strom.connect.api import schema as shapes
from strom.connect.api.schema import Schema, Type
from tests.connect.connectors.lake.tasks import FORMATS, P0, P1, a_task, records

NOON = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
EAST = dt.timezone(dt.timedelta(hours=2))
FLOAT32, INT8 = Schema(Type.FLOAT32), Schema(Type.INT8)


def put_each(path: Path, kind: str, *batches: list[SinkRecord]) -> None:
    """Every batch is stored before the next one comes."""
    task = a_task(path, format=kind)
    task.open([P0])
    for batch in batches:
        task.put(batch)
        task.flush()


def same(put: Any, read: Any) -> bool:
    """Whether a value has come back: a field that was not there is null, and -0.0 keeps its sign."""
    if isinstance(put, dict) and isinstance(read, list):  # a map
        return same(put, dict(read))
    if isinstance(put, dict):
        return isinstance(read, dict) and all(
            same(put.get(name), read.get(name)) for name in put | read
        )
    if isinstance(put, list | tuple):
        return (
            isinstance(read, list | tuple) and len(put) == len(read) and all(map(same, put, read))
        )
    if isinstance(put, float) and isinstance(read, float):
        return repr(put) == repr(read)
    return bool(put == read) and isinstance(put, bool) == isinstance(read, bool)


def read_by_all(path: Path, kind: str) -> list[dict[str, Any]]:
    """The rows in the order of `n`, on which all readers agree."""
    if kind == "delta":
        table = DeltaTable(path / "clicks")
        judged = [
            table.to_pyarrow_table(),
            pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t")),
        ]
    else:
        files = sorted((path / "clicks").glob("*.parquet"))
        schema = pa.unify_schemas([pq.read_schema(file) for file in files])
        source = f"'{path}/clicks/**/*.parquet'"
        judged = [
            ds.dataset(files, schema=schema).to_table(),
            duckdb.sql(f"FROM read_parquet({source}, union_by_name=true)").to_arrow_table(),
            # This has the columns of the first file, and reads the others in its types.
            duckdb.sql(f"FROM read_parquet({source})").to_arrow_table(),
        ]
    first, *others = [sorted(table.to_pylist(), key=lambda row: row["n"]) for table in judged]
    for other in others:
        shown = [{name: row[name] for name in other[0]} for row in first]
        assert all(map(same, _within(shown, other), other))
    return first


def _within(rows: Any, other: Any) -> Any:
    """Only the fields that the other reader has."""
    if isinstance(rows, dict) and isinstance(other, dict):
        return {name: _within(rows[name], other[name]) for name in other}
    if isinstance(rows, list | tuple) and isinstance(other, list | tuple):
        return [_within(*pair) for pair in zip(rows, other, strict=True)]
    return rows


def one(offset: int, value: Any, schema: Schema | None = None) -> list[SinkRecord]:
    """A record with the field `v`, and `n` to find it again."""
    shape = None if schema is None else shapes.struct({"n": shapes.INT64, "v": schema})
    return [SinkRecord("clicks", 0, offset, {"n": offset, "v": value}, shape)]


REFUSED: dict[str, tuple[Any, Schema | None, Any, Schema | None, str]] = {
    "int into bool": (True, shapes.BOOLEAN, 7, None, "bool"),
    "bool into int": (1, None, True, None, "int64"),
    "large float into float32": (1.5, FLOAT32, 1e300, None, "1e+300"),
    "inexact float into float32": (1.5, FLOAT32, 0.1, None, "0.1"),
    "int into timestamp": (NOON, shapes.TIMESTAMP, 5, None, "timestamp"),
    "timestamp into date": (NOON.date(), shapes.DATE, NOON, shapes.TIMESTAMP, "date32"),
    "date into timestamp": (NOON, shapes.TIMESTAMP, NOON.date(), shapes.DATE, "timestamp"),
    "naive into aware timestamp": (NOON, None, NOON.replace(tzinfo=None), None, "tz=UTC"),
    "string into int": (1, None, "1", None, "int64"),
    "int into string": ("1", None, 1, None, "string"),
    "string into bytes": (b"1", None, "1", None, "binary"),
    "fraction into int": (1, None, 1.5, None, "1.5"),
    "negative zero into int": (1, None, -0.0, None, "-0.0"),
    "NaN into int": (1, None, float("nan"), None, "nan"),
    "large int into float": (1.5, None, 2**53 + 1, None, "9007199254740993"),
    "large int into int8": (1, INT8, 128, None, "128"),
    "decimal with more digits": (
        Decimal("1.50"),
        shapes.decimal(2),
        Decimal("1.505"),
        shapes.decimal(3),
        "1.505",
    ),
    "struct into int": (1, None, {"x": 1}, None, "struct<x: int64>"),
    "list into struct": ({"x": 1}, None, [1], None, "list<"),
    "nested": ({"x": [{"y": 1}]}, None, {"x": [{"y": None}, {"y": "q"}]}, None, "v.x[].y"),
    "map value": (
        {"k": 1},
        shapes.mapping(shapes.STRING, shapes.INT64),
        {"k": "q"},
        shapes.mapping(shapes.STRING, shapes.STRING),
        "v.value",
    ),
    "case of a nested field": (
        {"x": 1},
        None,
        {"X": 1},
        None,
        "v.X differs from column v.x only in case",
    ),
}

IN_A_MAP = (
    {"k": {"x": 1}},
    shapes.mapping(shapes.STRING, shapes.struct({"x": shapes.INT64})),
    {"k": {"x": 2, "y": 3}, "l": {"x": 4, "y": 5}},
    shapes.mapping(shapes.STRING, shapes.struct({"x": shapes.INT64, "y": shapes.INT64})),
)

STORED: dict[str, tuple[Any, Schema | None, Any, Schema | None]] = {
    "a nested field": ({"x": 1}, None, {"x": 2, "y": "q"}, None),
    "a nested field in a list": ([{"x": 1}], None, [{"x": 2, "y": 3}], None),
    "a struct in a struct": ({"a": {"x": 1}}, None, {"a": {"x": 1, "b": {"y": 2}}}, None),
    "a nested field that disappears": ({"x": 1, "y": 2}, None, {"x": 3}, None),
    "nested fields in another order": ({"x": 1, "y": 2}, None, {"y": 3, "x": 4}, None),
    "small int into int8": (1, INT8, 5, None),
    "int8 into int": (1, None, 5, INT8),
    "whole float into int": (1, None, 5.0, None),
    "int into float": (1.5, None, 5, None),
    "exact float into float32": (1.5, FLOAT32, float("-inf"), None),
    "negative zero into float": (1.5, None, -0.0, None),
    "NaN into float32": (1.5, FLOAT32, float("nan"), None),
    "null into int": (1, None, None, None),
    "null into struct": ({"x": 1}, None, None, None),
    "nested null": ({"x": 1}, None, {"x": None}, None),
    "empty list into a list": ([1], None, [], None),
    "list of nulls into a list": ([1], None, [None], None),
    "empty struct into a struct": ({"x": 1}, None, {}, None),
    "decimal with fewer digits": (
        Decimal("1.50"),
        shapes.decimal(2),
        Decimal("2.5"),
        shapes.decimal(1),
    ),
    "instant in another zone": (NOON, None, NOON.astimezone(EAST), None),
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("case", REFUSED)
def test_a_value_that_the_column_would_change_is_refused_with_the_reason(tmp_path, kind, case):
    before, schema, after, new_schema, reason = REFUSED[case]
    put_each(tmp_path, kind, one(0, before, schema))
    task = a_task(tmp_path, format=kind)
    task.open([P0])
    with pytest.raises(PoisonRecord) as caught:
        task.put(one(1, before, schema) + one(2, after, new_schema))
    assert caught.value.index == 1
    assert reason in str(caught.value)
    task.put(one(1, before, schema) + one(3, before, schema))
    task.flush()
    assert [row["n"] for row in read_by_all(tmp_path, kind)] == [0, 1, 3]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("case", STORED)
def test_a_value_that_the_column_can_hold_reads_back_equal(tmp_path, kind, case):
    before, schema, after, new_schema = STORED[case]
    put_each(tmp_path, kind, one(0, before, schema), one(1, after, new_schema))
    first, second = [row["v"] for row in read_by_all(tmp_path, kind)]
    assert same(before, first)
    assert same(after, second)


def test_a_field_inside_a_map_is_added_to_parquet_tables_only(tmp_path):
    """delta-rs cannot query a Delta table whose older files lack it."""
    before, schema, after, new_schema = IN_A_MAP
    put_each(tmp_path / "parquet", "parquet", one(0, before, schema), one(1, after, new_schema))
    assert same(after, read_by_all(tmp_path / "parquet", "parquet")[1]["v"])
    with pytest.raises(PoisonRecord, match=r"v\.value\.y is new, .* inside a map of a Delta table"):
        put_each(tmp_path / "delta", "delta", one(0, before, schema), one(1, after, new_schema))
