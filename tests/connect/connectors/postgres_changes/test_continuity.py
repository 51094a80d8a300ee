"""A slot or a server that cannot go on where the connector stopped is refused; any other is not."""

import time
from typing import Any

import pytest

from strom.connect.api import ConnectError, RetriableError
from strom.connect.connectors.postgres_changes.connection import ReplicationConnection
from strom.connect.connectors.postgres_changes.continuity import (
    Origin,
    Slot,
    SystemIdentity,
    refuse_other_server,
    refuse_other_slot,
)
from strom.connect.connectors.postgres_changes.positions import Position
from strom.connect.connectors.postgres_changes.protocol import Keepalive
from strom.testing.connectors import SourceDriver, StoredOffsets
from tests.connect.connectors.other_side import PostgresSide
from tests.connect.connectors.postgres_changes.following import changes, following
from tools.postgres import FOR_TESTS, RealPostgres

CREATE_SLOT = "SELECT pg_create_logical_replication_slot('strom_shop', 'pgoutput')"
HISTORY = "1\t0/64\tno recovery target specified\n\n2\t0/C8\tbefore 2000-01-01\n"


@pytest.fixture
def side(postgres_server: RealPostgres) -> PostgresSide:
    side = PostgresSide(postgres_server)
    side.run("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE other (id INT PRIMARY KEY);")
    return side


def idle(driver: SourceDriver) -> None:
    """Poll until progress without records is stored."""
    before = offset_of(driver.offsets)
    task: Any = driver.tasks[0]
    for _ in range(100):
        task._send_status()  # and ask how far the server is
        task._last_idle_store = 0
        assert driver.poll() == []
        driver.store_idle_offsets()
        if offset_of(driver.offsets) != before:
            return
    raise AssertionError("no progress is stored")


def offset_of(offsets: StoredOffsets) -> Any:
    return offsets.get({"server": "shop"})


@pytest.mark.postgres
@pytest.mark.parametrize("rows", [1, 0])
def test_a_slot_that_was_recreated_is_refused(side: PostgresSide, rows: int) -> None:
    side.run(f"INSERT INTO t SELECT generate_series(1, {rows});")
    with changes(side, table_include_list="public.t") as driver:
        driver.read(rows)
        following(driver)
        if not rows:
            idle(driver)
    side.drop_slots()
    side.run("INSERT INTO t VALUES (7);")
    side.run(CREATE_SLOT)
    with (
        pytest.raises(ConnectError, match=r"slot strom_shop .* recreated .*snapshot.*/offsets"),
        changes(side, driver.offsets, table_include_list="public.t"),
    ):
        pass


@pytest.mark.postgres
def test_a_slot_that_is_recreated_while_the_server_is_away_is_refused(side: PostgresSide) -> None:
    side.run("INSERT INTO t VALUES (1);")
    with changes(side) as driver:
        driver.read(1)
        following(driver)
        side.drop_slots()
        side.run("INSERT INTO t VALUES (2);")
        side.run(CREATE_SLOT)
        with pytest.raises(ConnectError, match="recreated"):
            driver.read(1)


@pytest.mark.postgres
def test_what_is_confirmed_is_stored_also_while_only_other_tables_change(
    side: PostgresSide,
) -> None:
    """Else a slot that was moved on by confirmations could not be distinguished from one recreated."""
    with changes(side, table_include_list="public.t") as driver:
        following(driver)
        for _ in range(2):
            side.run("INSERT INTO other SELECT count(*) FROM other;")
            idle(driver)
            task: Any = driver.tasks[0]
            task._send_status()
            assert confirmed(side) <= offset_of(driver.offsets)["lsn"]
    side.run("INSERT INTO other SELECT count(*) FROM other;")
    with changes(side, driver.offsets, table_include_list="public.t") as again:
        idle(again)
    side.run("INSERT INTO t VALUES (1);")
    with changes(side, driver.offsets, table_include_list="public.t") as driver:
        assert [record.key["id"] for record in driver.read(1)] == [1]


