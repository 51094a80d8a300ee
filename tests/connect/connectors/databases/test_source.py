"""Rows become records: what is new, what has changed, of several tables."""

import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest

from strom.connect.api import ConnectError, InvalidSettings, RetriableError
from strom.connect.connectors.databases.source import JdbcSource
from strom.connect.connectors.databases.source_settings import JdbcSourceSettings
from strom.testing.connectors import SourceDriver, StoredOffsets
from tests.connect.connectors.other_side import PostgresSide, Side, SqliteSide

QUICK = {"topic.prefix": "db-", "poll.interval.ms": "20"}


def settings(side: Side, **texts: str) -> dict[str, str]:
    return {
        **side.settings,
        **QUICK,
        **{name.replace("_", "."): text for name, text in texts.items()},
    }


@contextlib.contextmanager
def source(side: Side, offsets: StoredOffsets | None = None, max_tasks: int = 1, **texts: str):
    driver = SourceDriver(JdbcSource, settings(side, **texts), offsets, max_tasks=max_tasks)
    try:
        driver.start()
        yield driver
    finally:
        driver.stop()


def make_log(side: Side) -> None:
    side.run("CREATE TABLE log (id INTEGER NOT NULL PRIMARY KEY, at TIMESTAMP NOT NULL);")


def log(side: Side, *rows: tuple[int, str]) -> None:
    side.run("".join(f"INSERT INTO log VALUES ({key}, '{at}');" for key, at in rows))


def keys(records: Any) -> list[int]:
    return [record.value["id"] for record in records]


def test_rows_of_one_moment_are_not_parted_though_a_batch_is_full(side: Side) -> None:
    make_log(side)
    moments = ["2026-01-01 00:00:01"] * 3 + ["2026-01-01 00:00:02"] * 9 + ["2026-01-01 00:00:03"]
    log(side, *enumerate(moments))
    with source(side, mode="timestamp", timestamp_column_name="at", batch_max_rows="5") as driver:
        batches = [driver.poll() for _ in range(3)]
        assert [len(batch) for batch in batches] == [3, 9, 1]
        offsets = driver.offsets
        offsets.keep(batches[0] + batches[1][:8])
    with source(side, offsets, mode="timestamp", timestamp_column_name="at") as driver:
        # In the middle of a moment: its rows come again, and none is left out.
        assert sorted(keys(driver.read(10))) == [*range(3, 13)]


def test_equal_times_are_told_apart_by_the_growing_column(side: Side) -> None:
    make_log(side)
    log(side, *((key, "2026-01-01 00:00:01") for key in range(10)))
    with source(
        side,
        mode="timestamp+incrementing",
        timestamp_column_name="at",
        incrementing_column_name="id",
        batch_max_rows="4",
    ) as driver:
        assert keys(driver.poll()) == [0, 1, 2, 3]
        assert keys(driver.read(6)) == [4, 5, 6, 7, 8, 9]


def test_a_changed_row_is_read_again_by_its_time(side: Side) -> None:
    make_log(side)
    log(side, (1, "2026-01-01 00:00:01"), (2, "2026-01-01 00:00:02"))
    with source(side, mode="timestamp+incrementing", timestamp_column_name="at") as driver:
        assert keys(driver.read(2)) == [1, 2]
        side.run("UPDATE log SET at = '2026-01-01 00:00:05' WHERE id = 1;")
        assert keys(driver.read(1)) == [1]
        assert driver.poll() == []


def test_the_future_is_not_read_yet(side: Side) -> None:
    make_log(side)
    log(side, (1, "2026-01-01 00:00:01"), (2, "2999-01-01 00:00:00"))
    with source(side, mode="timestamp", timestamp_column_name="at") as driver:
        assert keys(driver.read(1)) == [1]
        assert driver.poll() == []


def test_everything_is_read_again_and_again_in_bulk(side: Side) -> None:
    make_log(side)
    log(side, (1, "2026-01-01 00:00:01"), (2, "2026-01-01 00:00:02"), (3, "2026-01-01 00:00:03"))
    with source(side, mode="bulk", batch_max_rows="2") as driver:
        assert sorted(keys(driver.read(6))) == [1, 1, 2, 2, 3, 3]


def test_a_query_is_read_in_bulk(side: Side) -> None:
    with source(side, mode="bulk", query="SELECT 1 AS id", topic_prefix="ones") as driver:
        assert keys(driver.read(3)) == [1, 1, 1]


