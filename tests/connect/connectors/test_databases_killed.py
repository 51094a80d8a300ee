"""Workers are killed while rows go from database to topic to database: nothing is lost or doubled."""

import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from strom.testing import LocalBroker
from tests.connect.connectors.other_side import PostgresSide
from tests.connect.runtime.workers import WorkerProcess, wait_until
from tools.postgres import RealPostgres

ROWS = 100_000
PLAIN_JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture
def servers():
    with LocalBroker(settings={"group.min.session.timeout.ms": "1000"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def side(postgres_server: RealPostgres, monkeypatch: pytest.MonkeyPatch) -> PostgresSide:
    monkeypatch.setenv("PASSWORD_OF_TESTS", postgres_server.password)
    return PostgresSide(postgres_server)


def underscored(settings: dict[str, str]) -> dict[str, str]:
    """As keyword arguments, with the password as a reference."""
    return {
        name.replace(".", "__"): "${env:PASSWORD_OF_TESTS}" if name.endswith("password") else text
        for name, text in settings.items()
    }


def partitioned(servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        made.result()


def test_rows_go_from_table_to_topic_to_both_databases_exactly_once(
    servers: str, side: PostgresSide, tmp_path: Path
) -> None:
    file = tmp_path / "target.db"
    side.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, name TEXT);"
        f"INSERT INTO orders SELECT n, 'order ' || n FROM generate_series(1, {ROWS}) n;"
        "CREATE TABLE target (id INT NOT NULL, name TEXT);"
    )
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE target (id INT NOT NULL, name TEXT)")
    connection.close()
    partitioned(servers, "db-orders", 3)

    def in_sqlite() -> int:
        connection = sqlite3.connect(file, timeout=30)
        try:
            ((count,),) = connection.execute("SELECT count(*) FROM target").fetchall()
            return int(count)
        finally:
            connection.close()

    def in_postgres() -> int:
        return int(side.run("SELECT count(*) FROM target")[0][0])

    worker = WorkerProcess(servers, **PLAIN_JSON).start()
    sink = {"connector__class": "JdbcSink", "topics": "db-orders", "table__name__format": "target"}
    try:
        worker.rest.put("pg", **sink, **underscored(side.settings), tasks__max=2)
        worker.rest.put("lite", **sink, connection__url=f"jdbc:sqlite:{file}")
        worker.rest.put(
            "orders",
            **underscored(side.settings),
            connector__class="JdbcSource",
            mode="incrementing",
            table__whitelist="orders",
            topic__prefix="db-",
            poll__interval__ms=100,
            batch__max__rows=1000,
        )
        for share in (0.1, 0.5, 0.8):
            wait_until(lambda share=share: min(in_sqlite(), in_postgres()) >= share * ROWS)
            worker.kill()
            worker.start()
        wait_until(lambda: in_sqlite() >= ROWS and in_postgres() >= ROWS)
        assert worker.terminate() == 0
    except BaseException:
        print(worker.told()[-6000:])
        for n in ("pg", "lite", "orders"):
            print(worker.rest.ask("GET", f"/connectors/{n}/status")[1])
        raise
    finally:
        worker.stop()
    rows = side.run("SELECT id, name FROM orders ORDER BY id")
    assert side.run("SELECT id, name FROM target ORDER BY id") == rows
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT id, name FROM target ORDER BY id").fetchall() == rows
    connection.close()


class Copy:
    """A table made of what a topic of changes says."""

    def __init__(self, servers: str, topic: str) -> None:
        self.rows: dict[int, Any] = {}
        self.operations: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "copy",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])

    def read(self, seconds: float) -> int:
        """Apply what is new; how many changes there were so far."""
        for message in self._consumer.consume(5000, seconds):
            if message.error() is None and message.value() is not None:
                change = json.loads(message.value())
                self.operations.append(change["op"])
                if change["op"] == "d":
                    self.rows.pop(change["before"]["id"], None)
                else:
                    self.rows[change["after"]["id"]] = change["after"]["n"]
        return len(self.operations)

    def close(self) -> None:
        self._consumer.close()


def test_changes_are_followed_through_kills_in_snapshot_and_stream(
    servers: str, side: PostgresSide
) -> None:
    size, rounds = 20_000, 60
    side.run(
        "CREATE TABLE stock (id INT PRIMARY KEY, n INT);"
        f"INSERT INTO stock SELECT n, 0 FROM generate_series(1, {size}) n;"
    )
    partitioned(servers, "shop.public.stock", 1)

    def work() -> None:
        for number in range(1, rounds + 1):
            side.run(
                f"UPDATE stock SET n = {number} WHERE id % {rounds} = {number - 1};"
                f"DELETE FROM stock WHERE id = {number * 7}; INSERT INTO stock VALUES ({-number}, 0);"
            )

    worker = WorkerProcess(servers, **PLAIN_JSON).start()
    copy = Copy(servers, "shop.public.stock")
    working = threading.Thread(target=work)
    try:
        worker.rest.put(
            "stock",
            **underscored(side.change_settings),
            connector__class="PostgresChanges",
            snapshot__fetch__size=100,
            max__batch__size=500,
        )
        wait_until(lambda: copy.read(0.1) >= 1000)
        assert len(copy.rows) < size, "the snapshot must be under way"
        worker.kill()
        working.start()
        worker.start()
        wait_until(lambda: copy.read(0.1) >= 0 and "u" in copy.operations)
        worker.kill()
        worker.start()
        wait_until(lambda: copy.read(0.1) >= 0 and copy.operations.count("c") >= rounds // 2)
        worker.kill()
        working.join()
        worker.start()
        table = dict(side.run("SELECT id, n FROM stock"))
        wait_until(lambda: copy.read(0.2) >= 0 and copy.rows == table)
        # Once its snapshot is whole, every change comes exactly once.
        assert copy.operations.count("d") == copy.operations.count("c") == rounds
        gone = sum(1 for number in range(1, rounds + 1) if number * 7 % rounds >= number)
        assert copy.operations.count("u") == size - gone
        assert worker.terminate() == 0
    finally:
        worker.stop()
        copy.close()
        if working.ident is not None:
            working.join()
