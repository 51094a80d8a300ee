"""A stop after any record of a transaction neither repeats nor skips a record."""

from collections.abc import Sequence
from typing import Any

import pytest

from strom.connect.api import SourceRecord
from strom.connect.connectors.postgres_changes.pgoutput import Begin
from strom.connect.connectors.postgres_changes.positions import Position, StreamProgress
from strom.connect.connectors.postgres_changes.protocol import EPOCH, Keepalive
from strom.testing.connectors import StoredOffsets
from tests.connect.connectors.other_side import PostgresSide
from tests.connect.connectors.postgres_changes.following import changes, following, summaries
from tools.postgres import RealPostgres

TRANSACTION = """
BEGIN;
INSERT INTO a VALUES (1, 'x'), (2, 'y');
UPDATE a SET v = 'z' WHERE id = 1;
UPDATE a SET id = 3 WHERE id = 2;
INSERT INTO b VALUES (1);
DELETE FROM a WHERE id = 3;
DELETE FROM b;
INSERT INTO a VALUES (4, 'x');
TRUNCATE a, b;
DELETE FROM a;
INSERT INTO b VALUES (5);
COMMIT;
"""
RECORDS = 2 + 1 + 3 + 1 + 2 + 2 + 1 + 2 + 1


@pytest.fixture
def side(postgres_server: RealPostgres) -> PostgresSide:
    return PostgresSide(postgres_server)


def identified(records: Sequence[SourceRecord]) -> list[tuple[Any, ...]]:
    return [
        (record.topic, *one, record.value and record.value["source"]["lsn"])
        for record, one in zip(records, summaries(records), strict=True)
    ]


@pytest.mark.postgres
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_stop_after_any_record_of_a_transaction_repeats_and_skips_nothing(
    side: PostgresSide, identity: str
) -> None:
    side.run(
        "CREATE TABLE a (id INT PRIMARY KEY, v TEXT); CREATE TABLE b (id INT PRIMARY KEY);"
        f"ALTER TABLE a REPLICA IDENTITY {identity};"
    )
    with changes(side) as driver:
        following(driver)
        side.run(TRANSACTION)
        side.run("INSERT INTO b VALUES (6);")
        records = driver.read(RECORDS + 1, deliver=False)
    expected = identified(records)
    assert len(expected) == RECORDS + 1
    for cut in range(1, RECORDS + 1):
        offsets = StoredOffsets()
        offsets.keep(records[:cut])
        # Polls of one record, so that every pair of records falls apart.
        with changes(side, offsets, max_batch_size="1") as driver:
            rest = driver.read(len(expected) - cut, deliver=False)
        assert identified(rest) == expected[cut:], cut


@pytest.mark.postgres
def test_settings_that_leave_records_out_do_not_shift_where_to_resume(side: PostgresSide) -> None:
    side.run("CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY);")
    with changes(side) as driver:
        following(driver)
        side.run("INSERT INTO a VALUES (1); UPDATE a SET id = 2; TRUNCATE a, b;")
        records = driver.read(6, deliver=False)
    assert [one[0] for one in summaries(records)] == ["c", "d", "tombstone", "c", "t", "t"]
    after_the_tombstone, after_one_truncate = StoredOffsets(), StoredOffsets()
    after_the_tombstone.keep(records[:3])
    with changes(side, after_the_tombstone, tombstones_on_delete="false") as driver:
        assert summaries(driver.read(3, deliver=False)) == summaries(records[3:])
    after_one_truncate.keep(records[:5])
    with changes(side, after_one_truncate, table_exclude_list="public.a") as driver:
        assert [one.topic for one in driver.read(1, deliver=False)] == ["shop.public.b"]


@pytest.mark.postgres
@pytest.mark.parametrize("heartbeat", ["0", "1"])
def test_idle_progress_does_not_forget_a_transaction_that_is_resumed(
    side: PostgresSide, heartbeat: str
) -> None:
    side.run("CREATE TABLE a (id INT PRIMARY KEY);")
    with changes(side) as driver:
        following(driver)
        side.run("INSERT INTO a VALUES (1), (2);")
        records = driver.read(2, deliver=False)
    offsets = StoredOffsets()
    offsets.keep(records[:1])
    stored = offsets.get({"server": "shop"})
    assert stored is not None
    with changes(side, offsets, heartbeat_interval_ms=heartbeat) as driver:
        task: Any = driver.tasks[0]
        task._last_heartbeat = 0
        found: list[SourceRecord] = []
        for lsn in (stored["lsn"] + 8, stored["commit_lsn"]):
            task._take(Keepalive(lsn, True), found)
            driver.store_idle_offsets()
        assert (found, offsets.get({"server": "shop"})) == ([], stored)
        assert [record.key["id"] for record in driver.read(1)][:1] == [2]


def test_a_position_of_the_first_release_is_read() -> None:
    assert Position.from_offset({"lsn": 7}) == Position(7)
    position = Position.from_offset({"lsn": 7, "commit_lsn": 9, "changes": 2})
    progress = StreamProgress(position)
    progress.begin(Begin(9, EPOCH, 1))
    assert [progress.change() for _ in range(3)] == [False, False, True]
