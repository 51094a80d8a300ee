"""What happens to tables comes out as it happened: every kind of change, every kind of interruption."""

import asyncio
import random
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from strom.connect.api import ConnectError, RetriableError, SourceRecord, Type
from strom.connect.connectors.postgres_changes.protocol import md5_password
from strom.connect.connectors.postgres_changes.settings import PostgresChangesSettings
from strom.connect.connectors.postgres_changes.source import PostgresChanges
from strom.testing.connectors import SourceDriver, StoredOffsets
from tests.connect.connectors.other_side import PostgresSide
from tests.connect.connectors.postgres_changes.following import changes, following, summaries
from tests.connect.connectors.postgres_values import POSTGRES_TYPES
from tools.postgres import FOR_TESTS, RealPostgres

pytestmark = pytest.mark.postgres


@pytest.fixture
def side(postgres_server: RealPostgres) -> PostgresSide:
    return PostgresSide(postgres_server)


def test_every_kind_of_change_is_captured(side: PostgresSide) -> None:
    side.run(
        "CREATE TABLE pets (id INT PRIMARY KEY, name TEXT); INSERT INTO pets VALUES (1, 'Ida');"
    )
    with changes(side) as driver:
        snapshot = driver.read(1)
        following(driver)
        side.run("INSERT INTO pets VALUES (2, 'Oz');")
        side.run("UPDATE pets SET name = 'Ozzy' WHERE id = 2;")
        side.run("UPDATE pets SET id = 3 WHERE id = 2;")
        side.run("DELETE FROM pets WHERE id = 1;")
        side.run("TRUNCATE pets;")
        records = driver.read(8)
    assert summaries(snapshot) == [("r", None, {"id": 1, "name": "Ida"})]
    assert summaries(records) == [
        ("c", None, {"id": 2, "name": "Oz"}),
        ("u", None, {"id": 2, "name": "Ozzy"}),
        ("d", {"id": 2, "name": None}, None),
        ("tombstone", {"id": 2}),
        ("c", None, {"id": 3, "name": "Ozzy"}),
        ("d", {"id": 1, "name": None}, None),
        ("tombstone", {"id": 1}),
        ("t", None, None),
    ]
    assert {record.topic for record in snapshot + records} == {"shop.public.pets"}
    source = records[0].value["source"]
    assert (source["table"], source["schema"], source["snapshot"]) == ("pets", "public", "false")
    assert source["lsn"] > 0
    assert source["txId"] > 0
    assert abs(source["ts_ms"] - time.time() * 1000) < 60_000
    assert records[0].key_schema.name == "shop.public.pets.Key"
    assert records[0].value_schema.name == "shop.public.pets.Envelope"


def test_the_whole_row_before_is_captured_with_full_identity(side: PostgresSide) -> None:
    side.run(
        "CREATE TABLE pets (id INT PRIMARY KEY, name TEXT); ALTER TABLE pets REPLICA IDENTITY FULL;"
        "INSERT INTO pets VALUES (1, 'Ida');"
    )
    with changes(side, tombstones_on_delete="false") as driver:
        driver.read(1)
        following(driver)
        side.run("UPDATE pets SET name = 'Ada'; DELETE FROM pets;")
        records = driver.read(2)
    assert summaries(records) == [
        ("u", {"id": 1, "name": "Ida"}, {"id": 1, "name": "Ada"}),
        ("d", {"id": 1, "name": "Ada"}, None),
    ]
    assert [record.key for record in records] == [{"id": 1}, {"id": 1}]


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_long_value_that_was_not_touched(side: PostgresSide, identity: str) -> None:
    long = "".join(random.Random(1).choices("abcdefghij0123456789", k=20_000))
    side.run(
        f"CREATE TABLE docs (id INT PRIMARY KEY, n INT, body TEXT); "
        f"ALTER TABLE docs REPLICA IDENTITY {identity}; INSERT INTO docs VALUES (1, 1, '{long}');"
    )
    with changes(side) as driver:
        driver.read(1)
        following(driver)
        side.run("UPDATE docs SET n = 2;")
        (record,) = driver.read(1)
    expected = long if identity == "FULL" else "__debezium_unavailable_value"
    assert record.value["after"] == {"id": 1, "n": 2, "body": expected}


def test_a_table_that_changes_its_shape_is_followed(side: PostgresSide) -> None:
    side.run("CREATE TABLE pets (id INT PRIMARY KEY);")
    with changes(side) as driver:
        following(driver)
        side.run("INSERT INTO pets VALUES (1);")
        side.run("ALTER TABLE pets ADD COLUMN age NUMERIC(5, 2);")
        side.run("INSERT INTO pets VALUES (2, 1.5);")
        first, second = driver.read(2)
    assert first.value["after"] == {"id": 1}
    assert str(second.value["after"]["age"]) == "1.50"
    assert second.value_schema.field("after").schema.field("age")


