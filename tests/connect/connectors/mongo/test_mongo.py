"""MongoSource and MongoSink, against a stand-in that speaks MongoDB's wire protocol (tools/mongo.py)."""

import datetime as dt
import itertools
import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect
from pymongo.synchronous.change_stream import ChangeStream
from pymongo.synchronous.cursor import Cursor

from strom.connect.api import (
    ConnectError,
    InvalidSettings,
    PoisonRecord,
    RetriableError,
    SinkRecord,
    SourceRecord,
)
from strom.connect.connectors.mongo.sink import MongoSinkSettings, MongoSinkTask, to_document
from strom.connect.connectors.mongo.source import MongoSourceSettings, MongoSourceTask
from tools import mongo

NOWHERE = "mongodb://127.0.0.1:1/?directConnection=true"


@dataclass
class Context:
    stored: Mapping[str, Any] | None = None
    connector: str = "documents"
    stopping: threading.Event = field(default_factory=threading.Event)

    def offset(self, source_partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if self.stored is None:
            return None
        copied: dict[str, Any] = json.loads(json.dumps(self.stored))  # as a topic would keep it
        return copied

    def topic_id(self, topic: str) -> str | None:
        return None

    def end_offset(self, partition: Any) -> int:
        return 0

    def pause(self, partitions: Any) -> None: ...

    def resume(self, partitions: Any) -> None: ...


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    try:
        with mongo.stand_in() as uri:
            yield uri
    except mongo.UnavailableError as reason:
        pytest.skip(f"no stand-in of MongoDB: {reason}")


@pytest.fixture
def orders(server: str) -> Iterator[Collection[dict[str, Any]]]:
    client: MongoClient[dict[str, Any]] = MongoClient(server)
    yield client[f"shop-{uuid.uuid4().hex[:8]}"]["orders"]
    client.close()


def a_source(
    uri: str, orders: Collection[dict[str, Any]], stored: Any = None, **texts: str
) -> MongoSourceTask:
    named = {name.replace("_", "."): text for name, text in texts.items()}
    where = {"connection.uri": uri, "database": orders.database.name, "collection": orders.name}
    task = MongoSourceTask(MongoSourceSettings.read(where | named), Context(stored))
    try:
        task.start()
    except ConnectError:
        task.stop()
        raise
    return task


def a_sink(uri: str, orders: Collection[dict[str, Any]], **texts: str) -> MongoSinkTask:
    named = {name.replace("_", "."): text for name, text in texts.items()}
    where = {"connection.uri": uri, "database": orders.database.name, "collection": "orders"}
    return MongoSinkTask(MongoSinkSettings.read(where | named), Context())


def polled(task: MongoSourceTask, count: int) -> list[SourceRecord]:
    found: list[SourceRecord] = []
    for _ in range(40):
        found += task.poll()
        if len(found) >= count:
            break
    return found


def operations(records: list[SourceRecord]) -> list[tuple[str, int]]:
    return [
        (json.loads(record.value)["operationType"], json.loads(record.key)["_id"])
        for record in records
    ]


def test_every_change_comes_once_and_in_order(server, orders):
    task = a_source(server, orders)
    assert list(task.poll()) == []
    orders.insert_one({"_id": 1, "sum": 10})
    orders.replace_one({"_id": 1}, {"sum": 20})
    orders.delete_one({"_id": 1})
    records = polled(task, 3)
    task.stop()
    kinds = [json.loads(record.value)["operationType"] for record in records]
    assert (kinds[0], kinds[2], len(kinds)) == ("insert", "delete", 3)
    assert records[0].topic == f"{orders.database.name}.orders"
    assert json.loads(records[0].value)["fullDocument"] == {"_id": 1, "sum": 10}


def test_after_a_restart_it_goes_on_behind_the_last_delivered_change(server, orders):
    task = a_source(server, orders)
    task.poll()
    orders.insert_many([{"_id": number} for number in range(4)])
    records = polled(task, 4)
    task.stop()
    again = a_source(server, orders, records[1].source_offset)
    assert operations(polled(again, 2)) == [("insert", 2), ("insert", 3)]
    again.stop()


def test_what_is_there_is_copied_first_and_the_copy_goes_on_after_a_restart(server, orders):
    orders.insert_many([{"_id": number} for number in range(5)])
    task = a_source(server, orders, startup_mode="copy_existing", poll_max_batch_size="2")
    first = list(task.poll())
    orders.insert_one({"_id": 9})
    task.stop()
    again = a_source(server, orders, first[-1].source_offset, startup_mode="copy_existing")
    rest = polled(again, 4)
    again.stop()
    copied = operations(first) + operations(rest)
    assert [one for one in copied if one[0] == "copy"] == [
        ("copy", 0),
        ("copy", 1),
        ("copy", 2),
        ("copy", 3),
        ("copy", 4),
        ("copy", 9),
    ]


@pytest.mark.parametrize(
    ("mode", "kind", "method"),
    [("copy_existing", Cursor, "__next__"), ("latest", ChangeStream, "try_next")],
)
def test_what_was_read_before_the_connection_was_lost_is_read_again(
    server, orders, monkeypatch, mode, kind, method
):
    documents = [{"_id": number} for number in range(5)]
    if mode == "copy_existing":
        orders.insert_many(documents)
    task = a_source(server, orders, startup_mode=mode)
    if mode == "latest":
        task.poll()
        orders.insert_many(documents)
    call, calls = getattr(kind, method), itertools.count(1)

    def lose_connection(cursor):
        if next(calls) == 3:
            raise AutoReconnect("connection closed")
        return call(cursor)

    monkeypatch.setattr(kind, method, lose_connection)
    with pytest.raises(RetriableError):
        task.poll()
    found = operations(polled(task, 5))
    task.stop()
    assert [number for _, number in found] == [0, 1, 2, 3, 4]


def test_the_document_alone_can_be_sent_and_nothing_for_a_deleted_one(server, orders):
    task = a_source(server, orders, publish_full_document_only="true", topic_prefix="cdc")
    task.poll()
    orders.insert_one({"_id": 1, "sum": 10})
    orders.delete_one({"_id": 1})
    inserted, deleted = polled(task, 2)
    task.stop()
    assert json.loads(inserted.value) == {"_id": 1, "sum": 10}
    assert deleted.value is None
    assert inserted.topic == f"cdc.{orders.database.name}.orders"


def test_documents_are_written_by_key_and_again_without_harm(server, orders):
    task = a_sink(server, orders, delete_on_null_values="true")
    records = [
        SinkRecord("orders", 0, 0, {"sum": 1}, key="a"),
        SinkRecord("orders", 0, 1, {"sum": 2}, key="b"),
        SinkRecord("orders", 0, 2, {"sum": 3}, key="a"),
        SinkRecord("orders", 0, 3, None, key="b"),
    ]
    for _ in range(2):
        task.put(records)
        task.flush()
        assert list(orders.find()) == [{"_id": "a", "sum": 3}]
    task.stop()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"document_id_from": "place"}, "orders-0-7"),
        ({"document_id_from": "field", "document_id_field": "number"}, 42),
    ],
)
def test_ids_come_from_where_the_settings_say(server, orders, texts, expected):
    task = a_sink(server, orders, **texts)
    task.put([SinkRecord("orders", 0, 7, {"number": 42})])
    task.stop()
    assert [document["_id"] for document in orders.find()] == [expected]


