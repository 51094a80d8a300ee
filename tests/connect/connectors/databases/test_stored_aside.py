"""Large calls are stored while the next records are read, and nothing is lost or doubled by it."""

import pytest
from confluent_kafka import Consumer, Producer

from strom.connect.api import PoisonRecord, RetriableError, SinkRecord, TopicPartition
from strom.connect.api.schema import INT64, OPTIONAL_STRING, struct
from strom.connect.connectors.databases.aside import Aside
from strom.connect.connectors.databases.dialect import Fenced
from strom.connect.connectors.databases.sink import ASIDE_FROM, JdbcSink
from strom.connect.runtime.commands import Commands
from strom.connect.runtime.worker import ConnectWorker
from strom.testing import LocalBroker
from strom.testing.connectors import SinkDriver
from tests.connect.connectors.other_side import PostgresSide

PEOPLE = TopicPartition("people", 0)
PERSON = struct({"id": INT64, "name": OPTIONAL_STRING})


def people(first: int, count: int, bad: int | None = None) -> list[SinkRecord]:
    """Records whose offset is their id; the bad one has no name."""
    return [
        SinkRecord("people", 0, one, {"id": one, "name": None if one == bad else "x"}, PERSON)
        for one in range(first, first + count)
    ]


def ids(side: PostgresSide) -> list[int]:
    return [row[0] for row in side.run("SELECT id FROM people ORDER BY id")]


@pytest.fixture
def task(postgres_side: PostgresSide):
    postgres_side.run("CREATE TABLE people (id INTEGER, name VARCHAR(9) NOT NULL);")
    driver = SinkDriver(JdbcSink, postgres_side.settings)
    driver.start([PEOPLE])
    yield driver.task
    driver.stop()


@pytest.mark.postgres
def test_after_a_flush_all_is_there(task, postgres_side: PostgresSide) -> None:
    for part in range(3):
        task.put(people(part * ASIDE_FROM, ASIDE_FROM))
    task.flush()
    assert ids(postgres_side) == list(range(3 * ASIDE_FROM))
    assert task.open([PEOPLE]) == {PEOPLE: 3 * ASIDE_FROM}


@pytest.mark.postgres
@pytest.mark.parametrize("heard_by", ["put", "flush"])
def test_a_refused_row_is_asked_for_again_and_named(
    task, postgres_side: PostgresSide, heard_by: str
) -> None:
    records = people(0, ASIDE_FROM, bad=37)
    task.put(records)
    with pytest.raises(RetriableError, match="A row is refused"):
        task.put(people(ASIDE_FROM, 1)) if heard_by == "put" else task.flush()
    task.close([PEOPLE])
    assert task.open([PEOPLE]) == {}
    with pytest.raises(PoisonRecord) as poison:
        task.put(records)
    assert (poison.value.index, ids(postgres_side)) == (37, [])
    task.put(records[:37] + records[38:])
    task.flush()
    task.put(people(ASIDE_FROM, ASIDE_FROM))
    task.flush()
    assert ids(postgres_side) == [one for one in range(2 * ASIDE_FROM) if one != 37]


@pytest.mark.postgres
def test_a_task_that_was_replaced_hears_of_it(task, postgres_side: PostgresSide) -> None:
    heir = SinkDriver(JdbcSink, postgres_side.settings)
    heir.start([PEOPLE])
    task.put(people(0, ASIDE_FROM))
    with pytest.raises(Fenced):
        task.flush()
    heir.stop()
    assert ids(postgres_side) == []


@pytest.mark.postgres
def test_bad_records_of_a_long_topic_become_dead_letters_and_the_rest_rows(
    postgres_side: PostgresSide,
) -> None:
    postgres_side.run("CREATE TABLE people (name VARCHAR(5) NOT NULL);")
    count, bad = 30_000, {5, 14_000, 14_001, 29_999}
    with LocalBroker() as broker:
        servers = broker.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers})
        for number in range(count):
            producer.produce("people", "too long" if number in bad else f"{number}")
        producer.flush()
        worker = ConnectWorker({"bootstrap.servers": servers, "offset.flush.interval.ms": "200"})
        worker.start()
        try:
            Commands(worker).put(
                "people",
                {
                    **postgres_side.settings,
                    "connector.class": "JdbcSink",
                    "topics": "people",
                    "value.converter": "String",
                    "key.converter": "String",
                    "transforms": "row",
                    "transforms.row.type": "HoistField$Value",
                    "transforms.row.field": "name",
                    "errors.tolerance": "all",
                    "errors.deadletterqueue.topic.name": "dead",
                },
                replace=False,
            )
            letters = _read(servers, "dead", len(bad))
        finally:
            worker.stop()
    assert letters == [b"too long"] * len(bad)
    names = {row[0] for row in postgres_side.run("SELECT name FROM people")}
    (rows,) = postgres_side.run("SELECT count(*) FROM people")[0]
    assert (rows, names) == (count - len(bad), {f"{n}" for n in range(count) if n not in bad})


def _read(servers: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "judge", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        while len(found) < count:
            message = consumer.poll(60)
            assert message is not None, f"{len(found)} of {count} dead letters"
            if message.error() is None:
                found.append(message.value())
    finally:
        consumer.close()
    return found


def test_what_a_call_raises_is_raised_by_who_waits_for_it() -> None:
    aside = Aside()
    aside.finish()
    aside.begin(lambda: None)
    aside.finish()
    aside.begin(lambda: [][0])
    with pytest.raises(IndexError):
        aside.finish()
    aside.finish()
