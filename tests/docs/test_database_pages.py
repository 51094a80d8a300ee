"""The pages about databases say what is so, and their examples run."""

import re
import shlex
import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest

from strom.connect.api import SinkRecord, TopicPartition
from strom.connect.connectors.databases.sink import JdbcSink
from strom.connect.connectors.databases.sink_settings import JdbcSinkSettings
from strom.connect.connectors.databases.source import JdbcSource
from strom.connect.connectors.databases.source_settings import JdbcSourceSettings
from strom.connect.connectors.postgres_changes.settings import PostgresChangesSettings
from strom.connect.connectors.postgres_changes.source import PostgresChanges
from strom.testing.connectors import SinkDriver, SourceDriver
from tests.connect.connectors.other_side import PostgresSide
from tools import postgres

FOLDER = Path(__file__).parents[2] / "docs/connectors"
TABLES = (FOLDER / "databases.md").read_text(encoding="utf-8")
CHANGES = (FOLDER / "postgres-changes.md").read_text(encoding="utf-8")
OF_THE_RUNTIME = {"connector.class", "topics", "tasks.max", "errors.tolerance"}


def commands(page: str) -> list[dict[str, str]]:
    """The settings of each `strom connect add` on a page, without the runtime's own."""
    joined = page.replace("\\\n", " ")
    found = [shlex.split(line) for line in re.findall(r"^strom connect add (.*)$", joined, re.M)]
    pairs = [dict(word.split("=", 1) for word in words[1:]) for words in found]
    return [{k: v for k, v in one.items() if k not in OF_THE_RUNTIME} for one in pairs]


def test_the_example_of_tables_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", TABLES, re.S)
    exec(compile(example, "databases.md", "exec"), {})
    reading, writing = commands(TABLES)
    source = SourceDriver(JdbcSource, reading)
    source.start()
    records = source.read(2)
    source.stop()
    sink = SinkDriver(JdbcSink, writing)
    sink.start([TopicPartition("shop-orders", 0)])
    sink.put(
        [
            SinkRecord(one.topic, 0, offset, one.value, one.value_schema)
            for offset, one in enumerate(records)
        ]
    )
    sink.stop()
    copy = sqlite3.connect("copy.db")
    rows = copy.execute('SELECT id, item, price FROM "shop-orders" ORDER BY id').fetchall()
    copy.close()
    assert [(key, item, Decimal(price)) for key, item, price in rows] == [
        (1, "tea", Decimal("4.50")),
        (2, "cup", Decimal("12.00")),
    ]


@pytest.mark.postgres
def test_the_example_of_changes_runs() -> None:
    try:
        postgres.locate()
    except postgres.UnavailableError as reason:
        pytest.skip(f"no real PostgreSQL: {reason}")
    (statements,) = re.findall(r"```sql\n(.*?)```", CHANGES, re.S)
    (settings,) = commands(CHANGES)
    with postgres.RealPostgres(settings=postgres.FOR_TESTS, password="of-the-page") as server:
        side = PostgresSide(server)
        side.run(statements)
        driver = SourceDriver(PostgresChanges, {**settings, **side.change_settings})
        driver.start()
        (record,) = driver.read(1)
        driver.stop()
    assert record.topic == "shop.public.orders"
    assert record.key == {"id": 1}
    assert record.value["after"] == {"id": 1, "item": "tea", "price": Decimal("4.50")}


@pytest.mark.parametrize(
    ("page", "classes"),
    [(TABLES, (JdbcSourceSettings, JdbcSinkSettings)), (CHANGES, (PostgresChangesSettings,))],
    ids=["databases", "postgres-changes"],
)
def test_settings_that_are_named_exist(page, classes) -> None:
    known = {name for one in classes for name in one.definitions()} | OF_THE_RUNTIME
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=[^`]*)?`", page))
    assert named - {"shop.public.orders"} <= known
