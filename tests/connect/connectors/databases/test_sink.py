"""Records become rows exactly once, in every mode, whatever happens between."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from strom.connect.api import (
    ConnectError,
    InvalidSettings,
    PoisonRecord,
    Schema,
    SinkRecord,
    TopicPartition,
    Type,
)
from strom.connect.api.schema import INT32, INT64, OPTIONAL_STRING, STRING, decimal, struct
from strom.connect.connectors.databases.dialect import Fenced
from strom.connect.connectors.databases.sink import JdbcSink, table_of
from strom.connect.connectors.databases.sink_settings import JdbcSinkSettings
from strom.testing.connectors import SinkDriver
from tests.connect.connectors.other_side import PostgresSide, Side

PERSON = struct({"id": INT64, "name": OPTIONAL_STRING})
KEY = struct({"id": INT64})
PEOPLE = TopicPartition("people", 0)
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "auto.create": "true"}


def person(offset: int, key: int, name: str | None = None, *, gone: bool = False) -> SinkRecord:
    value = None if gone else {"id": key, "name": name}
    return SinkRecord("people", 0, offset, value, None if gone else PERSON, {"id": key}, KEY)


def sink(side: Side, **settings: str) -> SinkDriver:
    texts = {name.replace("_", "."): text for name, text in settings.items()}
    return SinkDriver(JdbcSink, {**side.settings, **texts})


def put(side: Side, records: Sequence[SinkRecord], **settings: str) -> None:
    driver = sink(side, **settings)
    try:
        driver.start(sorted({TopicPartition(one.topic, one.partition) for one in records}))
        driver.task.put(records)
    finally:
        driver.stop()


def people(side: Side) -> list[tuple[Any, ...]]:
    return side.run("SELECT id, name FROM people ORDER BY id")


def test_a_table_is_created_and_filled(side: Side) -> None:
    put(side, [person(0, 1, "Ada"), person(1, 2)], auto_create="true")
    assert people(side) == [(1, "Ada"), (2, None)]


def test_positions_can_be_set_back_and_records_are_then_stored_again(side: Side) -> None:
    records = [person(0, 1, "Ada"), person(1, 2, "Bob")]
    for _ in range(2):
        put(side, records, auto_create="true")
    assert people(side) == [(1, "Ada"), (2, "Bob")]
    made = JdbcSink(JdbcSinkSettings.read(side.settings))
    made.set_positions("laws", {PEOPLE: 1})
    put(side, records, auto_create="true")
    assert people(side) == [(1, "Ada"), (2, "Bob"), (2, "Bob")]


def test_upserts_change_rows_and_the_last_of_a_call_counts(side: Side) -> None:
    records = [person(0, 1, "Ada"), person(1, 2, "Bob"), person(2, 1, "Eve")]
    driver = SinkDriver(JdbcSink, {**side.settings, **UPSERT})
    driver.start([PEOPLE])
    driver.task.put(records)
    driver.task.put([person(3, 2, "Zoe")])
    driver.stop()
    assert people(side) == [(1, "Eve"), (2, "Zoe")]


def test_a_record_without_a_value_deletes_its_row(side: Side) -> None:
    driver = SinkDriver(JdbcSink, {**side.settings, **UPSERT, "delete.enabled": "true"})
    driver.start([PEOPLE])
    driver.task.put([person(0, 1, "Ada"), person(1, 2, "Bob"), person(2, 1, gone=True)])
    driver.task.put([person(3, 2, gone=True), person(4, 3, "Cid"), person(5, 2, "Bob again")])
    driver.stop()
    assert people(side) == [(2, "Bob again"), (3, "Cid")]


def test_updates_change_only_what_is_there(side: Side) -> None:
    side.run("CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(20));")
    side.run("INSERT INTO people VALUES (1, 'Ada');")
    put(
        side,
        [person(0, 1, "A"), person(1, 1, "B"), person(2, 2, "C")],
        insert_mode="update",
        pk_mode="record_value",
        pk_fields="id",
    )
    assert people(side) == [(1, "B")]


def test_the_place_in_the_log_can_be_the_key(side: Side) -> None:
    put(side, [person(7, 1, "Ada")], pk_mode="kafka", auto_create="true", insert_mode="upsert")
    rows = side.run("SELECT __connect_topic, __connect_partition, __connect_offset, id FROM people")
    assert rows == [("people", 0, 7, 1)]


def test_a_single_valued_key_gets_the_column_that_is_named(side: Side) -> None:
    schema = struct({"name": STRING})
    records = [SinkRecord("people", 0, 0, {"name": "Ada"}, schema, 5, INT32)]
    put(
        side,
        records,
        pk_mode="record_key",
        pk_fields="id",
        auto_create="true",
        insert_mode="upsert",
    )
    assert people(side) == [(5, "Ada")]


def test_new_fields_become_columns(side: Side) -> None:
    wider = struct(
        {
            "id": INT64,
            "name": OPTIONAL_STRING,
            "vip": Schema(Type.BOOLEAN, default=False),
            "debt": decimal(2, optional=True),
        }
    )
    later = {"id": 2, "name": "Bob", "vip": True, "debt": Decimal("1.50")}
    put(
        side,
        [person(0, 1, "Ada"), SinkRecord("people", 0, 1, later, wider)],
        auto_create="true",
        auto_evolve="true",
    )
    rows = side.run("SELECT id, vip, debt FROM people ORDER BY id")
    assert [(key, bool(vip), debt and Decimal(debt)) for key, vip, debt in rows] == [
        (1, False, None),
        (2, True, Decimal("1.50")),
    ]


def test_records_of_fewer_fields_leave_the_other_columns_alone(side: Side) -> None:
    narrow = SinkRecord("people", 0, 1, {"id": 1}, struct({"id": INT64}), {"id": 1}, KEY)
    driver = SinkDriver(JdbcSink, {**side.settings, **UPSERT})
    driver.start([PEOPLE])
    driver.task.put([person(0, 1, "Ada"), narrow])
    driver.stop()
    assert people(side) == [(1, "Ada")]


def test_values_without_a_schema_are_stored_by_what_they_are(side: Side) -> None:
    records = [
        SinkRecord("things", 0, 0, {"id": 1, "ratio": 0.5, "tags": ["a"], "nothing": None}),
        SinkRecord("things", 0, 1, {"id": 2, "ratio": 1, "tags": {"b": 1}}),
    ]
    put(side, records, auto_create="true")
    assert side.run("SELECT id, ratio, tags FROM things ORDER BY id") == [
        (1, 0.5, '["a"]'),
        (2, 1.0, '{"b": 1}'),
    ]


def test_only_the_wanted_fields_are_stored(side: Side) -> None:
    put(side, [person(0, 1, "Ada")], auto_create="true", fields_whitelist="name")
    assert side.run("SELECT * FROM people") == [("Ada",)]


def test_names_are_taken_literally(side: Side) -> None:
    schema = struct({'the "best"': INT64, "Select": STRING})
    put(
        side,
        [SinkRecord("Odd.Name", 0, 0, {'the "best"': 1, "Select": "x"}, schema)],
        auto_create="true",
    )
    assert side.run('SELECT "the ""best""", "Select" FROM "Odd.Name"') == [(1, "x")]


