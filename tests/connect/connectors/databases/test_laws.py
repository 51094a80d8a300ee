"""Both connectors, on both databases, keep the laws of every connector."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from strom.connect.api import Schema, SourceRecord
from strom.connect.api.schema import INT64, STRING, struct
from strom.connect.connectors.databases.sink import JdbcSink
from strom.connect.connectors.databases.source import JdbcSource
from strom.testing.connectors import TOPIC, SinkLaws, SourceLaws
from tests.connect.connectors.other_side import PostgresSide, Side, SqliteSide
from tools import postgres

ROW = struct({"id": INT64, "name": STRING})


@pytest.fixture(scope="module")
def server_of_laws() -> Iterator[postgres.RealPostgres]:
    """A server of their own, for they take it away."""
    try:
        postgres.locate()
    except postgres.UnavailableError as reason:
        pytest.skip(f"no real PostgreSQL: {reason}")
    with postgres.RealPostgres(settings=postgres.FOR_TESTS, password="pass word'1") as server:
        yield server


class OnSqlite:
    """The other side is a file in the test's folder."""

    def _side(self, folder: Path) -> Side:
        return SqliteSide(folder)


class OnPostgres:
    """The other side is a database of the test's own."""

    side: ClassVar[PostgresSide]

    @pytest.fixture(autouse=True)
    def database(self, server_of_laws: postgres.RealPostgres) -> None:
        type(self).side = PostgresSide(server_of_laws)

    def _side(self, folder: Path) -> Side:
        return self.side

    def take_away(self, folder: Path) -> bool:
        self.side.server.stop()
        return True

    def bring_back(self, folder: Path) -> None:
        self.side.server.start()


class JdbcSinkLaws(SinkLaws):
    connector = JdbcSink
    exactly_once = True
    misspelt = ("table.name.formt", "table.name.format")

    def _side(self, folder: Path) -> Side:
        raise NotImplementedError

    def settings(self, folder: Path) -> Mapping[str, str]:
        return {**self._side(folder).settings, "auto.create": "true"}

    def value(self, item: int) -> tuple[Schema | None, Any]:
        return ROW, {"id": item, "name": f"item {item}"}

    def stored(self, folder: Path) -> Sequence[int]:
        return [row[0] for row in self._side(folder).run(f"SELECT id FROM {TOPIC} ORDER BY id")]


class TestSqliteSink(OnSqlite, JdbcSinkLaws):
    pass


@pytest.mark.postgres
class TestPostgresSink(OnPostgres, JdbcSinkLaws):
    pass


class JdbcSourceLaws(SourceLaws):
    connector = JdbcSource
    misspelt = ("topic.prefx", "topic.prefix")
    more: ClassVar[Mapping[str, str]] = {"mode": "incrementing"}

    def _side(self, folder: Path) -> Side:
        raise NotImplementedError

    def settings(self, folder: Path) -> Mapping[str, str]:
        return {
            **self._side(folder).settings,
            "table.whitelist": "items",
            "topic.prefix": "db-",
            "poll.interval.ms": "50",
            "batch.max.rows": "7",
            **self.more,
        }

    def seed(self, folder: Path, items: Sequence[int]) -> None:
        rows = ", ".join(f"({item}, 'item', '2026-01-01 00:00:0{item // 5}')" for item in items)
        self._side(folder).run(
            "CREATE TABLE IF NOT EXISTS items"
            "(id INTEGER NOT NULL PRIMARY KEY, name TEXT, changed TIMESTAMP NOT NULL);"
            f"INSERT INTO items VALUES {rows};"
        )

    def item(self, record: SourceRecord) -> int:
        assert record.topic == "db-items"
        number: int = record.value["id"]
        return number


class TestSqliteSource(OnSqlite, JdbcSourceLaws):
    pass


@pytest.mark.postgres
class TestPostgresSource(OnPostgres, JdbcSourceLaws):
    pass


class TestSqliteSourceByTime(OnSqlite, JdbcSourceLaws):
    more: ClassVar = {"mode": "timestamp+incrementing", "timestamp.column.name": "changed"}


@pytest.mark.postgres
class TestPostgresSourceByTime(OnPostgres, JdbcSourceLaws):
    more: ClassVar = {"mode": "timestamp+incrementing", "timestamp.column.name": "changed"}
