"""Avro records through views: as they are, and with a registry's schema ids before them."""

import io
import json
import struct
from datetime import timedelta
from typing import Any

import fastavro
import pytest

from strom.model.errors import UserError
from strom.pipelines import Project, Stream, View, count, sum  # noqa: A004
from strom.pipelines.runner import check_definitions
from strom.pipelines.schemas import with_schemas
from strom.pipelines.settings import ProjectSettings
from tests.pipelines.oracle import START
from tests.pipelines.world import World, fresh_topic

MOMENT = {"type": "long", "logicalType": "timestamp-millis"}
OLD = {
    "type": "record",
    "name": "Click",
    "namespace": "shop",
    "fields": [{"name": "page", "type": "string"}, {"name": "at", "type": MOMENT}],
}
NEW = {
    **OLD,
    "fields": [
        {"name": "at", "type": MOMENT},
        {"name": "page", "type": ["null", "string"], "default": None},
        {"name": "ms", "type": "long", "default": 7},
    ],
}


def encoded(schema, row):
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), row)
    return written.getvalue()


def framed(number, payload):
    return struct.pack(">BI", 0, number) + payload


def click(number, **more):
    return {"page": f"/{number % 2}", "at": START + timedelta(seconds=number), **more}


def views_of(stream):
    return [
        View(reads=stream, keys=["page"], measures={"n": count(), "ms": sum("ms")}, name="pages")
    ]


def reasons(world):
    rows = world.query(f"SELECT reason FROM {world.dead.feed.name} ORDER BY reason")
    return [row["reason"] for row in rows]


def test_avro_strings_that_are_not_utf8_are_malformed_wherever_they_are(
    spark, kafka_servers, tmp_path
):
    fields = [
        {"name": "page", "type": "string"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "names", "type": {"type": "map", "values": ["null", "string"]}},
        {"name": "ms", "type": "long"},
    ]
    schema = {"type": "record", "name": "Tagged", "fields": fields}
    stream = Stream(fresh_topic("avro"), format="avro", schema=json.dumps(schema))
    world = World(spark, kafka_servers, tmp_path, stream, views_of(stream))
    try:
        good = {"page": "/0", "tags": ["grün"], "names": {"k": "v", "n": None}, "ms": 1}
        odd: list[dict[str, Any]] = [{"page": "/XX"}, {"tags": ["a", "XX"]}, {"names": {"k": "XX"}}]
        records = [encoded(schema, {**good, **one}) for one in odd]
        world.send([encoded(schema, good), *(one.replace(b"XX", b"\xfc\xff") for one in records)])
        world.speed().step()
        assert world.query("SELECT n FROM pages") == [{"n": 1}]
        assert reasons(world) == [
            "names is not valid UTF-8",
            "page is not valid UTF-8",
            "tags is not valid UTF-8",
        ]
    finally:
        world.close()


def test_plain_avro_is_read_and_what_is_broken_reported(spark, kafka_servers, tmp_path):
    topic = fresh_topic("avro")
    stream = Stream(topic, format="avro", schema=json.dumps(NEW), time="at")
    world = World(spark, kafka_servers, tmp_path, stream, views_of(stream))
    try:
        good = [encoded(NEW, click(number, ms=number)) for number in range(10)]
        world.send([*good, good[0][:-2], b"", None])
        world.speed().step()
        assert world.query("SELECT page, n, ms::INT AS ms FROM pages ORDER BY page") == [
            {"page": "/0", "n": 5, "ms": 20},
            {"page": "/1", "n": 5, "ms": 25},
        ]
        assert reasons(world) == [
            "not Avro of the schema",
            "not Avro of the schema",
            "the record has no value",
        ]
    finally:
        world.close()


@pytest.fixture(scope="module")
def registry(kafka_servers):
    from strom.registry.server import RegistryServer

    with RegistryServer(kafka_servers) as server:
        yield server.url