def test_a_missing_table_is_reported_with_the_nearest(side: Side) -> None:
    side.run("CREATE TABLE peoples (id INTEGER);")
    with pytest.raises(
        ConnectError, match=r"table people does not exist;.*auto.create.*Did you mean .*peoples"
    ):
        put(side, [person(0, 1)])


def test_a_missing_column_is_reported_with_the_nearest(side: Side) -> None:
    side.run("CREATE TABLE people (id INTEGER, nam VARCHAR(20));")
    with pytest.raises(ConnectError, match=r"no column name; set auto.evolve.*Did you mean nam\?"):
        put(side, [person(0, 1)])


def test_a_record_with_a_column_too_many_is_poison_and_the_others_are_stored(side: Side) -> None:
    side.run("CREATE TABLE people (id INTEGER);")
    known, more = {"id": 1}, {"id": 2, "name": "Ada"}
    records = [SinkRecord("people", 0, n, value) for n, value in enumerate((known, more, known))]
    with pytest.raises(PoisonRecord, match="no column name") as poison:
        put(side, records)
    assert poison.value.index == 1
    put(side, [records[0], records[2]])
    assert side.run("SELECT id FROM people") == [(1,), (1,)]


def test_a_record_that_the_database_refuses_is_named_and_nothing_is_stored(side: Side) -> None:
    side.run("CREATE TABLE people (id INTEGER, name VARCHAR(9) NOT NULL);")
    records = [person(n, n, None if n == 37 else "x") for n in range(100)]
    with pytest.raises(PoisonRecord) as poison:
        put(side, records)
    assert poison.value.index == 37
    assert people(side) == []
    put(side, records[:37] + records[38:])
    assert len(people(side)) == 99


