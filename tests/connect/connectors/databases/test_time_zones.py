"""Columns of local times: what they mean, and that setting clocks loses and repeats nothing."""

from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.connect.api import ConnectError, InvalidSettings, SinkRecord, TopicPartition
from strom.connect.api.schema import INT64, TIMESTAMP, array, struct
from strom.connect.connectors.databases import connection_settings
from strom.connect.connectors.databases.sink import JdbcSink
from strom.connect.connectors.databases.source import JdbcSource
from strom.connect.connectors.databases.source_settings import JdbcSourceSettings
from strom.connect.connectors.databases.time_zones import (
    find_zone,
    from_wall_clock,
    settled_wall_clock,
    to_wall_clock,
)
from strom.testing.connectors import SinkDriver, SourceDriver
from tests.connect.connectors.other_side import PostgresSide, Side, SqliteSide

BERLIN = find_zone("Europe/Berlin")
HOUR = timedelta(hours=1)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def wall(*parts: int) -> datetime:
    """A time as a clock shows it."""
    return utc(*parts).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("shown", "moment"),
    [
        (wall(2026, 1, 1, 12), utc(2026, 1, 1, 11)),
        (wall(2026, 7, 1, 12), utc(2026, 7, 1, 10)),
        (wall(2026, 3, 29, 2, 30), utc(2026, 3, 29, 1, 30)),  # never came
        (wall(2026, 10, 25, 2, 30), utc(2026, 10, 25, 1, 30)),  # came twice
    ],
)
def test_local_times_are_moments(shown: datetime, moment: datetime) -> None:
    assert from_wall_clock(shown, BERLIN) == moment


@given(shown=st.datetimes(wall(2026, 1, 1), wall(2026, 12, 31)), zone=st.sampled_from(ZONES))
def test_a_moment_that_clocks_show_once_comes_back(shown: datetime, zone: str) -> None:
    moment = from_wall_clock(shown, find_zone(zone))
    again = to_wall_clock(moment, find_zone(zone))
    assert again == shown or again - shown in {HOUR, HOUR / 2}  # only times that never came differ


@given(
    at=st.one_of(
        st.integers(0, 24 * 60).map(lambda minutes: utc(2026, 10, 24, 12) + minutes * HOUR / 60),
        st.datetimes(wall(2026, 1, 1), wall(2026, 12, 30), timezones=st.just(UTC)),
    ),
    zone=st.sampled_from(ZONES),
)
def test_no_clock_shows_a_settled_time_again(at: datetime, zone: str) -> None:
    where = find_zone(zone)
    settled = settled_wall_clock(at, where)
    later = [to_wall_clock(at + minutes * HOUR / 60, where) for minutes in range(180)]
    assert min(later) - HOUR / 60 < settled <= min(later)


@pytest.mark.parametrize(
    ("moment", "settled"),
    [
        (utc(2026, 10, 24, 23, 59), wall(2026, 10, 25, 1, 59)),
        (utc(2026, 10, 25, 0, 1), wall(2026, 10, 25, 2)),
        (utc(2026, 10, 25, 0, 59), wall(2026, 10, 25, 2)),
        (utc(2026, 10, 25, 1, 1), wall(2026, 10, 25, 2, 1)),
    ],
)
def test_times_settle_late_only_in_the_hour_that_comes_twice(moment, settled) -> None:
    assert settled_wall_clock(moment, BERLIN) == settled


def make_log(side: Side, *rows: tuple[int, datetime]) -> None:
    side.run("CREATE TABLE log (id INTEGER NOT NULL PRIMARY KEY, at TIMESTAMP NOT NULL);")
    for key, at in rows:
        side.run(f"INSERT INTO log VALUES ({key}, '{at}');")


def read(side: Side, count: int, **texts: str) -> list[Any]:
    settings = {"topic.prefix": "db-", "mode": "bulk", "db.timezone": "Europe/Berlin"}
    more = {name.replace("_", "."): text for name, text in texts.items()}
    driver = SourceDriver(JdbcSource, {**side.settings, **settings, **more})
    try:
        driver.start()
        return driver.read(count) if count else driver.poll()
    finally:
        driver.stop()