def test_only_the_tables_that_are_named_are_followed(side: PostgresSide) -> None:
    side.run(
        "CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY);"
        "INSERT INTO a VALUES (1); INSERT INTO b VALUES (2);"
    )
    with changes(side, table_include_list=r"public\.a") as driver:
        records = driver.read(1)
        following(driver)
        side.run("INSERT INTO b VALUES (3); INSERT INTO a VALUES (4);")
        records += driver.read(1)
    assert [record.value["after"] for record in records] == [{"id": 1}, {"id": 4}]


def test_partitions_are_captured_as_their_table(side: PostgresSide) -> None:
    side.run(
        "CREATE TABLE log (id INT PRIMARY KEY) PARTITION BY RANGE (id);"
        "CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM (0) TO (10);"
    )
    with changes(side) as driver:
        following(driver)
        side.run("INSERT INTO log VALUES (1);")
        (record,) = driver.read(1)
    assert record.topic == "shop.public.log"


def test_types_are_the_same_in_snapshot_and_stream(side: PostgresSide) -> None:
    columns = ", ".join(f"c{n} {kind}" for n, (kind, *_) in enumerate(POSTGRES_TYPES))
    values = ", ".join(literal for _, literal, *_ in POSTGRES_TYPES)
    side.run(
        "CREATE TYPE mood AS ENUM ('good'); CREATE DOMAIN price AS numeric(6, 2);"
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns}, moods mood[]);"
        f"INSERT INTO t VALUES (1, {values}, '{{good,NULL}}');"
    )
    with changes(side) as driver:
        (read,) = driver.read(1)
        following(driver)
        side.run("UPDATE t SET id = id + 1;")
        *_, created = driver.read(3)
    assert read.value_schema == created.value_schema
    assert {**read.value["after"], "id": 2} == created.value["after"]
    assert created.value["after"]["moods"] == ["good", None]
    for n, (kind, _, value, _) in enumerate(POSTGRES_TYPES):
        if kind != "inet":
            assert created.value["after"][f"c{n}"] == value, kind


def test_arrays_of_several_dimensions_are_lists_of_lists_or_refused(side: PostgresSide) -> None:
    side.run(
        "CREATE TABLE t (id INT PRIMARY KEY, flat INT[], deep INT[][]);"
        "INSERT INTO t VALUES (1, '{1}', '{{1,2},{3,NULL}}'), (2, '{}', '{}');"
    )
    with changes(side) as driver:
        read = driver.read(2)
        following(driver)
        side.run("INSERT INTO t VALUES (3, '{NULL}', '{{1},{2}}');")
        (created,) = driver.read(1)
        side.run("INSERT INTO t VALUES (4, '{{1,2}}', NULL);")
        with pytest.raises(ConnectError, match=r"flat of table public.t.* 2 dimensions.*exclude"):
            driver.read(1)
    assert [record.value["after"]["deep"] for record in read] == [[[1, 2], [3, None]], []]
    assert created.value["after"] == {"id": 3, "flat": [None], "deep": [[1], [2]]}
    deep = created.value_schema.field("after").schema.field("deep").schema
    assert deep.value.value.type is Type.INT32


def test_a_value_that_cannot_be_converted_is_refused_with_its_column(side: PostgresSide) -> None:
    side.run("CREATE TABLE t (id INT PRIMARY KEY, n NUMERIC(5, 2));")
    with changes(side) as driver:
        following(driver)
        side.run("INSERT INTO t VALUES (1, 'NaN');")
        with pytest.raises(ConnectError, match=r"Column n of table public.t.*NaN.*1700::regtype"):
            driver.read(1)


def test_a_transaction_that_is_longer_than_a_batch_is_resumed_in_its_middle(
    side: PostgresSide,
) -> None:
    side.run("CREATE TABLE t (id INT PRIMARY KEY);")
    with changes(side) as driver:
        following(driver)
        side.run("INSERT INTO t SELECT generate_series(1, 3000);")
        side.run("INSERT INTO t VALUES (3001);")
        records = driver.read(3001, deliver=False)
    for cut in (1, 1234, 2999, 3000):
        offsets = StoredOffsets()
        offsets.keep(records[:cut])
        with changes(side, offsets) as driver:
            again = driver.read(3001 - cut, deliver=False)
        assert [record.key["id"] for record in again] == [*range(cut + 1, 3002)]