def test_a_value_that_is_no_row_is_poison(side: Side) -> None:
    records = [person(0, 1, "Ada"), SinkRecord("people", 0, 1, "just text", STRING)]
    with pytest.raises(PoisonRecord, match="HoistField") as poison:
        put(side, records, auto_create="true")
    assert poison.value.index == 1


def test_a_task_that_was_replaced_stores_nothing(side: Side) -> None:
    zombie = sink(side, auto_create="true")
    zombie.start([PEOPLE])
    zombie.task.put([person(0, 0, "Ada")])
    heir = sink(side)
    assert heir.start([PEOPLE]) == {PEOPLE: 1}
    with pytest.raises(Fenced, match="owns partition 0 of topic people now"):
        zombie.task.put([person(1, 1, "twice")])
    heir.task.put([person(1, 1, "once")])
    zombie.stop()
    heir.stop()
    assert people(side) == [(0, "Ada"), (1, "once")]


def test_topics_that_a_transform_has_joined_keep_positions_of_their_own(side: Side) -> None:
    joined = [
        person(5, 1, "Ada")._replace(original_topic="a"),
        person(0, 2, "Bob")._replace(original_topic="b"),
        person(1, 3, "Cid")._replace(original_topic="b"),
    ]
    driver = sink(side, auto_create="true")
    driver.start([TopicPartition("a", 0), TopicPartition("b", 0)])
    driver.task.put(joined[:1])
    driver.task.put(joined[1:])
    driver.stop()
    assert people(side) == [(1, "Ada"), (2, "Bob"), (3, "Cid")]
    again = sink(side)
    assert again.start([TopicPartition("a", 0), TopicPartition("b", 0)]) == {
        ("a", 0): 6,
        ("b", 0): 2,
    }
    again.stop()


@pytest.mark.postgres
def test_a_user_without_the_right_to_create_tables_is_reported(postgres_side: PostgresSide) -> None:
    postgres_side.run("DROP ROLE IF EXISTS reader;")
    postgres_side.run("CREATE ROLE reader LOGIN PASSWORD 'reader-word';")
    texts = {"connection.user": "reader", "connection.password": "reader-word"}
    driver = SinkDriver(JdbcSink, {**postgres_side.settings, **texts})
    with pytest.raises(
        ConnectError, match=r"strom_connect_positions.*cannot be created: .*responded"
    ):
        driver.start([PEOPLE])
    driver.stop()


def test_two_connectors_have_positions_of_their_own(side: Side) -> None:
    put(side, [person(0, 1, "Ada")], auto_create="true")
    other = SinkDriver(JdbcSink, side.settings, name="other")
    assert other.start([PEOPLE]) == {}
    other.stop()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"insert.mode": "upsert"}, "pk.mode"),
        ({"delete.enabled": "true", "pk.mode": "record_value"}, "delete.enabled"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "pk.fields"),
        ({"pk.fields": "a"}, "pk.fields"),
        ({"connection.url": "mysql://x/y"}, "connection.url"),
        ({"insert.mod": "upsert"}, "insert.mod"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(settings, field) -> None:
    with pytest.raises(InvalidSettings) as refused:
        JdbcSinkSettings.read({"connection.url": "jdbc:sqlite:/x", **settings})
    assert field in refused.value.problems


def test_a_dot_parts_schema_and_table_only_outside_of_the_topics_name() -> None:
    assert table_of("a.b", "${topic}") == (None, "a.b")
    assert table_of("a.b", "audit.t_${topic}") == ("audit", "t_a.b")


STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.none(), st.text("abc", max_size=2)), st.booleans()),
    max_size=30,
)