def test_a_record_without_an_id_is_named(server, orders):
    task = a_sink(server, orders)
    good = SinkRecord("orders", 0, 0, {"n": 1}, key="a")
    with pytest.raises(PoisonRecord, match="The record has no key") as caught:
        task.put([good, SinkRecord("orders", 0, 1, {"n": 2})])
    task.stop()
    assert caught.value.index == 1
    assert list(orders.find()) == []


def test_a_record_that_cannot_be_a_document_is_named(server, orders):
    task = a_sink(server, orders)
    records = [SinkRecord("orders", 0, n, {"n": n}, key=str(n)) for n in range(3)]
    records[1] = SinkRecord("orders", 0, 1, {"n": object()}, key="1")
    with pytest.raises(PoisonRecord, match="cannot be stored as a document") as caught:
        task.put(records)
    task.stop()
    assert caught.value.index == 1


def test_a_server_that_is_away_is_waited_for(orders):
    sink = a_sink(NOWHERE, orders, server_selection_timeout_ms="200")
    with pytest.raises(RetriableError, match="MongoDB is unavailable"):
        sink.put([SinkRecord("orders", 0, 0, {"n": 1}, key="a")])
    sink.stop()
    with pytest.raises(RetriableError, match="MongoDB is unavailable"):
        a_source(NOWHERE, orders, server_selection_timeout_ms="200")


def test_values_get_mongos_own_forms():
    assert to_document(
        {
            "price": Decimal("1.50"),
            "day": dt.date(2026, 11, 15),
            "clock": dt.time(1, 2),
            "huge": 2**70,
            "list": [Decimal(1)],
        }
    ) == {
        "price": Decimal128("1.50"),
        "day": dt.datetime(2026, 11, 15, tzinfo=dt.UTC),
        "clock": "01:02:00",
        "huge": Decimal128(str(2**70)),
        "list": [Decimal128("1")],
    }


@pytest.mark.parametrize(
    ("texts", "name", "message"),
    [
        ({"collection": "c"}, "database", "Missing required"),
        ({"database": "d", "colection": "c"}, "colection", "Did you mean collection"),
        (
            {"database": "d", "collection": "c", "connection.uri": "http://x"},
            "connection.uri",
            "Invalid connection string",
        ),
    ],
)
def test_wrong_settings_are_refused_by_name(texts, name, message):
    with pytest.raises(InvalidSettings) as caught:
        MongoSourceSettings.read(texts)
    assert message in caught.value.problems[name][0]


def test_deleting_needs_the_key():
    with pytest.raises(ConnectError, match=r"document\.id\.from=key"):
        MongoSinkSettings.read(
            {"database": "d", "delete.on.null.values": "true", "document.id.from": "place"}
        )


def test_the_password_in_the_address_is_never_shown():
    made = MongoSinkSettings.read(
        {"database": "d", "connection.uri": "mongodb://me:s3cret@127.0.0.1"}
    )
    assert "s3cret" not in repr(made)