def test_what_is_delivered_is_let_go_and_what_is_not_is_kept(side: PostgresSide) -> None:
    side.run("CREATE TABLE t (id INT PRIMARY KEY);")
    with changes(side) as driver:
        following(driver)
        side.run("INSERT INTO t VALUES (1);")
        (record,) = driver.read(1, deliver=False)
        task: Any = driver.tasks[0]
        task._send_status()
        assert confirmed(side) <= record.value["source"]["lsn"]
        task.delivered(driver.offsets.keep([record]))
        task._send_status()
        until(lambda: confirmed(side) >= record.source_offset["lsn"])


def test_an_idle_reader_lets_go_of_what_happens_elsewhere(side: PostgresSide) -> None:
    side.run("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE other (id INT PRIMARY KEY);")
    with changes(side, table_include_list="public.t") as driver:
        following(driver)
        side.run("INSERT INTO other SELECT generate_series(1, 1000);")
        ((end,),) = side.run("SELECT (pg_current_wal_lsn() - '0/0')::int8")

        task: Any = driver.tasks[0]

        def is_let_go() -> bool:
            task._send_status()
            driver.poll()
            driver.store_idle_offsets()
            return bool(confirmed(side) >= end)

        until(is_let_go)


def test_heartbeats_say_how_far_it_is(side: PostgresSide) -> None:
    side.run("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE other (id INT PRIMARY KEY);")
    with changes(side, table_include_list="public.t", heartbeat_interval_ms="50") as driver:
        following(driver)
        side.run("INSERT INTO other VALUES (1);")
        (record, *_) = driver.read(1)
    assert record.topic == "__debezium-heartbeat.shop"
    assert record.source_offset["lsn"] > 0


def confirmed(side: PostgresSide) -> int:
    ((lsn,),) = side.run("SELECT (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots")
    return int(lsn)


def until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_lost_slot_is_reported(side: PostgresSide) -> None:
    side.run("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")
    with changes(side) as driver:
        driver.read(1)
    side.drop_slots()
    with pytest.raises(ConnectError, match=r"slot strom_shop is gone.*offsets"):  # noqa: SIM117
        with changes(side, driver.offsets):
            pass


def test_a_slot_that_is_in_use_is_waited_for(side: PostgresSide) -> None:
    side.run("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")
    with changes(side) as driver:
        driver.read(1)
        following(driver)
        second = SourceDriver(PostgresChanges, side.change_settings, driver.offsets)
        with pytest.raises(RetriableError, match="Another client uses the slot"):
            second.tasks[0].start()
        second.stop()


def test_a_table_without_a_key_is_refused(side: PostgresSide) -> None:
    side.run("CREATE TABLE t (id INT);")
    with pytest.raises(ConnectError, match=r"public.t has no primary key.*REPLICA IDENTITY FULL"):  # noqa: SIM117
        with changes(side):
            pass
    side.run("INSERT INTO t VALUES (1); UPDATE t SET id = 2;")


def test_an_unknown_table_is_reported_with_the_nearest(side: PostgresSide) -> None:
    side.run("CREATE TABLE orders (id INT PRIMARY KEY);")
    texts = {**side.change_settings, "table.include.list": "public.order"}
    problems = PostgresChanges(PostgresChangesSettings.read(texts)).check()
    assert "Did you mean public.orders?" in problems["table.include.list"]


def test_a_user_without_the_right_is_reported(side: PostgresSide) -> None:
    side.run("DROP ROLE IF EXISTS weak;")
    side.run("CREATE ROLE weak LOGIN PASSWORD 'weak-word';")
    texts = {**side.change_settings, "database.user": "weak", "database.password": "weak-word"}
    problems = PostgresChanges(PostgresChangesSettings.read(texts)).check()
    assert "ALTER ROLE" in problems["database.user"]
    texts["database.password"] = "wr0ng-w0rd"
    problems = PostgresChanges(PostgresChangesSettings.read(texts)).check()
    assert "password authentication failed" in problems["database.hostname"]
    assert "wr0ng-w0rd" not in str(problems)


def test_a_server_that_writes_no_changes_is_reported() -> None:
    with RealPostgres(settings={**FOR_TESTS, "wal_level": "replica"}) as server:
        side = PostgresSide(server)
        side.run("CREATE TABLE t (id INT PRIMARY KEY);")
        texts = {name: text for name, text in side.change_settings.items() if text}
        problems = PostgresChanges(PostgresChangesSettings.read(texts)).check()
        assert "wal_level = logical" in problems["database.hostname"]
        driver = SourceDriver(PostgresChanges, texts)
        with pytest.raises(ConnectError, match="wal_level = logical"):
            driver.tasks[0].start()
        driver.stop()


