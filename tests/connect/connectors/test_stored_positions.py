"""Positions that strom 0.1.0 has stored, without their topics' ids, are read and get them."""

import json
from typing import Any

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from strom.connect.api import ConnectError, SinkRecord, TopicPartition
from strom.connect.connectors.databases.sink import JdbcSink
from strom.connect.connectors.files.sink import FileStreamSink
from strom.connect.connectors.lake.sink import LakeSink
from strom.testing.connectors import SinkDriver
from tests.connect.connectors.other_side import PostgresSide, SqliteSide

PARTITION = TopicPartition("t", 0)
STORED = 10


def values(numbers):
    return [{"n": number} for number in numbers]


class FileTarget:
    connector = FileStreamSink

    def __init__(self, folder):
        self._file = folder / "out"
        self.settings = {"file": str(self._file), "format": "json"}

    def prepare(self):
        data = "".join(json.dumps(value) + "\n" for value in values(range(STORED)))
        self._file.write_text(data)
        positions = {"length": len(data), "offsets": {"t": {"0": STORED}}}
        self._file.with_name("out.positions").write_text(json.dumps(positions))

    def stored(self):
        return [json.loads(line)["n"] for line in self._file.read_text().splitlines()]


class DatabaseTarget:
    connector = JdbcSink

    def __init__(self, side):
        self._side = side
        self.settings = {**side.settings, "auto.create": "true"}

    def prepare(self):
        rows = ", ".join(f"({number})" for number in range(STORED))
        self._side.run(f"""
            CREATE TABLE strom_connect_positions (
                connector text, topic text, part int, next_offset bigint, epoch bigint NOT NULL,
                PRIMARY KEY (connector, topic, part));
            INSERT INTO strom_connect_positions VALUES ('laws', 't', 0, {STORED}, 7);
            CREATE TABLE t (n bigint);
            INSERT INTO t VALUES {rows};
        """)

    def stored(self):
        return sorted(n for (n,) in self._side.run("SELECT n FROM t"))


class LakeTarget:
    connector = LakeSink

    def __init__(self, folder, form):
        self._folder, self._form = folder, form
        self.settings = {"path": str(folder), "format": form}

    def prepare(self):
        """Without ids, positions are stored as 0.1.0 did."""
        driver = SinkDriver(LakeSink, self.settings, topic_id=None)
        driver.start([PARTITION])
        driver.put(records(values(range(STORED)), 0))
        driver.flush()
        driver.stop([PARTITION])

    def stored(self):
        table = (
            DeltaTable(self._folder / "t").to_pyarrow_table()
            if self._form == "delta"
            else ds.dataset(self._folder / "t").to_table()
        )
        return sorted(table["n"].to_pylist())


@pytest.fixture(
    params=[
        "file", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres), "parquet", "delta",
    ]
)  # fmt: skip
def sink(request, tmp_path):
    """A sink's other side as 0.1.0 has left it."""
    made: Any = {
        "file": lambda: FileTarget(tmp_path),
        "sqlite": lambda: DatabaseTarget(SqliteSide(tmp_path)),
        "postgres": lambda: DatabaseTarget(
            PostgresSide(request.getfixturevalue("postgres_server"))
        ),
        "parquet": lambda: LakeTarget(tmp_path, "parquet"),
        "delta": lambda: LakeTarget(tmp_path, "delta"),
    }[request.param]()
    made.prepare()
    return made


def records(some, first):
    return [SinkRecord("t", 0, offset, value) for offset, value in enumerate(some, first)]


def opened(sink, topic_id, end):
    driver = SinkDriver(
        sink.connector, sink.settings, topic_id=topic_id, end_offsets={PARTITION: end}
    )
    return driver, driver.start([PARTITION]).get(PARTITION)


def reads_from_its_own_position(sink):
    return sink.connector is not LakeSink


def test_they_are_gone_on_from_if_the_topic_may_be_the_same(sink):
    driver, position = opened(sink, "one", end=STORED + 2)
    if reads_from_its_own_position(sink):
        assert position == STORED
    driver.put(records(values([8, 9, 10, 11]), STORED - 2))
    driver.flush({PARTITION: STORED + 2})
    driver.stop([PARTITION])
    assert sink.stored() == list(range(STORED + 2))


def test_from_then_on_they_are_of_that_topic_though_nothing_was_stored(sink):
    driver, _ = opened(sink, "one", end=STORED)
    driver.stop([PARTITION])
    driver, position = opened(sink, "two", end=STORED + 2)
    assert not position
    driver.put(records(values(range(100, 112)), 0))
    driver.flush({PARTITION: STORED + 2})
    driver.stop([PARTITION])
    assert sink.stored() == [*range(STORED), *range(100, 112)]
    driver, position = opened(sink, "two", end=STORED + 2)
    driver.put(records(values(range(110, 113)), STORED))  # two of them were stored
    driver.flush({PARTITION: STORED + 3})
    driver.stop([PARTITION])
    assert sink.stored() == [*range(STORED), *range(100, 113)]


def test_where_the_topic_ends_before_they_are_refused_and_adopted_by_no_topic(sink):
    if reads_from_its_own_position(sink):
        driver, position = opened(sink, "two", end=STORED - 1)
        assert position == STORED  # behind the end: the runtime refuses it
        driver.stop([PARTITION])
    else:
        with pytest.raises(ConnectError, match="recreated"):
            opened(sink, "two", end=STORED - 1)
    driver, position = opened(sink, "one", end=STORED)
    driver.put(records(values([9, 10]), STORED - 1))
    driver.flush({PARTITION: STORED + 1})
    driver.stop([PARTITION])
    assert sink.stored() == list(range(STORED + 1))