def test_local_times_are_read_as_those_of_the_zone(side: Side) -> None:
    make_log(side, (1, wall(2026, 1, 1, 12)), (2, wall(2026, 7, 1, 12)))
    expected = [utc(2026, 1, 1, 11), utc(2026, 7, 1, 10)]
    assert [record.value["at"] for record in read(side, 2)] == expected
    query = {"query": "SELECT * FROM log", "mode": "incrementing", "incrementing_column_name": "id"}
    values = [record.value["at"] for record in read(side, 2, **query)]
    assert [str(value)[:13] for value in values] == [
        # SQLite does not say of a query's columns what they hold: they stay text.
        "2026-01-01 12" if isinstance(side, SqliteSide) else "2026-01-01 11",
        "2026-07-01 12" if isinstance(side, SqliteSide) else "2026-07-01 10",
    ]


@pytest.mark.postgres
def test_times_that_say_their_zone_mean_what_they_say(postgres_side: PostgresSide) -> None:
    postgres_side.run(
        "CREATE DOMAIN local AS timestamp; CREATE TABLE t (a timestamptz, b timestamp[], c local, "
        "d date, e timestamp(0));"
        "INSERT INTO t VALUES ('2026-01-01 12:00+00', '{2026-01-01 12:00}', '2026-01-01 12:00', "
        "'2026-01-01', '2026-01-01 12:00');"
    )
    (record,) = read(postgres_side, 1)
    local = utc(2026, 1, 1, 11)
    assert list(record.value.values()) == [
        utc(2026, 1, 1, 12), [local], local, date(2026, 1, 1), local,
    ]  # fmt: skip


def test_records_are_written_as_times_of_the_zone(side: Side) -> None:
    side.run("CREATE TABLE t (id BIGINT PRIMARY KEY, at TIMESTAMP);")
    moments = [utc(2026, 1, 1, 11), utc(2026, 7, 1, 10)]
    write(side, *({"id": key, "at": at} for key, at in enumerate(moments)))
    shown = [str(at)[:16] for (at,) in side.run("SELECT at FROM t ORDER BY id")]
    assert shown == ["2026-01-01 12:00", "2026-07-01 12:00"]
    assert sorted(record.value["at"] for record in read(side, 2)) == moments


def test_the_ends_of_the_calendar_are_written_and_read(side: Side) -> None:
    side.run("CREATE TABLE t (id BIGINT PRIMARY KEY, at TIMESTAMP);")
    ends = [end.replace(tzinfo=UTC) for end in (datetime.min, datetime.max)]  # noqa: DTZ901
    write(side, *({"id": key, "at": at} for key, at in enumerate(ends)))
    read_again = sorted(record.value["at"] for record in read(side, 2))
    assert [abs(one - end) <= HOUR for one, end in zip(read_again, ends, strict=True)] == [True] * 2


def write(side: Side, *values: dict[str, Any]) -> None:
    kinds = {"id": INT64, "at": TIMESTAMP, "all": array(TIMESTAMP), "own": TIMESTAMP}
    schema = struct({name: kinds[name] for name in values[0]})
    driver = SinkDriver(JdbcSink, {**side.settings, "db.timezone": "Europe/Berlin"})
    driver.start([TopicPartition("t", 0)])
    driver.task.put([SinkRecord("t", 0, n, value, schema) for n, value in enumerate(values)])
    driver.stop()


@pytest.mark.postgres
def test_arrays_and_domains_are_written_as_times_of_the_zone(postgres_side: PostgresSide) -> None:
    postgres_side.run(
        'CREATE DOMAIN local AS timestamp; CREATE TABLE t (id int, at timestamptz, "all" '
        "timestamp[], own local);"
    )
    at = utc(2026, 1, 1, 11)
    write(postgres_side, {"id": 1, "at": at, "all": [at], "own": at})
    local = wall(2026, 1, 1, 12)
    assert postgres_side.run("SELECT * FROM t") == [(1, at, [local], local)]


