"""Records whose types change: what LakeSink stores reads back equal, and what cannot is refused."""

import datetime as dt
import shutil
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.connect.api import PoisonRecord, RetriableError, SinkRecord, TopicPartition
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
    "large whole float into int": (1, None, 2.0**62, None),
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


@pytest.mark.parametrize("kind", FORMATS)
def test_fields_come_and_go(tmp_path, kind):
    values = [
        {"n": 0, "a": 1, "b": "x"},
        {"n": 1, "b": "y", "c": [1]},
        {"n": 2, "c": [], "d": None},
    ]
    put_each(tmp_path, kind, *(records(P0, n, [value]) for n, value in enumerate(values)))
    assert all(map(same, values, read_by_all(tmp_path, kind)))


def refusal(path: Path, kind: str, *batches: list[dict[str, Any]]) -> PoisonRecord:
    """Why a record of the last batch is refused; the others are stored, one after the other."""
    task = a_task(path, format=kind)
    task.open([P0])
    *stored, last = batches
    offset = 0
    for values in stored:
        task.put(records(P0, offset, values))
        task.flush()
        offset += len(values)
    with pytest.raises(PoisonRecord) as caught:
        task.put(records(P0, offset, last))
    return caught.value


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("stored", [[[{"id": 1}]], []])
def test_a_field_that_differs_only_in_case_is_refused(tmp_path, kind, stored):
    refused = refusal(tmp_path, kind, *stored, [{"id": 2}, {"id": 3, "ID": None}, {"ID": 4}])
    assert refused.index == 2
    assert "Field ID differs from column id only in case" in str(refused)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("empty", [[], [None], [[]], {"x": []}])
def test_lists_that_are_always_empty_are_stored_as_lists_of_strings(tmp_path, kind, empty):
    values = [{"n": 0, "v": empty}, {"n": 1, "v": empty}, {"n": 2, "v": None}]
    put_each(tmp_path, kind, *(records(P0, n, [value]) for n, value in enumerate(values)))
    assert all(map(same, values, read_by_all(tmp_path, kind)))


@pytest.mark.parametrize("kind", FORMATS)
def test_an_empty_list_waits_for_the_type_of_its_items_until_it_is_stored(tmp_path, kind):
    task = a_task(tmp_path, format=kind)
    task.open([P0])
    values = [{"n": 0, "v": []}, {"n": 1, "v": [{"x": 1}]}]
    for n, value in enumerate(values):
        task.put(records(P0, n, [value]))
    task.flush()
    assert all(map(same, values, read_by_all(tmp_path, kind)))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("empty", [{}, {"x": None}, [{}]])
def test_what_is_empty_is_refused_until_its_type_is_known(tmp_path, kind, empty):
    """Stored as null it would not read back equal, and any type could be wrong for the next record."""
    refused = refusal(tmp_path, kind, [{"n": 0}], [{"n": 1}, {"n": 2, "v": empty}])
    assert refused.index == 1
    assert "Field v is empty" in str(refused)


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_empty_is_stored_if_another_record_shows_its_type(tmp_path, kind):
    values = [{"n": 0, "v": [], "w": {}}, {"n": 1, "v": [1], "w": {"x": [2]}}]
    put_each(tmp_path, kind, records(P0, 0, values))
    assert all(map(same, values, read_by_all(tmp_path, kind)))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_record_without_any_known_column_is_refused(tmp_path, kind):
    assert "no field of a known type" in str(refusal(tmp_path, kind, [{"a": None}]))
    assert "no field of a known type" in str(refusal(tmp_path, kind, [{}]))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["Day", "__time"])
def test_a_field_with_the_name_of_a_level_of_time_is_refused(tmp_path, kind, name):
    task = a_task(tmp_path, format=kind, time_partition="day")
    task.open([P0])
    with pytest.raises(PoisonRecord, match=f"field name {name} is reserved") as caught:
        task.put(records(P0, 0, [{"n": 0}, {"n": 1, name: 1}]))
    assert caught.value.index == 1


@pytest.mark.parametrize("kind", FORMATS)
def test_the_bad_record_is_named_even_if_it_comes_before_the_good_ones(tmp_path, kind):
    refused = refusal(tmp_path, kind, [{"n": 0}], [{"n": "x"}, {"n": 1}, {"n": 2}])
    assert refused.index == 0
    assert "Field n: the value 'x' (string)" in str(refused)