DAY = str(24 * 60 * 60 * 1000)


@pytest.mark.postgres
@pytest.mark.parametrize("noticed", [False, True])
def test_a_table_is_read_again_at_once_if_the_connection_was_lost_halfway(
    postgres_side: PostgresSide, noticed: bool
) -> None:
    make_log(postgres_side)
    log(postgres_side, *((key, "2026-01-01 00:00:01") for key in range(6)))
    with source(postgres_side, mode="bulk", batch_max_rows="2", poll_interval_ms=DAY) as driver:
        (task,) = driver.tasks
        assert len(task.poll()) == 2
        terminate_others(postgres_side)
        if noticed:  # before the next poll, which then connects again by itself
            with contextlib.suppress(ConnectError):
                task._database.read("SELECT 1")
        with pytest.raises(RetriableError):
            task.poll()
        assert keys(driver.read(6)) == [0, 1, 2, 3, 4, 5]
        assert task.poll() == []


@pytest.mark.postgres
def test_another_table_has_its_turn_before_one_that_failed_is_read_again(
    postgres_side: PostgresSide,
) -> None:
    for table in ("a", "b"):
        postgres_side.run(f"CREATE TABLE {table} AS SELECT generate_series(1, 4) AS id;")
    with source(postgres_side, mode="bulk", batch_max_rows="2", poll_interval_ms=DAY) as driver:
        assert driver.poll()[0].topic == "db-a"
        terminate_others(postgres_side)
        topics = [record.topic for record in driver.read(8)]
    assert topics == ["db-b"] * 4 + ["db-a"] * 4


def terminate_others(side: PostgresSide) -> None:
    side.run(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["bulk", "incrementing"])
def test_tables_of_the_same_name_in_two_schemas_are_both_read(
    postgres_side: PostgresSide, mode: str
) -> None:
    postgres_side.run("DROP SCHEMA IF EXISTS archive CASCADE; CREATE SCHEMA archive;")
    make_log(postgres_side)
    log(postgres_side, (1, "2026-01-01"))
    postgres_side.run(
        "CREATE TABLE archive.log (id int PRIMARY KEY); INSERT INTO archive.log VALUES (2);"
    )
    try:
        with source(postgres_side, mode=mode, poll_interval_ms=DAY) as driver:
            records = driver.read(2)
        several = pytest.raises(
            ConnectError, match=r"The table name log is ambiguous: archive\.log, public\.log"
        )
        with several, source(postgres_side, mode=mode, table_whitelist="log"):
            pass
    finally:
        postgres_side.run("DROP SCHEMA archive CASCADE;")
    assert {record.topic for record in records} == {"db-log"}
    assert {(record.source_partition["table"], record.value["id"]) for record in records} == {
        ("public.log", 1),
        ("archive.log", 2),
    }


def test_tables_are_assigned_to_tasks(side: Side) -> None:
    for table in ("a", "b", "c"):
        side.run(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY); INSERT INTO {table} VALUES (1);")
    with source(side, mode="incrementing", max_tasks=2, table_blacklist="c") as driver:
        assert [len(task.settings.tables) for task in driver.tasks] == [1, 1]
        assert sorted(record.topic for record in driver.read(2)) == ["db-a", "db-b"]


def test_a_query_is_read_like_a_table(side: Side) -> None:
    make_log(side)
    log(side, (1, "2026-01-01 00:00:01"), (2, "2026-01-01 00:00:02"))
    query = "SELECT id, id * 10 AS ten FROM log"
    with source(
        side, mode="incrementing", incrementing_column_name="id", query=query, topic_prefix="tens"
    ) as driver:
        records = driver.read(2)
    assert [record.value for record in records] == [{"id": 1, "ten": 10}, {"id": 2, "ten": 20}]
    assert {record.topic for record in records} == {"tens"}


@pytest.mark.parametrize(
    ("granularity", "value"),
    [
        ("connect_logical", datetime(2026, 1, 1, 0, 0, 1, 234567, tzinfo=UTC)),
        ("micros_long", 1_767_225_601_234_567),
        ("micros_string", "1767225601234567"),
        ("micros_iso_datetime_string", "2026-01-01T00:00:01.234567"),
    ],
)
def test_times_may_keep_their_microseconds(side: Side, granularity: str, value: Any) -> None:
    make_log(side)
    log(side, (1, "2026-01-01 00:00:01.234567"))
    with source(side, mode="incrementing", timestamp_granularity=granularity) as driver:
        (record,) = driver.read(1)
    assert record.value["at"] == value