@pytest.mark.postgres
def test_a_stop_inside_a_transaction_after_idle_time_is_no_recreated_slot(
    side: PostgresSide,
) -> None:
    for heartbeat in ("0", "1"):
        side.drop_slots()
        side.run("TRUNCATE t, other;")
        texts = {"table_include_list": "public.t", "heartbeat_interval_ms": heartbeat}
        with changes(side, **texts) as driver:
            following(driver)
            side.run("INSERT INTO other VALUES (1);")
            if heartbeat == "1":
                driver.read(1)
            else:
                idle(driver)
            task: Any = driver.tasks[0]
            task._send_status()
            side.run("INSERT INTO t VALUES (1), (2);")
            records = driver.read(2, deliver=False)
            records = [one for one in records if one.topic == "shop.public.t"]
            driver.offsets.keep(records[:1])
        with changes(side, driver.offsets, **texts) as driver:
            records = [one for one in driver.read(1) if one.topic == "shop.public.t"]
            assert [record.key["id"] for record in records] == [2]


@pytest.mark.postgres
@pytest.mark.parametrize("heartbeat", ["0", "1"])
def test_a_server_that_reads_its_log_again_does_not_move_the_offset_back(
    side: PostgresSide, heartbeat: str
) -> None:
    """A long transaction holds the slot's restart_lsn back, and keepalives begin there."""
    texts = {"table_include_list": "public.t", "heartbeat_interval_ms": heartbeat}
    with changes(side, table_include_list="public.t") as driver:
        following(driver)
        idle(driver)
    before = offset_of(driver.offsets)
    with changes(side, driver.offsets, **texts) as driver:
        task: Any = driver.tasks[0]
        records: list[Any] = []
        task._keep_alive(Keepalive(before["lsn"] - 1, wants_reply=False), records)
        assert records == []
        driver.store_idle_offsets()
        assert offset_of(driver.offsets) == before
    with changes(side, driver.offsets, **texts):
        pass