@pytest.mark.parametrize("kind", FORMATS)
def test_mixed_values_are_refused_although_arrow_has_a_type_for_them(tmp_path, kind):
    for first, second in [(b"b", "a"), (NOON.date(), NOON), (NOON, NOON.replace(tzinfo=None))]:
        assert refusal(tmp_path, kind, [{"n": 0, "v": first}, {"n": 1, "v": second}]).index == 1


@pytest.mark.parametrize("kind", FORMATS)
def test_columns_that_are_not_stored_yet_are_widened(tmp_path, kind):
    task = a_task(tmp_path, format=kind)
    task.open([P0])
    values = [{"n": 0, "v": {"x": 1}}, {"n": 1, "v": {"x": 1.5}}, {"n": 2, "v": {"x": 7, "y": 2}}]
    for offset, value in enumerate(values):
        task.put(records(P0, offset, [value]))
    task.flush()
    assert [row["v"]["x"] for row in read_by_all(tmp_path, kind)] == [1.0, 1.5, 7.0]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_large_integer_in_memory_keeps_its_column_from_being_widened(tmp_path, kind):
    task = a_task(tmp_path, format=kind)
    task.open([P0])
    task.put(records(P0, 0, [{"n": 0, "v": 2**53 + 1}]))
    with pytest.raises(PoisonRecord, match=r"value 1\.5 \(double\) .* type int64"):
        task.put(records(P0, 1, [{"n": 1, "v": 1.5}]))
    task.flush()
    assert [row["v"] for row in read_by_all(tmp_path, kind)] == [2**53 + 1]


@pytest.mark.parametrize("kind", FORMATS)
def test_versions_of_a_schema_that_alternate_keep_their_types(tmp_path, kind):
    """Without its schema a map would become a struct, and a decimal lose its precision."""
    fields = {
        "n": shapes.INT64,
        "m": shapes.mapping(shapes.STRING, shapes.INT64),
        "d": shapes.decimal(2),
    }
    old, new = shapes.struct(fields), shapes.struct(fields | {"v": shapes.STRING})
    given = [
        SinkRecord(*P0, number, {"n": number, "m": {f"k{number}": 1}, "d": Decimal("1.50")}, schema)
        for number, schema in enumerate([old, new, old, new])
    ]
    task = a_task(tmp_path, format=kind)
    task.open([P0])
    task.put([*given, SinkRecord(*P0, 4, None)])
    task.flush()
    found = read_by_all(tmp_path, kind)
    assert [row["m"] for row in found] == [[(f"k{number}", 1)] for number in range(4)]
    assert {row["d"] for row in found} == {Decimal("1.50")}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("begun", [True, False])
def test_tasks_that_add_the_same_field_with_other_types_do_not_both_succeed(tmp_path, kind, begun):
    """The second one has its records again, and then the one that does not fit is named."""
    if begun:
        put_each(tmp_path, kind, one(0, {"x": 1}))
    tasks = {P0: a_task(tmp_path, format=kind), P1: a_task(tmp_path, format=kind)}
    values = {
        P0: [{"n": 1, "v": {"x": 1, "y": 2}}],
        P1: [{"n": 2, "v": {"x": 2, "z": 3}}, {"n": 3, "v": {"y": "q"}}],
    }
    for place, task in tasks.items():
        task.open([place])
        task.put(records(place, 1, values[place]))
    tasks[P0].flush()
    with pytest.raises(RetriableError, match=r"Another task has added columns.* v\.y.*'q'"):
        tasks[P1].flush()
    tasks[P1].close([P1])
    tasks[P1].open([P1])
    with pytest.raises(PoisonRecord, match=r"Field v\.y") as caught:
        tasks[P1].put(records(P1, 1, values[P1]))
    assert caught.value.index == 1
    tasks[P1].put(records(P1, 1, values[P1][:1]))
    tasks[P1].flush()
    expected = ([{"n": 0, "v": {"x": 1}}] if begun else []) + values[P0] + values[P1][:1]
    assert all(map(same, expected, read_by_all(tmp_path, kind)))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("begun", [True, False])
def test_tasks_that_add_other_fields_at_the_same_time_all_succeed(tmp_path, kind, begun):
    if begun:
        put_each(tmp_path, kind, one(0, {"x": 1}))
    partitions = [TopicPartition("clicks", number) for number in range(1, 5)]
    tasks = []
    for place in partitions:
        task = a_task(tmp_path, format=kind)
        task.open([place])
        number = place.partition
        task.put(records(place, 0, [{"n": number, "v": {"x": 1, f"y{number}": number}}]))
        tasks.append(task)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda task: task.flush(), tasks))
    found = read_by_all(tmp_path, kind)
    assert [row["v"].get(f"y{row['n']}") for row in found] == [None] * begun + [1, 2, 3, 4]


