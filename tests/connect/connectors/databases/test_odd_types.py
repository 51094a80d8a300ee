"""Types that are easily got wrong: converted, or refused with the column and the reason."""

from decimal import Decimal
from typing import Any

import pytest

from strom.connect.api import ConnectError, PoisonRecord, Schema, SinkRecord, TopicPartition, Type
from strom.connect.api.schema import INT32, INT64, STRING, array, decimal, struct
from strom.connect.connectors.databases.postgres_types import optional
from strom.connect.connectors.databases.sink import JdbcSink
from strom.connect.connectors.databases.source import JdbcSource
from strom.connect.converters.json_converter import JsonConverter, JsonSettings
from strom.testing.connectors import SinkDriver, SourceDriver
from tests.connect.connectors.other_side import PostgresSide, Side, SqliteSide

NUMBERS = array(optional(INT32))
LONG = "1234567890" * 5
LONGEST = "9" * 500 + "." + "7" * 500
GRID = "'{{1,2},{3,NULL}}'"
ODD: list[tuple[str, str, Any, Schema]] = [
    ("integer[][]", GRID, [[1, 2], [3, None]], array(optional(NUMBERS))),
    ("integer[][]", "'{}'", [], array(optional(NUMBERS))),
    ("grid", GRID, [[1, 2], [3, None]], array(optional(NUMBERS))),
    (
        "text[][][]",
        """'{{{a,"b,}"}}}'""",
        [[["a", "b,}"]]],
        array(optional(array(optional(array(optional(STRING)))))),
    ),
    (
        "box[]",
        "'{(1,1),(0,0);NULL;(2,2),(1,1)}'",
        ["(1,1),(0,0)", None, "(2,2),(1,1)"],
        array(optional(STRING)),
    ),
    ("int2vector", "'1 -2 3'", [1, -2, 3], array(Schema(Type.INT16))),
    ("int2vector", "''", [], array(Schema(Type.INT16))),
    ("oidvector", "'1 4294967295'", [1, 4294967295], array(INT64)),
    ("numeric(60, 10)", f"{LONG}.0123456789", Decimal(f"{LONG}.0123456789"), decimal(10)),
    ("numeric(1000, 500)", LONGEST, Decimal(LONGEST), decimal(500)),
    ("numeric(60, 10)[]", f"'{{-{LONG}.5}}'", [Decimal(f"-{LONG}.5000000000")], array(decimal(10))),
    ("numeric", LONG * 20, LONG * 20, STRING),
    ("numeric", "'NaN'", "NaN", STRING),
    ("numeric", "'-Infinity'", "-Infinity", STRING),
]


def read_all(side: Side, count: int, **texts: str) -> list[Any]:
    settings = {"mode": "bulk", "topic.prefix": "x", "table.whitelist": "t"}
    more = {name.replace("_", "."): text for name, text in texts.items()}
    driver = SourceDriver(JdbcSource, {**side.settings, **settings, **more})
    driver.start()
    try:
        return driver.read(count)
    finally:
        driver.stop()


@pytest.mark.postgres
def test_odd_types_keep_their_values_there_and_back(postgres_side: PostgresSide) -> None:
    columns = ", ".join(f"c{n} {kind}" for n, (kind, *_) in enumerate(ODD))
    values = ", ".join(literal for _, literal, *_ in ODD)
    postgres_side.run(
        "CREATE DOMAIN grid AS integer[][];"
        f"CREATE TABLE t ({columns}); INSERT INTO t VALUES ({values}); CREATE TABLE u (LIKE t);"
    )
    (record,) = read_all(postgres_side, 1)
    for n, (kind, _, value, schema) in enumerate(ODD):
        assert record.value[f"c{n}"] == value, kind
        found = record.value_schema.field(f"c{n}").schema
        expected = [schema.type, schema.name, schema.value and schema.value.type]
        assert [found.type, found.name, found.value and found.value.type] == expected, kind
    converter = JsonConverter(JsonSettings(), is_key=False)
    data = converter.to_bytes("t", record.value_schema, record.value)
    schema, value = converter.from_bytes("t", data)
    assert value == record.value
    driver = SinkDriver(JdbcSink, {**postgres_side.settings, "table.name.format": "u"})
    driver.start([TopicPartition("t", 0)])
    driver.task.put([SinkRecord("t", 0, 0, value, schema)])
    driver.stop()
    equal = ", ".join(f"t.c{n}::text = u.c{n}::text" for n in range(len(ODD)))
    (same,) = postgres_side.run(f"SELECT {equal} FROM t, u")
    assert all(same), [kind for (kind, *_), ok in zip(ODD, same, strict=True) if not ok]


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("kind", "literal", "reason"),
    [
        (
            "integer[]",
            GRID,
            r"array of 2 dimensions, .* declared with 1 dimension\. .* with \[\]\[\] after",
        ),
        (
            "integer[][]",
            "'{1}'",
            r"array of 1 dimension, but the column is declared with 2 dimensions",
        ),
        ("numeric(5, 2)", "'NaN'", r"contains NaN, .* numeric\.mapping=best_fit"),
        ("numeric(5, 2)[]", "'{NaN}'", r"contains NaN, .* numeric\.mapping=best_fit"),
    ],
)
def test_what_no_record_can_hold_is_refused_with_row_and_column(
    postgres_side: PostgresSide, kind: str, literal: str, reason: str
) -> None:
    postgres_side.run(
        f"CREATE TABLE t (id int, part int, v {kind}, PRIMARY KEY (id, part));"
        f"INSERT INTO t VALUES (7, 1, {literal});"
    )
    where = r"Table public\.t, row with id=7, part=1, column v \(.*\): .*"
    with pytest.raises(ConnectError, match=where + reason):
        read_all(postgres_side, 1)


