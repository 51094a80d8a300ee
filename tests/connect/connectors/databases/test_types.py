"""Every type keeps its values: from a table into records and from records into a table."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from strom.connect.api import ConnectError, Schema, SinkRecord, TopicPartition, Type
from strom.connect.api.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    array,
    mapping,
    struct,
)
from strom.connect.connectors.databases.postgres_types import (
    PRECISION,
    TypeInfo,
    mapped,
    optional,
    parse_array,
    parse_date,
    parse_timestamp,
)
from strom.connect.connectors.databases.postgres_values import converter
from strom.connect.connectors.databases.sink import JdbcSink
from strom.connect.connectors.databases.source import JdbcSource
from strom.testing.connectors import SinkDriver, SourceDriver
from tests.connect.connectors.other_side import PostgresSide, Side, SqliteSide
from tests.connect.connectors.postgres_values import MOMENT, POSTGRES_TYPES


def read_rows(side: Side, table: str, count: int) -> list[Any]:
    driver = SourceDriver(
        JdbcSource,
        {**side.settings, "mode": "bulk", "topic.prefix": "x", "table.whitelist": table},
    )
    driver.start()
    try:
        return driver.read(count)
    finally:
        driver.stop()


def write_rows(side: Side, schema: Schema, rows: Sequence[Any]) -> None:
    driver = SinkDriver(JdbcSink, {**side.settings, "auto.create": "true"})
    driver.start([TopicPartition("t", 0)])
    try:
        driver.put([SinkRecord("t", 0, offset, row, schema) for offset, row in enumerate(rows)])
    finally:
        driver.stop()


@pytest.mark.postgres
def test_types_of_postgres_keep_their_values_there_and_back(postgres_side: PostgresSide) -> None:
    columns = ", ".join(f"c{n} {kind}" for n, (kind, *_) in enumerate(POSTGRES_TYPES))
    values = ", ".join(literal for _, literal, *_ in POSTGRES_TYPES)
    nothing = ", ".join("NULL" for _ in POSTGRES_TYPES)
    postgres_side.run(
        "CREATE TYPE mood AS ENUM ('good'); CREATE DOMAIN price AS numeric(6, 2);"
        f"CREATE TABLE first ({columns}); INSERT INTO first VALUES ({values}), ({nothing});"
        "CREATE TABLE t AS SELECT * FROM first WITH NO DATA;"
    )
    full, empty = read_rows(postgres_side, "first", 2)
    for n, (kind, _, value, schema) in enumerate(POSTGRES_TYPES):
        assert full.value[f"c{n}"] == value, kind
        assert empty.value[f"c{n}"] is None, kind
        found = full.value_schema.field(f"c{n}").schema
        assert (found.type, found.name, found.value) == (schema.type, schema.name, schema.value), (
            kind
        )
        assert found.optional
    write_rows(postgres_side, full.value_schema, [empty.value])
    limits = ("infinity", "BC")
    plain = [n for n, one in enumerate(POSTGRES_TYPES) if not one[1].strip("'").endswith(limits)]
    driver = SinkDriver(
        JdbcSink, {**postgres_side.settings, "table.name.format": "t"}, name="again"
    )
    driver.start([TopicPartition("u", 0)])
    kept = {f"c{n}": full.value[f"c{n}"] for n in plain}
    schema = struct({name: full.value_schema.field(name).schema for name in kept})
    driver.put([SinkRecord("u", 0, 0, kept, schema)])
    driver.stop()
    equal = ", ".join(f"a.c{n}::text = b.c{n}::text" for n in plain)
    (same,) = postgres_side.run(f"SELECT {equal} FROM first a, t b WHERE a.c0 AND b.c0")
    assert all(same), [POSTGRES_TYPES[n][0] for n, ok in zip(plain, same, strict=True) if not ok]


VALUES: dict[str, tuple[Schema, st.SearchStrategy[Any]]] = {
    "i8": (Schema(Type.INT8), st.integers(-128, 127)),
    "i16": (Schema(Type.INT16), st.integers(-(2**15), 2**15 - 1)),
    "i32": (INT32, st.integers(-(2**31), 2**31 - 1)),
    "i64": (INT64, st.integers(-(2**63), 2**63 - 1)),
    "f32": (Schema(Type.FLOAT32), st.floats(width=32, allow_nan=False)),
    "f64": (FLOAT64, st.floats(allow_nan=False)),
    "yes": (BOOLEAN, st.booleans()),
    "word": (STRING, st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)),
    "raw": (BYTES, st.binary(max_size=20)),
    "sum": (
        Schema(
            Type.BYTES,
            name="org.apache.kafka.connect.data.Decimal",
            version=1,
            parameters=(("scale", "3"), (PRECISION, "20")),
        ),
        st.decimals(-(10**15), 10**15, places=3),
    ),
    "day": (DATE, st.dates()),
    "clock": (TIME, st.times().map(lambda t: t.replace(fold=0))),
    "at": (TIMESTAMP, st.datetimes(timezones=st.just(UTC)).map(lambda t: t.replace(fold=0))),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.one_of(st.none(), of) for name, (_, of) in VALUES.items()}),
    min_size=1,
    max_size=8,
)
SCHEMA = struct({name: optional(schema) for name, (schema, _) in VALUES.items()})
GIVEN = hypothesis_settings(
    deadline=None,
    max_examples=15,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a row says enough without being shrunk
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def there_and_back(side: Side, rows: list[dict[str, Any]]) -> None:
    side.run("DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS strom_connect_positions;")
    write_rows(side, SCHEMA, rows)
    records = read_rows(side, "t", len(rows))
    assert [record.value for record in records] == rows


@GIVEN
@given(rows=ROWS)
def test_any_row_comes_back_from_sqlite_as_it_was(sqlite_side: SqliteSide, rows) -> None:
    there_and_back(sqlite_side, rows)


@pytest.mark.postgres
@GIVEN
@given(rows=ROWS)
def test_any_row_comes_back_from_postgres_as_it_was(postgres_side: PostgresSide, rows) -> None:
    there_and_back(postgres_side, rows)


@given(st.lists(st.one_of(st.none(), st.text(max_size=6)), max_size=6))
def test_arrays_are_read_as_they_are_written(items) -> None:
    write = converter("text[]", None)
    assert parse_array(write(items), None) == items


def test_bounds_and_dimensions_of_arrays_are_understood() -> None:
    assert parse_array("[0:1]={1,2}", int) == [1, 2]
    assert parse_array("{{1,2},{3,NULL}}", int) == [[1, 2], [3, None]]
    assert parse_array("{}", int) == []


def test_times_beyond_the_calendar_are_the_nearest() -> None:
    assert parse_date("infinity") == date.max
    assert parse_date("-infinity") == date.min
    assert parse_timestamp("294276-12-31 23:59:59.999999+00").year == 9999
    assert parse_timestamp("0001-01-01 00:00:00+00 BC").year == 1


@pytest.mark.parametrize(
    ("modifier", "mapping_name", "type_"),
    [
        (-1, "none", Type.STRING),
        (-1, "best_fit", Type.FLOAT64),
        ((9 << 16) + 4, "precision_only", Type.INT32),
        ((18 << 16) + 4, "precision_only", Type.INT64),
        ((19 << 16) + 4, "precision_only", Type.BYTES),
        ((9 << 16) + 2 + 4, "precision_only", Type.BYTES),
        ((9 << 16) + 2 + 4, "best_fit", Type.FLOAT64),
    ],
)
def test_numbers_travel_as_the_mapping_says(modifier, mapping_name, type_) -> None:
    assert mapped(TypeInfo(1700), modifier, mapping_name).schema.type is type_


def test_structured_values_are_stored_as_json(side: Side) -> None:
    schema = struct(
        {"tags": array(STRING), "counts": mapping(STRING, INT32), "deep": struct({"at": TIMESTAMP})}
    )
    row = {"tags": ["a", "b"], "counts": {"x": 1}, "deep": {"at": MOMENT}}
    write_rows(side, schema, [row])
    ((tags, counts, deep),) = side.run("SELECT tags, counts, deep FROM t")
    assert tags in (["a", "b"], '["a", "b"]')
    assert counts == '{"x": 1}'
    assert deep == '{"at": "2026-02-03T04:05:06.789123+00:00"}'


@pytest.mark.parametrize(
    ("declared", "value", "type_"),
    [
        ("INTEGER", 5, Type.INT64),
        ("TINYINT", 5, Type.INT64),
        ("VARCHAR(10)", "x", Type.STRING),
        ("DOUBLE", 1.5, Type.FLOAT64),
        ("NUMERIC", 1.5, Type.FLOAT64),
        ("DECIMAL(10, 2)", Decimal("1.50"), Type.BYTES),
        ("BOOLEAN", True, Type.BOOLEAN),
        ("DATETIME", MOMENT, Type.INT64),
        ("DATE", date(2026, 1, 2), Type.INT32),
        ("BLOB", b"x", Type.BYTES),
        ("", "x", Type.STRING),
    ],
)
def test_declared_types_of_sqlite_are_shapes(
    sqlite_side: SqliteSide, declared, value, type_
) -> None:
    stored = {Decimal: "1.5", datetime: MOMENT.isoformat(), date: "2026-01-02"}.get(
        type(value), value
    )
    sqlite_side.run(f"CREATE TABLE t (v {declared});")
    sqlite_side.run("INSERT INTO t VALUES (?)", stored)
    (record,) = read_rows(sqlite_side, "t", 1)
    assert record.value["v"] == value
    assert record.value_schema.field("v").schema.type is type_


def test_times_of_sqlite_may_be_milliseconds(sqlite_side: SqliteSide) -> None:
    sqlite_side.run("CREATE TABLE t (at TIMESTAMP); INSERT INTO t VALUES (86400000);")
    (record,) = read_rows(sqlite_side, "t", 1)
    assert record.value["at"] == datetime(1970, 1, 2, tzinfo=UTC)


@pytest.mark.postgres
def test_a_number_that_no_decimal_is_is_reported(postgres_side: PostgresSide) -> None:
    postgres_side.run("CREATE TABLE t (v numeric(5, 2)); INSERT INTO t VALUES ('NaN');")
    with pytest.raises(ConnectError, match=r"contains NaN.*numeric.mapping=best_fit"):
        read_rows(postgres_side, "t", 1)