@pytest.mark.parametrize("mode", ["upsert", "update"])
@hypothesis_settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS, cuts=st.lists(st.integers(1, 10), max_size=6))
def test_calls_end_as_record_by_record_would_have(sqlite_side, mode, steps, cuts) -> None:
    """However records are cut into calls; against a dict as the model."""
    sqlite_side.run(
        "DROP TABLE IF EXISTS people; DROP TABLE IF EXISTS strom_connect_positions;"
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT);"
        "INSERT INTO people VALUES (0, 'zero'), (1, 'one'), (2, 'two');"
    )
    model: dict[int, str | None] = {0: "zero", 1: "one", 2: "two"}
    records = []
    for offset, (key, name, gone) in enumerate(steps):
        records.append(person(offset, key, name, gone=gone))
        if gone:
            model.pop(key, None)
        elif mode == "upsert" or key in model:
            model[key] = name
    driver = SinkDriver(
        JdbcSink, {**sqlite_side.settings, **UPSERT, "insert.mode": mode, "delete.enabled": "true"}
    )
    driver.start([PEOPLE])
    while records:
        size = cuts.pop() if cuts else len(records)
        driver.task.put(records[:size])
        records = records[size:]
    driver.stop()
    assert dict(people(sqlite_side)) == model


def test_two_tasks_may_want_to_make_the_same_table_at_once(side: Side) -> None:
    def work(partition: int) -> None:
        driver = sink(side, auto_create="true")
        driver.start([TopicPartition("people", partition)])
        driver.put([person(0, partition, "x")._replace(partition=partition)])
        driver.stop()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert people(side) == [(0, "x"), (1, "x"), (2, "x"), (3, "x")]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_column_of_which_only_nulls_were_seen_is_added_with_its_first_value(
    side: Side, at_once: bool
) -> None:
    values = [
        {"a": None, "b": None, "c": 1},
        {"a": None, "b": 2, "c": 1},
        {"a": 3, "b": None, "c": 1},
        {"a": None, "b": None, "c": 1},
    ]
    records = [SinkRecord("t", 0, n, value, None, n, None) for n, value in enumerate(values)]
    driver = sink(side, **{**UPSERT, "pk.fields": "id", "auto.evolve": "true"})
    driver.start([TopicPartition("t", 0)])
    for part in [records] if at_once else [[record] for record in records]:
        driver.task.put(part)
    driver.stop()
    expected = [(0, None, None), (1, None, 2), (2, 3, None), (3, None, None)]
    assert side.run("SELECT id, a, b FROM t ORDER BY id") == expected


def test_a_value_without_a_column_is_refused_also_behind_nulls(side: Side) -> None:
    side.run("CREATE TABLE t (id BIGINT PRIMARY KEY, a BIGINT);")
    values: list[dict[str, Any]] = [{"a": 1, "b": None}, {"a": 1, "b": None}, {"a": 1, "b": 2}]
    records = [SinkRecord("t", 0, n, value, None, n, None) for n, value in enumerate(values)]
    with pytest.raises(PoisonRecord, match=r"no column b; set auto\.evolve") as poison:
        put(side, records, **{**UPSERT, "pk.fields": "id"})
    assert poison.value.index == 2


@pytest.mark.parametrize("key", [None, {"other": 1}])
@pytest.mark.parametrize("value", [None, {"name": "x"}])
def test_a_key_of_another_form_is_refused_alone(side: Side, key: Any, value: Any) -> None:
    side.run("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT);")
    schema = None if value is None else struct({"name": STRING})
    keys = [{"id": 1}, {"id": 2}, key, {"id": 3}]
    records = [SinkRecord("t", 0, n, value, schema, one, None) for n, one in enumerate(keys)]
    with pytest.raises(PoisonRecord, match="key") as poison:
        put(side, records, **{**UPSERT, "pk.fields": "id", "delete.enabled": "true"})
    assert poison.value.index == 2


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["insert", "upsert", "update"])
@pytest.mark.parametrize("kind", ["bit(3)", "bit varying(3)", "short", "varchar(3)[]"])
def test_a_value_that_is_too_long_is_refused_not_cut_off(
    postgres_side: PostgresSide, kind: str, mode: str
) -> None:
    postgres_side.run(
        f"CREATE DOMAIN short AS varchar(3); CREATE TABLE t (id BIGINT PRIMARY KEY, v {kind});"
    )
    if mode == "update":
        postgres_side.run("INSERT INTO t VALUES (1);")
    text = "{1010}" if kind.endswith("[]") else "1010"
    record = SinkRecord("t", 0, 0, {"v": text}, struct({"v": STRING}), {"id": 1}, KEY)
    with pytest.raises(PoisonRecord, match=r"too long|does not match"):
        put(postgres_side, [record], **{**UPSERT, "insert.mode": mode})