class Shop:
    """A project whose stream has its schema in the registry, and confluent-kafka as its producer."""

    def __init__(self, registry, folder):
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.topic, self.folder, self.url = fresh_topic("framed"), folder, registry
        self.client = SchemaRegistryClient({"url": registry})

    def project(self, **options):
        stream = Stream(self.topic, format="avro", schema="registry", time="at", **options)
        views = {view.name: view for view in views_of(stream)}
        settings = ProjectSettings(registry=self.url, servers="x")
        return with_schemas(Project(self.folder, settings, {}, views))

    def written(self, schema, rows):
        """Records as confluent-kafka's serializer makes them, which registers the schema."""
        from confluent_kafka.schema_registry.avro import AvroSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        serialize = AvroSerializer(self.client, json.dumps(schema))
        context = SerializationContext(self.topic, MessageField.VALUE)
        return [serialize(row, context) for row in rows]


@pytest.fixture
def shop(registry, tmp_path):
    shop = Shop(registry, tmp_path)
    with shop.client:
        yield shop


def test_every_record_is_read_by_the_schema_it_was_written_with(
    shop, spark, kafka_servers, tmp_path
):
    first = shop.written(OLD, [click(number) for number in range(6)])
    second = shop.written(NEW, [click(number, ms=100) for number in range(4)])
    broken = [framed(999_999, second[0][5:]), second[0][:7], b"\x01nothing", b""]
    (view,) = shop.project().views.values()
    world = World(spark, kafka_servers, tmp_path, view.stream, [view])
    try:
        world.send([*first, *broken, *second])
        world.speed().step()
        wanted = [{"page": "/0", "n": 5, "ms": 221}, {"page": "/1", "n": 5, "ms": 221}]
        asked = "SELECT page, n, ms::INT AS ms FROM pages ORDER BY page"
        assert world.query(asked) == wanted
        told = reasons(world)
        assert told[:2] == ["no schema id before the data"] * 2
        assert told[2].startswith("not readable as Avro of schema ")
        assert told[3] == "the registry has no Avro schema 999999"
        world.archive()
        world.batch("pages")
        assert world.query(asked) == wanted
        world.replay(view)
        assert world.query(asked) == wanted
    finally:
        world.close()


def test_a_schema_that_has_changed_since_is_refused_with_the_way_out(
    shop, spark, kafka_servers, tmp_path
):
    first = shop.written(NEW, [click(1, ms=1)])
    before = shop.project()
    (view,) = before.views.values()
    world = World(spark, kafka_servers, tmp_path / "data", view.stream, [view])
    try:
        world.send(first)
        world.speed().step()
    finally:
        world.close()
    assert check_definitions(before) == []
    newer = {**NEW, "fields": [*NEW["fields"], {"name": "x", "type": "int", "default": 1}]}
    shop.written(newer, [click(2, ms=2, x=2)])
    with pytest.raises(UserError, match=r"strom replay pages.*version="):
        check_definitions(shop.project())
    assert check_definitions(shop.project(version=view.stream.version)) == []


def test_what_spark_writes_others_read(shop, spark, kafka_servers):
    """Spark's to_avro behind the id of a registered schema, read by confluent-kafka."""
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext
    from pyspark.sql import functions as sf
    from pyspark.sql.avro.functions import to_avro

    from strom.registry.client import RegistryClient

    text = json.dumps(OLD)
    with RegistryClient(shop.url) as client:
        number = client.register(f"{shop.topic}-value", text)
    rows = spark.createDataFrame([("/cart", START)], "page STRING, at TIMESTAMP")
    payload = to_avro(sf.struct("page", "at"), text)
    made = rows.select(sf.concat(sf.lit(framed(number, b"")), payload).alias("v")).collect()
    context = SerializationContext(shop.topic, MessageField.VALUE)
    assert AvroDeserializer(shop.client)(bytes(made[0]["v"]), context) == {
        "page": "/cart",
        "at": START,
    }
