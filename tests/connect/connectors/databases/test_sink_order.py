"""A batch leaves tables as its records would have, one after the other, by the database's own rules."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from strom.connect.api import PoisonRecord, Schema, SinkRecord, TopicPartition
from strom.connect.api.schema import FLOAT64, INT64, STRING, TIMESTAMP, decimal, struct
from strom.connect.connectors.databases.postgres import Postgres
from strom.connect.connectors.databases.postgres_types import optional
from strom.connect.connectors.databases.sink import JdbcSink
from strom.testing.connectors import SinkDriver
from tests.connect.connectors.other_side import PostgresSide, Side, SqliteSide

VALUE = struct({"name": STRING})
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true"}
LOWER = "6b0b2a5c-9f2b-4f9e-8d8e-0000000000ab"
CI = "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
TRIGGER = (
    "CREATE FUNCTION to_lower() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN NEW.id := lower(NEW.id); RETURN NEW; END $$;"
)


def change(offset: int, key: Any, name: str | None, schema: Schema | None, topic: str = "t") -> Any:
    value = None if name is None else {"name": name}
    value_schema = None if name is None else VALUE
    return SinkRecord(topic, 0, offset, value, value_schema, key, schema)


def changes(keys: Sequence[Any], names: Sequence[str | None], schema: Schema) -> list[SinkRecord]:
    return [
        change(offset, key, name, schema)
        for offset, (key, name) in enumerate(zip(keys, names, strict=True))
    ]


def put(side: Side, records: Sequence[SinkRecord], **more: str) -> None:
    texts = {name.replace("_", "."): text for name, text in more.items()}
    driver = SinkDriver(JdbcSink, {**side.settings, **UPSERT, **texts})
    try:
        driver.start(sorted({record.origin for record in records}))
        driver.task.put(records)
    finally:
        driver.stop()


POSTGRES_KEYS: list[tuple[str, Schema, Sequence[Any]]] = [
    ("uuid", STRING, [LOWER, LOWER.upper(), LOWER.replace("-", "")]),
    ("citext", STRING, ["a", "A", "b"]),
    ('text COLLATE "ci"', STRING, ["a", "A", "b"]),
    ("char(3)", STRING, ["a", "a ", "b"]),
    ("varchar(3)", STRING, ["abc", "abc ", "b"]),
    ("numeric", decimal(1), [Decimal("1.0"), Decimal(1), Decimal("1.00")]),
    ("numeric(4, 1)", decimal(2), [Decimal("1.01"), Decimal("1.04"), Decimal("1.1")]),
    ("double precision", FLOAT64, [float("nan"), float("-nan"), 1.0]),
    (
        "timestamptz",
        TIMESTAMP,
        [
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
            datetime(2026, 1, 2, tzinfo=UTC),
        ],
    ),
    (
        "timestamptz(0)",
        TIMESTAMP,
        [
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2026, 1, 1, 0, 0, 0, 1000, tzinfo=UTC),
            datetime(2026, 1, 2, tzinfo=UTC),
        ],
    ),
    ("bigint", INT64, [1, 2, 3]),
    ("text", STRING, ["a", "A", "a "]),
]
SQLITE_KEYS: list[tuple[str, Schema | None, Sequence[Any]]] = [
    ("TEXT COLLATE NOCASE", STRING, ["a", "A", "b"]),
    ("TEXT COLLATE RTRIM", STRING, ["a", "a ", "b"]),
    ("TEXT", None, [1, 1.0, "1", "1.0", True]),
    ("INTEGER", None, [1, 1.0, "1"]),
    ("", None, [1, 1.0, "1"]),
    ("BIGINT", INT64, [1, 2, 3]),
]


def make_postgres(side: PostgresSide, key_type: str) -> None:
    side.run("CREATE EXTENSION IF NOT EXISTS citext;")
    if "COLLATE" in key_type:
        side.run(CI)
    side.run(f"CREATE TABLE t (id {key_type} PRIMARY KEY, name text, note text DEFAULT 'new');")


def make_sqlite(side: SqliteSide, key_type: str) -> None:
    side.run(
        f"CREATE TABLE t (id {key_type} NOT NULL PRIMARY KEY, name TEXT, note TEXT DEFAULT 'new');"
    )


def one_by_one(side: Side, records: Sequence[SinkRecord], key_type: str, mode: str) -> None:
    """The model: plain statements, one for each record."""
    statements = []
    for record in records:
        key = f"'{record.key}'" if not isinstance(record.key, int) else repr(int(record.key))
        if isinstance(side, PostgresSide):
            key = f"CAST({key} AS {key_type.partition(' COLLATE')[0]})"
        elif isinstance(record.key, float):
            key = repr(record.key)
        name = record.value and record.value["name"]
        statements.append(
            f"DELETE FROM t WHERE id = {key};"
            if name is None
            else f"UPDATE t SET name = '{name}' WHERE id = {key};"
            if mode == "update"
            else f"INSERT INTO t (id, name) VALUES ({key}, '{name}') "
            "ON CONFLICT (id) DO UPDATE SET name = excluded.name;"
        )
    side.run("".join(statements) or ";")


def contents(side: Side) -> list[str]:
    return sorted(map(str, side.run("SELECT CAST(id AS TEXT), name, note FROM t")))


@pytest.mark.postgres
@pytest.mark.parametrize(("key_type", "schema", "keys"), POSTGRES_KEYS)
def test_postgres_decides_which_keys_are_equal(
    postgres_side: PostgresSide, key_type: str, schema: Schema, keys: Sequence[Any]
) -> None:
    first, second, other = keys
    records = changes(
        [first, second, first, other, second, other, first],
        ["1", None, "2", "3", "4", None, "5"],
        schema,
    )
    make_postgres(postgres_side, key_type)
    one_by_one(postgres_side, records, key_type, "upsert")
    expected = contents(postgres_side)
    postgres_side.run("DELETE FROM t;")
    put(postgres_side, records, pk_fields="id")
    assert contents(postgres_side) == expected


CHANGES = st.lists(
    st.tuples(st.integers(0, 9), st.one_of(st.none(), st.text("xyz", min_size=1, max_size=2))),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("mode", ["upsert", "update"])
@pytest.mark.parametrize(("key_type", "schema", "keys"), SQLITE_KEYS)
@hypothesis_settings(
    deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=CHANGES, batch_size=st.integers(1, 5))
def test_sqlite_decides_which_keys_are_equal(
    sqlite_side: SqliteSide, key_type: str, schema: Schema, keys, mode, steps, batch_size
) -> None:
    records = changes(
        [keys[number % len(keys)] for number, _ in steps], [name for _, name in steps], schema
    )
    sqlite_side.run("DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS strom_connect_positions;")
    make_sqlite(sqlite_side, key_type)
    fill = "INSERT INTO t VALUES (1, 'old', 'old')"
    sqlite_side.run(fill)
    one_by_one(sqlite_side, records, key_type, mode)
    expected = contents(sqlite_side)
    sqlite_side.run("DELETE FROM t;")
    sqlite_side.run(fill)
    put(sqlite_side, records, pk_fields="id", insert_mode=mode, batch_size=str(batch_size))
    assert contents(sqlite_side) == expected


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["upsert", "update"])
@hypothesis_settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    key_type=st.sampled_from(["citext", "uuid", "varchar(40)"]),
    steps=CHANGES,
    batch_size=st.integers(1, 5),
)
def test_any_batch_ends_as_record_by_record(
    postgres_side: PostgresSide, mode: str, key_type: str, steps, batch_size: int
) -> None:
    keys = [LOWER, LOWER.upper(), LOWER[:-1] + "0"]
    records = changes(
        [keys[number % 3] for number, _ in steps], [name for _, name in steps], STRING
    )
    fill = f"INSERT INTO t VALUES ('{keys[0]}', 'old', 'old');"
    postgres_side.run(
        "CREATE EXTENSION IF NOT EXISTS citext;"
        "DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS strom_connect_positions;"
        f"CREATE TABLE t (id {key_type} PRIMARY KEY, name text, note text DEFAULT 'new'); {fill}"
    )
    one_by_one(postgres_side, records, key_type, mode)
    expected = contents(postgres_side)
    postgres_side.run(f"DELETE FROM t; {fill}")
    put(postgres_side, records, pk_fields="id", insert_mode=mode, batch_size=str(batch_size))
    assert contents(postgres_side) == expected


def test_keys_are_equal_though_their_fields_come_in_another_order(side: Side) -> None:
    side.run("CREATE TABLE t (a BIGINT, b BIGINT, name TEXT, PRIMARY KEY (a, b));")
    one, other = struct({"a": INT64, "b": INT64}), struct({"b": INT64, "a": INT64})
    records = [
        change(0, {"a": 1, "b": 2}, "first", one),
        change(1, {"b": 2, "a": 1}, None, other),
        change(2, {"a": 1, "b": 2}, "again", one),
        change(3, {"a": 2, "b": 1}, "kept", one),
        change(4, {"b": 1, "a": 1}, None, other),
    ]
    put(side, records)
    assert side.run("SELECT * FROM t ORDER BY a") == [(1, 2, "again"), (2, 1, "kept")]


def test_a_row_that_was_deleted_and_written_is_a_new_one(side: Side) -> None:
    """Nothing of the deleted row is left in columns that the record does not have."""
    side.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, note TEXT DEFAULT 'new');")
    side.run("INSERT INTO t VALUES (1, 'old', 'old');")
    put(side, changes([1, 1], [None, "again"], INT64), pk_fields="id")
    assert side.run("SELECT * FROM t") == [(1, "again", "new")]


@pytest.mark.postgres
def test_a_delete_is_not_moved_past_rows_of_other_tables(postgres_side: PostgresSide) -> None:
    postgres_side.run(
        "CREATE TABLE parents (id bigint PRIMARY KEY, name text);"
        "CREATE TABLE t (id bigint PRIMARY KEY REFERENCES parents ON DELETE CASCADE, name text);"
    )
    steps = [("parents", "p"), ("t", "c"), ("parents", None), ("parents", "p again")]
    records = [change(n, 1, name, INT64, topic) for n, (topic, name) in enumerate(steps)]
    records = [record._replace(original_topic="all") for record in records]
    put(postgres_side, records, pk_fields="id")
    assert postgres_side.run("SELECT * FROM parents") == [(1, "p again")]
    assert postgres_side.run("SELECT * FROM t") == []


@pytest.mark.postgres
def test_keys_that_a_trigger_changes_are_written_in_order(postgres_side: PostgresSide) -> None:
    make_postgres(postgres_side, "text")
    postgres_side.run(
        f"{TRIGGER} CREATE TRIGGER lowered BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION to_lower();"
    )
    records = changes(["A", "a", "A", "a"], ["1", "2", "3", None], STRING)
    put(postgres_side, records, pk_fields="id")
    assert contents(postgres_side) == []


@pytest.mark.postgres
def test_a_trigger_sees_every_change(postgres_side: PostgresSide) -> None:
    make_postgres(postgres_side, "bigint")
    postgres_side.run(
        "CREATE TABLE history (n serial, id bigint, name text);"
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO history (id, name) VALUES (NEW.id, NEW.name); RETURN NULL; END $$;"
        "CREATE TRIGGER kept AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION keep();"
    )
    put(postgres_side, changes([1, 2, 1], ["a", "b", "c"], INT64), pk_fields="id")
    history = postgres_side.run("SELECT id, name FROM history ORDER BY n")
    assert history == [(1, "a"), (2, "b"), (1, "c")]


@pytest.mark.postgres
@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_a_delete_is_not_moved_past_rows_of_its_table_that_it_changes(
    postgres_side: PostgresSide, action: str
) -> None:
    postgres_side.run(
        f"CREATE TABLE t (id bigint PRIMARY KEY, name bigint REFERENCES t ON DELETE {action});"
        "INSERT INTO t VALUES (1, NULL);"
    )
    value = struct({"name": optional(INT64)})
    records = [
        SinkRecord("t", 0, 0, {"name": 1}, value, 2, INT64),
        SinkRecord("t", 0, 1, None, None, 1, INT64),
        SinkRecord("t", 0, 2, {"name": None}, value, 1, INT64),
    ]
    put(postgres_side, records, pk_fields="id")
    expected = [(1, None)] if action == "CASCADE" else [(1, None), (2, None)]
    assert postgres_side.run("SELECT id, name FROM t ORDER BY id") == expected


@pytest.mark.postgres
def test_an_index_that_finds_keys_equal_makes_them_one_row(postgres_side: PostgresSide) -> None:
    """The column tells them apart, its unique index does not: PostgreSQL refuses both together."""
    postgres_side.run(
        f"{CI} CREATE TABLE t (id text NOT NULL, name text);"
        'CREATE UNIQUE INDEX ON t (id COLLATE "ci");'
    )
    put(postgres_side, changes(["A", "a", "b"], ["1", "2", "3"], STRING), pk_fields="id")
    assert postgres_side.run("SELECT id, name FROM t ORDER BY id") == [("A", "2"), ("b", "3")]


def test_merged_changes_that_violate_a_constraint_are_written_one_by_one(side: Side) -> None:
    side.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(9) UNIQUE);")
    side.run("INSERT INTO t VALUES (1, 'y');")
    put(side, changes([2, 1, 2], ["x", "z", "y"], INT64), pk_fields="id")
    assert side.run("SELECT id, name FROM t ORDER BY id") == [(1, "z"), (2, "y")]


def test_of_merged_changes_the_record_that_is_refused_alone_is_named(side: Side) -> None:
    side.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(9) CHECK (name <> 'bad'));")
    records = changes([1, 1, 2, 1, 3], ["x", None, "bad", "y", "z"], INT64)
    with pytest.raises(PoisonRecord) as poison:
        put(side, records, pk_fields="id")
    assert poison.value.index == 2
    assert side.run("SELECT * FROM t") == []


@pytest.mark.postgres
def test_interleaved_deletes_of_plain_keys_take_few_statements(
    postgres_side: PostgresSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    execute = Postgres.execute

    def counted(self: Postgres, statement: str) -> None:
        statements.append(statement)
        execute(self, statement)

    monkeypatch.setattr(Postgres, "execute", counted)
    make_postgres(postgres_side, "bigint")
    names = ["x" if number % 2 else None for number in range(1000)]
    put(postgres_side, changes([n % 7 for n in range(1000)], names, INT64), pk_fields="id")
    assert len([one for one in statements if one.startswith(("INSERT", "DELETE"))]) == 2
    # The last of each key: the numbers from 993 on, of which the odd ones were written.
    expected = [(n % 7,) for n in range(993, 1000) if n % 2]
    assert postgres_side.run("SELECT id FROM t ORDER BY id") == sorted(expected)


def test_positions_are_stored_with_rows_that_were_written_one_by_one(side: Side) -> None:
    side.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(9) UNIQUE);")
    side.run("INSERT INTO t VALUES (1, 'y');")
    put(side, changes([2, 1, 2], ["x", "z", "y"], INT64), pk_fields="id")
    driver = SinkDriver(JdbcSink, {**side.settings, **UPSERT, "pk.fields": "id"})
    assert driver.start([TopicPartition("t", 0)]) == {("t", 0): 3}
    driver.stop()