class SetBack(tzinfo):
    """Clocks are set back by an hour at one moment."""

    def __init__(self, at: datetime) -> None:
        self._at = at.replace(tzinfo=None)

    def fromutc(self, moment: datetime) -> datetime:
        at = moment.replace(tzinfo=None)
        local = at + (2 * HOUR if at < self._at else HOUR)
        return local.replace(tzinfo=self, fold=int(self._at <= at < self._at + HOUR))

    def utcoffset(self, local: datetime | None) -> timedelta:
        shown = (local or datetime.max).replace(tzinfo=None)  # noqa: DTZ901
        if shown < self._at + HOUR:
            return 2 * HOUR
        return HOUR if shown >= self._at + 2 * HOUR or (local and local.fold) else 2 * HOUR

    def dst(self, local: datetime | None) -> timedelta:
        return self.utcoffset(local) - HOUR

    def tzname(self, local: datetime | None) -> str:
        return "set-back"


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize(
    ("set_back_in", "due"),
    [(HOUR / 4, [0]), (-HOUR / 4, [0, 1]), (-2 * HOUR, [0, 1])],
    ids=["first time", "second time", "over"],
)
def test_rows_of_the_hour_that_comes_twice_wait_for_its_second_time(
    side: Side, monkeypatch: pytest.MonkeyPatch, mode: str, set_back_in: timedelta, due: list[int]
) -> None:
    """Else those of the second time would lie before the position, and never be read."""
    now = datetime.now(UTC)
    zone = SetBack(now + set_back_in)
    monkeypatch.setattr(connection_settings, "find_zone", lambda name: zone)
    shown = to_wall_clock(now, zone)
    # Of these, the second is in the hour that comes twice, unless that is over.
    times = [shown - HOUR, shown - HOUR / 10, shown + HOUR / 10]
    make_log(side)
    # Texts of SQLite may have an offset, as those that strom's own sink writes.
    for offset in ("", "+02:00") if isinstance(side, SqliteSide) else ("",):
        side.run("DELETE FROM log;")
        for key, at in enumerate(times):
            side.run(f"INSERT INTO log VALUES ({key}, '{at:%Y-%m-%d %H:%M:%S}{offset}');")
        records = read(side, 0, mode=mode, timestamp_column_name="at")
        assert [record.value["id"] for record in records] == due


def test_the_future_of_the_zone_is_not_read_yet(side: Side) -> None:
    now = to_wall_clock(datetime.now(UTC), find_zone("Etc/GMT+9"))  # nine hours behind UTC
    make_log(side, (1, now - HOUR), (2, now + HOUR))
    texts = {"mode": "timestamp", "timestamp_column_name": "at", "db_timezone": "Etc/GMT+9"}
    assert [record.value["id"] for record in read(side, 0, **texts)] == [1]
    held_back = {**texts, "timestamp_delay_interval_ms": str(2 * 60 * 60 * 1000)}
    assert read(side, 0, **held_back) == []


def test_reading_begins_at_a_moment_of_the_zone(side: Side) -> None:
    make_log(side, (1, wall(2026, 7, 1, 11, 59)), (2, wall(2026, 7, 1, 12, 1)))
    initial = str(int(utc(2026, 7, 1, 10).timestamp() * 1000))
    texts = {"mode": "timestamp", "timestamp_column_name": "at", "timestamp_initial": initial}
    assert [record.value["id"] for record in read(side, 1, **texts)] == [2]


@pytest.mark.postgres
def test_columns_with_and_without_a_zone_are_not_compared(postgres_side: PostgresSide) -> None:
    postgres_side.run("CREATE TABLE t (a timestamp, b timestamptz NOT NULL);")
    texts = {"mode": "timestamp", "timestamp_column_name": "a,b"}
    with pytest.raises(
        ConnectError, match=r"a timestamp without time zone, b timestamp with.*none"
    ):
        read(postgres_side, 0, **texts)


@pytest.mark.parametrize("name", ["Europe/Berln", "Europe", "../x", "+02:00"])
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    texts = {"connection.url": "jdbc:sqlite:/x", "mode": "bulk", "topic.prefix": "x"}
    with pytest.raises(InvalidSettings, match="Unknown time zone"):
        JdbcSourceSettings.read({**texts, "db.timezone": name})