def test_a_server_that_goes_away_under_the_reader_is_waited_for(side: PostgresSide) -> None:
    with RealPostgres(settings=FOR_TESTS) as server:
        own = PostgresSide(server)
        own.run("CREATE TABLE t (id INT PRIMARY KEY);")
        texts = {name: text for name, text in own.change_settings.items() if text}
        driver = SourceDriver(PostgresChanges, texts)
        driver.start()
        following(driver)
        own.run("INSERT INTO t VALUES (1);")
        records = driver.read(1)
        server.stop("immediate")
        with pytest.raises(RetriableError):
            driver.tasks[0].poll()
        server.start()
        own.run("INSERT INTO t VALUES (2);")
        records += driver.read(1)
        driver.stop()
    assert [record.key["id"] for record in records] == [1, 2]


def test_the_old_proof_of_a_password_is_what_the_server_computes(side: PostgresSide) -> None:
    ((expected,),) = side.run("SELECT 'md5' || md5(md5('secret' || 'user') || 'salt')")
    assert md5_password("user", "secret", b"salt") == expected


class Copy:
    """An empty copy of a table, to which changes are applied."""

    def __init__(self) -> None:
        self.rows: dict[int, Any] = {}

    def apply(self, records: Iterable[SourceRecord]) -> None:
        for record in records:
            if record.value is None:
                assert record.key["id"] not in self.rows
                continue
            match record.value["op"]:
                case "r" | "c" | "u":
                    self.rows[record.value["after"]["id"]] = record.value["after"]["v"]
                case "d":
                    self.rows.pop(record.value["before"]["id"], None)
                case "t":
                    self.rows.clear()


STATEMENTS = (
    "INSERT INTO t VALUES ({k}, {v}) ON CONFLICT (id) DO UPDATE SET v = {v}",
    "UPDATE t SET v = {v} WHERE id >= {k}",
    "UPDATE t SET id = id + 100 WHERE id = {k} AND NOT EXISTS (SELECT 1 FROM t WHERE id = {k} + 100)",
    "DELETE FROM t WHERE id = {k}",
    "TRUNCATE t",
)
TRANSACTION = st.tuples(
    st.lists(
        st.tuples(
            st.sampled_from(STATEMENTS[:4] * 5 + STATEMENTS[4:]),
            st.integers(1, 6),
            st.one_of(st.just("NULL"), st.integers(0, 99).map(lambda n: f"'{n}'")),
        ),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)


async def run_together(side: PostgresSide, scripts: list[list[Any]]) -> None:
    """Each script's transactions one after the other, all scripts at once."""

    async def run(script: list[Any]) -> None:
        connection = await side.connect()
        for statements, commits in script:
            transaction = connection.transaction()
            await transaction.start()
            try:
                for statement, key, value in statements:
                    await connection.execute(statement.format(k=key, v=value))
                await (transaction.commit() if commits else transaction.rollback())
            except side.conflicts:
                await transaction.rollback()
        await connection.close()

    await asyncio.gather(*(run(script) for script in scripts))


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
@hypothesis_settings(
    deadline=None,
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    scripts=st.lists(st.lists(TRANSACTION, min_size=1, max_size=4), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 30), max_size=3),
)
def test_changes_applied_to_a_copy_make_it_the_table(side, identity, scripts, cuts) -> None:
    """Under transactions at once, and with readers that end after any record."""
    side.run(
        "DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS done; CREATE TABLE t (id INT PRIMARY KEY, v TEXT);"
        "CREATE TABLE done (id INT PRIMARY KEY); INSERT INTO t VALUES (1, 'a'), (5, NULL);"
        f"ALTER TABLE t REPLICA IDENTITY {identity};"
    )
    side.drop_slots()
    copy = Copy()
    offsets = StoredOffsets()
    with changes(side, offsets) as driver:
        copy.apply(driver.read(2))
    asyncio.run(run_together(side, scripts))
    side.run("INSERT INTO done VALUES (1);")
    is_over = False
    while not is_over:
        wanted = cuts.pop() if cuts else 1 << 30
        with changes(side, offsets) as driver:
            taken = 0
            while taken < wanted and not is_over:
                records = driver.poll()[: wanted - taken]
                taken += len(records)
                offsets.keep(records)
                is_over = any(record.topic == "shop.public.done" for record in records)
                copy.apply(record for record in records if record.topic == "shop.public.t")
    assert copy.rows == dict(side.run("SELECT id, v FROM t"))