def test_a_new_column_is_in_the_next_records(side: Side) -> None:
    make_log(side)
    log(side, (1, "2026-01-01 00:00:01"))
    with source(side, mode="incrementing") as driver:
        assert "extra" not in driver.read(1)[0].value
        side.run(
            "ALTER TABLE log ADD COLUMN extra TEXT; INSERT INTO log VALUES (2, '2026-01-01', 'x');"
        )
        (record,) = driver.read(1)
    assert record.value["extra"] == "x"
    assert record.value_schema.field("extra")


def test_the_schema_stays_the_same_object_while_the_table_stays_the_same(side: Side) -> None:
    make_log(side)
    log(side, (1, "2026-01-01 00:00:01"), (2, "2026-01-01 00:00:02"))
    with source(side, mode="incrementing", batch_max_rows="1") as driver:
        first, second = driver.read(2)
    assert first.value_schema is second.value_schema


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ({"table_whitelist": "lag"}, r"table lag does not exist\. Did you mean .*log"),
        ({"incrementing_column_name": "idd"}, r"no column idd, .*Did you mean id\?"),
        ({"mode": "timestamp", "timestamp_column_name": "maybe"}, "is nullable.*validate.non.null"),
    ],
)
def test_what_is_not_there_is_reported_with_the_nearest(side: Side, texts, told) -> None:
    side.run("CREATE TABLE log (id INTEGER NOT NULL PRIMARY KEY, maybe TIMESTAMP);")
    texts = {"mode": "incrementing", **texts}
    connector = JdbcSource(JdbcSourceSettings.read(settings(side, **texts)))
    (problem,) = connector.check().values()
    with pytest.raises(ConnectError, match=told), source(side, **texts):
        pass
    with pytest.raises(ConnectError, match=told):
        raise ConnectError(problem)


def test_good_settings_have_no_problems(side: Side) -> None:
    make_log(side)
    texts = settings(side, mode="incrementing", table_whitelist="log")
    assert JdbcSource(JdbcSourceSettings.read(texts)).check() == {}


@pytest.mark.parametrize(
    ("texts", "field"),
    [
        ({"mode": "incremental"}, "mode"),
        ({"mode": "timestamp"}, "timestamp.column.name"),
        ({"mode": "bulk", "timestamp.column.name": "at"}, "mode"),
        ({"mode": "bulk", "query": "SELECT 1", "table.whitelist": "a"}, "query"),
        ({"mode": "bulk", "connection.url": "postgresql://host:port/x"}, "connection.url"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(texts, field) -> None:
    with pytest.raises(InvalidSettings) as refused:
        JdbcSourceSettings.read({"connection.url": "jdbc:sqlite:/x", "topic.prefix": "x", **texts})
    assert field in refused.value.problems


@pytest.mark.postgres
def test_a_wrong_password_is_reported_without_showing_it(postgres_side: PostgresSide) -> None:
    texts = settings(postgres_side, mode="bulk", connection_password="wr0ng-w0rd")
    problems = JdbcSource(JdbcSourceSettings.read(texts)).check()
    assert "password authentication failed" in problems["connection.url"]
    assert "wr0ng-w0rd" not in str(problems)


def test_a_value_that_its_type_does_not_have_is_reported(sqlite_side: SqliteSide) -> None:
    sqlite_side.run(
        "CREATE TABLE log (id INTEGER PRIMARY KEY, n INT); INSERT INTO log VALUES (1, 'x');"
    )
    with (
        source(sqlite_side, mode="incrementing") as driver,
        pytest.raises(ConnectError, match="Column n is declared INT, but contains an invalid str"),
    ):
        driver.poll()


def test_an_away_database_is_no_problem_at_creation() -> None:
    texts = {"connection.url": "postgresql://127.0.0.1:9/x", "mode": "bulk", "topic.prefix": "a"}
    connector = JdbcSource(JdbcSourceSettings.read(texts))
    assert connector.check() == {}
    with pytest.raises(RetriableError, match=r"PostgreSQL 127\.0\.0\.1:9/x is unavailable"):
        connector.task_settings(1)