@pytest.mark.postgres
def test_a_server_is_checked_again_after_an_attempt_that_was_interrupted(
    side: PostgresSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories: list[Any] = [RetriableError("away"), ""]

    def history(self: ReplicationConnection, timeline: int) -> str:
        found = histories.pop(0)
        if isinstance(found, Exception):
            raise found
        return str(found)

    monkeypatch.setattr(ReplicationConnection, "timeline_history", history)
    with changes(side, table_include_list="public.t") as driver:
        following(driver)
        task: Any = driver.tasks[0]
        task._origin = task._origin._replace(timeline=0)
        task._disconnect()
        with pytest.raises(RetriableError):
            task.poll()
        with pytest.raises(ConnectError, match="timeline"):
            task.poll()


@pytest.mark.postgres
def test_an_offset_of_the_first_release_is_resumed(side: PostgresSide) -> None:
    """It confirmed idle progress that it had not stored: then the slot is ahead, and it is no loss."""
    with changes(side, table_include_list="public.t") as driver:
        following(driver)
        lsn = confirmed(side)
        side.run("INSERT INTO other VALUES (1);")
        idle(driver)
    assert confirmed(side) > lsn
    offsets = StoredOffsets()
    offsets.keep_pairs([({"server": "shop"}, {"lsn": lsn})])
    side.run("INSERT INTO t VALUES (1), (2);")
    with changes(side, offsets, table_include_list="public.t") as driver:
        records = driver.read(2, deliver=False)
    assert [record.key["id"] for record in records] == [1, 2]
    offsets.keep(records[:1])
    assert offset_of(offsets)["system"]
    with changes(side, offsets, table_include_list="public.t") as driver:
        assert [record.key["id"] for record in driver.read(1)] == [2]


@pytest.mark.postgres
@pytest.mark.parametrize("heartbeat", ["0", "3600000"])
def test_the_server_shuts_down_though_the_connector_is_connected(heartbeat: str) -> None:
    """It waits until everything is confirmed, so what it asks for is stored at once."""
    with RealPostgres(settings=FOR_TESTS) as server:
        own = PostgresSide(server)
        own.run("CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE other (id INT PRIMARY KEY);")
        own.run("INSERT INTO t VALUES (1);")
        texts = {"table_include_list": "public.t", "heartbeat_interval_ms": heartbeat}
        with changes(own, database_password="", **texts) as driver:
            driver.read(1)
            following(driver)
            own.run("INSERT INTO other VALUES (1);")
            ending = server.begin_stop()
            task: Any = driver.tasks[0]
            task._last_idle_store = time.monotonic() + 3600
            polls = 0
            while ending.poll() is None and polls < 20:
                polls += 1
                try:
                    task.poll()
                except ConnectError:
                    break
                driver.store_idle_offsets()
            assert ending.wait(20) == 0
            server.start()


@pytest.mark.postgres
@pytest.mark.soak
def test_a_promoted_server_goes_on_and_another_one_is_refused() -> None:
    settings = {"table_include_list": "public.t", "database_password": ""}
    with RealPostgres(settings=FOR_TESTS) as server:
        side = PostgresSide(server)
        side.run("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")
        with changes(side, **settings) as driver:
            driver.read(1)
            following(driver)
            assert offset_of(driver.offsets)["timeline"] == 1
        server.stop()
        server.begin_new_timeline()
        server.start()
        while side.run("SELECT pg_is_in_recovery()") == [(True,)]:
            time.sleep(0.05)
        side.run("INSERT INTO t VALUES (2);")
        with changes(side, driver.offsets, **settings) as driver:
            assert [record.key["id"] for record in driver.read(1)] == [2]
            assert offset_of(driver.offsets)["timeline"] == 2
        server.close()
        server.start()
        side = PostgresSide(server)
        side.run("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);")
        side.run(CREATE_SLOT)
        with (
            pytest.raises(ConnectError, match=r"system identifier .* another server.*/offsets"),
            changes(side, driver.offsets, **settings),
        ):
            pass


def server(timeline: int, lsn: int = 1000) -> SystemIdentity:
    return SystemIdentity("7", timeline, lsn)


def refuse(position: Position, stored: Origin | None, present: SystemIdentity) -> None:
    refuse_other_server(position, stored, present, lambda timeline: HISTORY)


def test_a_timeline_that_forked_before_the_position_is_refused() -> None:
    refuse(Position(100), Origin("7", 1), server(3))
    refuse(Position(200), Origin("7", 2), server(3))
    refuse(Position(300), Origin("7", 3), server(3))
    for position, timeline in (
        (Position(101), 1),
        (Position(100, 150, 1), 1),
        (Position(201), 2),
        (Position(9), 4),
    ):
        with pytest.raises(ConnectError, match=r"timeline .*/offsets"):
            refuse(position, Origin("7", timeline), server(3))


def test_a_server_that_is_behind_the_position_is_refused() -> None:
    refuse(Position(1000), None, server(1))
    for stored in (None, Origin("7", 1)):
        with pytest.raises(ConnectError, match=r"0/3E8.* restored .*/offsets"):
            refuse(Position(1001), stored, server(1))


def test_a_slot_that_lost_its_log_is_refused() -> None:
    refuse_other_slot("s", Slot(100, lost=False), Position(100))
    refuse_other_slot("s", Slot(90, lost=False), Position(100))
    for slot, text in (
        (None, "is gone"),
        (Slot(100, lost=True), "pg_drop_replication_slot"),
        (Slot(101, lost=False), "recreated"),
    ):
        with pytest.raises(ConnectError, match=text):
            refuse_other_slot("s", slot, Position(100))


def confirmed(side: PostgresSide) -> int:
    ((lsn,),) = side.run("SELECT (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots")
    return int(lsn)