@pytest.mark.postgres
def test_arrays_of_queries_have_one_dimension(postgres_side: PostgresSide) -> None:
    read = {"query": f"SELECT {GRID}::integer[] AS v", "table_whitelist": ""}
    with pytest.raises(ConnectError, match=r"The query, column v \(int4\[\]\): .*2 dimensions"):
        read_all(postgres_side, 1, **read)


@pytest.mark.postgres
def test_a_number_beyond_all_doubles_is_refused(postgres_side: PostgresSide) -> None:
    postgres_side.run(f"CREATE TABLE t (v numeric); INSERT INTO t VALUES ({'9' * 400});")
    with pytest.raises(ConnectError, match=r"column v \(numeric\): .*exceeds the largest double"):
        read_all(postgres_side, 1, numeric_mapping="best_fit")


def test_decimals_of_any_length_are_read_from_sqlite(sqlite_side: SqliteSide) -> None:
    sqlite_side.run("CREATE TABLE t (v DECIMAL_TEXT(10));")
    sqlite_side.run("INSERT INTO t VALUES (?)", f"{LONG}.5")
    (record,) = read_all(sqlite_side, 1)
    assert record.value["v"] == Decimal(f"{LONG}.5000000000")
    assert record.value_schema.field("v").schema.parameter("scale") == "10"


def test_decimals_of_any_length_are_written_and_read_again(side: Side) -> None:
    schema = struct({"v": decimal(10)})
    driver = SinkDriver(JdbcSink, {**side.settings, "auto.create": "true"})
    driver.start([TopicPartition("t", 0)])
    driver.task.put([SinkRecord("t", 0, 0, {"v": Decimal(f"{LONG}.0123456789")}, schema)])
    driver.stop()
    (record,) = read_all(side, 1)
    assert str(record.value["v"]) == f"{LONG}.0123456789"


@pytest.mark.parametrize("literal", ["'NaN'", "'much'", "9e999"])
def test_what_is_no_number_is_refused_by_its_column(sqlite_side: SqliteSide, literal: str) -> None:
    sqlite_side.run(
        f"CREATE TABLE t (id INTEGER PRIMARY KEY, v DECIMAL(8, 2)); INSERT INTO t VALUES (3, {literal});"
    )
    with pytest.raises(
        ConnectError, match=r"row with id=3, column v \(DECIMAL\(8, 2\)\): .*contains an invalid"
    ):
        read_all(sqlite_side, 1)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("numeric", "much", "str 'much'"),
        ("boolean", "maybe", "str 'maybe'"),
        ("integer", 1.5, "float '1.5'"),
        ("integer", [1], r"list '\[1\]'"),
        ("date", "soon", "str 'soon'"),
        ("timestamptz", {"a": 1}, "dict "),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_poison_with_the_reason(
    postgres_side: PostgresSide, kind: str, value: Any, shown: str
) -> None:
    postgres_side.run(f"CREATE TABLE t (id int, v {kind});")
    driver = SinkDriver(JdbcSink, postgres_side.settings)
    driver.start([TopicPartition("t", 0)])
    records = [SinkRecord("t", 0, n, {"id": n, "v": None}) for n in range(2)]
    records.append(SinkRecord("t", 0, 2, {"id": 2, "v": value}))
    with pytest.raises(
        PoisonRecord, match=rf"Column v \(.*\) of table t does not accept the {shown}"
    ):
        driver.task.put(records)
    driver.stop()