def test_a_parquet_table_of_an_older_strom_keeps_the_types_of_its_files(tmp_path):
    put_each(tmp_path, "parquet", one(0, {"x": 1}), one(1, {"x": 2, "y": "q"}))
    shutil.rmtree(tmp_path / "clicks/_strom/schema")  # strom 0.1.0 did not write it
    task = a_task(tmp_path)
    task.open([P0])
    with pytest.raises(PoisonRecord, match=r"Field v\.y: the value 5 \(int64\) .* type string"):
        task.put(one(2, {"x": 3, "y": 5}))
    with pytest.raises(PoisonRecord, match=r"Field n: the value 'two'"):
        task.put(records(P0, 2, [{"n": "two"}]))
    task.put(one(2, {"x": 3, "z": 5}))
    task.flush()
    assert len(read_by_all(tmp_path, "parquet")) == 3


def test_an_older_parquet_table_with_lists_of_unknown_items_goes_on(tmp_path):
    """strom 0.1.0 wrote empty lists without a type; the files that follow have one."""
    put_each(tmp_path, "parquet", one(0, 1))
    (file,) = (tmp_path / "clicks").glob("*.parquet")
    pq.write_table(pa.table({"n": [0], "v": [[]]}), file)
    shutil.rmtree(tmp_path / "clicks/_strom/schema")
    put_each(tmp_path, "parquet", one(1, ["q"]))
    source = f"read_parquet('{tmp_path}/clicks/*.parquet', union_by_name=true)"
    assert duckdb.sql(f"SELECT v FROM {source} ORDER BY n").fetchall() == [([],), (["q"],)]


def test_a_null_is_refused_by_a_column_that_takes_none(tmp_path):
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("v", pa.int64())])
    DeltaTable.create(tmp_path / "clicks", schema)
    put_each(tmp_path, "delta", one(0, 1))
    refused = refusal(tmp_path, "delta", [{"n": 1}, {"v": 2}])
    assert refused.index == 1
    assert "Field n is null or missing" in str(refused)


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 127, 128, 2**31, 2**53 + 1, -(2**63), 2**63]),
    st.sampled_from([0.0, -0.0, 0.1, 1.5, 5.0, 2.0**53, 1e300, float("nan"), float("-inf")]),
    st.sampled_from(["", "1", "q"]),
    st.sampled_from([b"", b"1"]),
    st.sampled_from([Decimal("1.5"), Decimal("100.25"), Decimal(7)]),
    st.sampled_from([NOON, NOON.astimezone(EAST), NOON.replace(tzinfo=None), NOON.date()]),
    st.sampled_from([dt.time(1, 2), dt.timedelta(seconds=1)]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyX"), inner, max_size=2)
    ),
    max_leaves=4,
)
DECLARED = st.sampled_from(
    [
        (1, INT8),
        (2**31 - 1, shapes.INT32),
        (1.5, FLOAT32),
        (True, shapes.BOOLEAN),
        (NOON, shapes.TIMESTAMP),
        (NOON.date(), shapes.DATE),
        (Decimal("1.50"), shapes.decimal(2)),
        ({"k": 1}, shapes.mapping(shapes.STRING, shapes.INT64)),
        ({"x": 1}, shapes.struct({"x": shapes.INT32})),
        ([1, 2], shapes.array(shapes.INT32)),
    ]
)
BATCHES = st.lists(
    st.lists(st.tuples(VALUES, st.none()) | DECLARED, min_size=1, max_size=3),
    min_size=2,
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(FORMATS), batches=BATCHES, steps=st.data())
def test_everything_that_was_taken_reads_back_equal(tmp_path_factory, kind, batches, steps):
    """Whatever a batch brings after another: a record is refused, or stored as it is."""
    path = tmp_path_factory.mktemp("lake")
    task = a_task(path, format=kind)
    task.open([P0])
    taken: list[Any] = []
    offset = 0
    for batch in batches:
        given_records = []
        for value, schema in batch:
            given_records += one(offset, value, schema)
            offset += 1
        while given_records:
            try:
                task.put(given_records)
                break
            except PoisonRecord as poison:
                given_records.pop(poison.index)
        taken += [record.value for record in given_records]
        if steps.draw(st.booleans(), label="flush"):
            task.flush()
        if steps.draw(st.booleans(), label="restart"):
            task.flush()
            task = a_task(path, format=kind)
            task.open([P0])
    task.flush()
    found = read_by_all(path, kind) if taken else []
    assert [row["n"] for row in found] == [value["n"] for value in taken]
    assert all(map(same, taken, found))
