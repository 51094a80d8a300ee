"""Avro: schemas mapped as Confluent's converter maps them, bytes that its serializers understand."""

import dataclasses
import datetime as dt
import itertools
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings

from strom.connect.api import InvalidSettings, PoisonRecord, RetriableError
from strom.connect.api.schema import (
    DATE,
    FLOAT64,
    INT32,
    INT64,
    NO_DEFAULT,
    STRING,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    array,
    decimal,
    mapping,
    struct,
)
from strom.connect.converters import Converter, make_converter
from strom.connect.converters.avro_schemas import FromAvro, ToAvro
from strom.registry.client import RegistryClient
from tests.connect.shapes import shaped

MOMENT = dt.datetime(2024, 2, 29, 13, 5, 7, 89000, tzinfo=dt.UTC)
topics = (f"avro-{number}" for number in itertools.count())


OPEN: list[Converter] = []


def avro(url, **more):
    texts = {name.replace("_", "."): text for name, text in more.items()}
    made = make_converter("Avro", {"schema.registry.url": url, **texts}, is_key=False)
    OPEN.append(made)
    return made


@pytest.fixture(autouse=True)
def closed():
    yield
    while OPEN:
        OPEN.pop().close()


def back(schema):
    """The schema that Avro's schema of it stands for."""
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(json.loads(json.dumps(ToAvro().schema(schema))), named)
    return FromAvro(named).schema(parsed)


CONFLUENTS = [
    (STRING, "string"),
    (Schema(Type.INT8), {"type": "int", "connect.type": "int8"}),
    (Schema(Type.INT16), {"type": "int", "connect.type": "int16"}),
    (Schema(Type.STRING, optional=True), ["null", "string"]),
    (
        Schema(Type.STRING, optional=True, default="d"),
        [{"type": "string", "connect.default": "d"}, "null"],
    ),
    (
        Schema(Type.INT32, name="n", version=2, doc="d", parameters=(("a", "b"),)),
        {
            "type": "int",
            "connect.doc": "d",
            "connect.version": 2,
            "connect.parameters": {"a": "b"},
            "connect.name": "n",
        },
    ),
    (
        decimal(2),
        {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": 64,
            "scale": 2,
            "connect.version": 1,
            "connect.parameters": {"scale": "2"},
            "connect.name": "org.apache.kafka.connect.data.Decimal",
        },
    ),
    (
        TIMESTAMP,
        {
            "type": "long",
            "logicalType": "timestamp-millis",
            "connect.version": 1,
            "connect.name": "org.apache.kafka.connect.data.Timestamp",
        },
    ),
    (array(INT32), {"type": "array", "items": "int"}),
    (mapping(STRING, INT64), {"type": "map", "values": "long"}),
    (
        mapping(INT32, FLOAT64),
        {
            "type": "array",
            "items": {
                "type": "record",
                "name": "MapEntry",
                "namespace": "io.confluent.connect.avro",
                "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "double"}],
            },
        },
    ),
    (
        struct({"a": INT32, "b": Schema(Type.STRING, optional=True)}, name="shop.order"),
        {
            "type": "record",
            "name": "order",
            "namespace": "shop",
            "fields": [
                {"name": "a", "type": "int"},
                {"name": "b", "type": ["null", "string"], "default": None},
            ],
            "connect.name": "shop.order",
        },
    ),
    (
        struct({"in": struct({"x": Schema(Type.INT32, default=5)})}),
        {
            "type": "record",
            "name": "ConnectDefault",
            "namespace": "io.confluent.connect.avro",
            "fields": [
                {
                    "name": "in",
                    "type": {
                        "type": "record",
                        "name": "ConnectDefault2",
                        "namespace": "io.confluent.connect.avro",
                        "fields": [
                            {
                                "name": "x",
                                "type": {"type": "int", "connect.default": 5},
                                "default": 5,
                            }
                        ],
                    },
                }
            ],
        },
    ),
]


@pytest.mark.parametrize(("schema", "expected"), CONFLUENTS)
def test_schemas_are_mapped_as_confluents_converter_maps_them(schema, expected):
    assert ToAvro().schema(schema) == expected
    assert back(schema) == schema


def test_a_struct_used_twice_is_defined_once():
    point = struct({"x": INT32}, name="geo.point")
    line = struct({"from": point, "to": dataclasses.replace(point, optional=True)}, name="geo.line")
    found = ToAvro().schema(line)
    assert found["fields"][1]["type"] == ["null", "geo.point"]
    assert back(line) == line


ENUM = "io.confluent.connect.avro.Enum"


def test_an_enum_is_a_string_with_its_symbols_as_parameters(registry_url):
    text = '{"type":"enum","name":"suit","namespace":"cards","symbols":["SPADES","HEARTS"]}'
    topic = next(topics)
    with RegistryClient(registry_url) as client:
        schema_id = client.register(f"{topic}-value", text)
    converter = avro(registry_url)
    schema, value = converter.from_bytes(topic, b"\0" + schema_id.to_bytes(4, "big") + b"\x02")
    assert value == "HEARTS"
    assert schema.name == "cards.suit"
    assert schema.parameter(ENUM) == "cards.suit"
    assert schema.parameter(f"{ENUM}.SPADES") == "SPADES"
    written = ToAvro().schema(schema)
    assert (written["type"], written["symbols"]) == ("enum", ["SPADES", "HEARTS"])
    again = converter.to_bytes(next(topics), schema, "SPADES")
    assert converter.from_bytes("t", again)[1] == "SPADES"


def test_a_union_is_a_struct_with_one_field_of_value(registry_url):
    topic = next(topics)
    with RegistryClient(registry_url) as client:
        schema_id = client.register(f"{topic}-value", '["null","int","string"]')
    converter = avro(registry_url)
    schema, value = converter.from_bytes(topic, b"\0" + schema_id.to_bytes(4, "big") + b"\x04\x02a")
    assert schema.name == "io.confluent.connect.avro.Union"
    assert value == {"int": None, "string": "a"}
    assert converter.from_bytes("t", converter.to_bytes(next(topics), schema, value)) == (
        schema,
        value,
    )


def test_fixed_bytes_and_fixed_decimals_come_back(registry_url):
    topic = next(topics)
    text = {
        "type": "record",
        "name": "f",
        "fields": [
            {"name": "raw", "type": {"type": "fixed", "name": "two", "size": 2}},
            {
                "name": "money",
                "type": {
                    "type": "fixed",
                    "name": "money",
                    "size": 4,
                    "logicalType": "decimal",
                    "precision": 8,
                    "scale": 2,
                },
            },
        ],
    }
    with RegistryClient(registry_url) as client:
        schema_id = client.register(f"{topic}-value", json.dumps(text))
    data = b"\0" + schema_id.to_bytes(4, "big") + b"ab" + (-150).to_bytes(4, "big", signed=True)
    converter = avro(registry_url)
    schema, value = converter.from_bytes(topic, data)
    assert value == {"raw": b"ab", "money": Decimal("-1.50")}
    again = converter.to_bytes(next(topics), schema, value)
    assert again[5:] == data[5:]


def test_a_record_that_holds_itself_is_refused(registry_url):
    topic = next(topics)
    text = '{"type":"record","name":"node","fields":[{"name":"next","type":["null","node"]}]}'
    with RegistryClient(registry_url) as client:
        schema_id = client.register(f"{topic}-value", text)
    with pytest.raises(PoisonRecord, match="is recursive"):
        avro(registry_url).from_bytes(topic, b"\0" + schema_id.to_bytes(4, "big") + b"\0")


@settings(max_examples=150, deadline=None)
@given(pair=shaped)
def test_every_schema_and_value_comes_back(pair):
    from strom.connect.converters.avro_converter import _decoded, _encoded
    from strom.connect.converters.avro_values import (
        avro_reader,
        avro_writer,
        without_logical_types,
    )

    schema, value = pair
    assert back(schema) == schema
    parsed = fastavro.parse_schema(without_logical_types(ToAvro().schema(schema)))
    written = _encoded(parsed, avro_writer(schema)(value))
    assert avro_reader(schema)(_decoded(parsed, written)) == value


ORDER = struct(
    {
        "id": INT64,
        "note": Schema(Type.STRING, optional=True),
        "total": decimal(2),
        "day": DATE,
        "time": TIME,
        "at": TIMESTAMP,
        "tags": array(STRING),
        "counts": mapping(STRING, INT32),
    },
    name="shop.order",
)
ORDER_VALUE = {
    "id": 17,
    "note": None,
    "total": Decimal("12.50"),
    "day": dt.date(2024, 2, 29),
    "time": dt.time(13, 5, 7, 89000),
    "at": MOMENT,
    "tags": ["a", "b"],
    "counts": {"x": 1},
}


def test_confluents_deserializer_reads_what_is_written_here(registry_url):
    topic = next(topics)
    data = avro(registry_url).to_bytes(topic, ORDER, ORDER_VALUE)
    with SchemaRegistryClient({"url": registry_url}) as client:
        read = AvroDeserializer(client)(data, SerializationContext(topic, MessageField.VALUE))
    assert read == ORDER_VALUE


def test_what_confluents_serializer_writes_is_read_here(registry_url):
    topic = next(topics)
    text = json.dumps(ToAvro().schema(ORDER))
    with SchemaRegistryClient({"url": registry_url}) as client:
        serializer = AvroSerializer(client, text)
        data = serializer(ORDER_VALUE, SerializationContext(topic, MessageField.VALUE))
    assert avro(registry_url).from_bytes(topic, data) == (ORDER, ORDER_VALUE)


def test_schemas_with_references_are_read(registry_url):
    topic = next(topics)
    point = '{"type":"record","name":"geo.point","fields":[{"name":"x","type":"int"}]}'
    place = '{"type":"record","name":"geo.place","fields":[{"name":"at","type":"geo.point"}]}'
    with RegistryClient(registry_url) as client:
        client.register("geo.point", point)
        schema_id = client.register(
            f"{topic}-value", place, "AVRO", [("geo.point", "geo.point", 1)]
        )
    schema, value = avro(registry_url).from_bytes(
        topic, b"\0" + schema_id.to_bytes(4, "big") + b"\x06"
    )
    assert value == {"at": {"x": 3}}
    assert schema.field("at").schema.name == "geo.point"


def test_plain_values_need_no_schema_and_others_do(registry_url):
    converter = avro(registry_url)
    for value in ("text", 5, 2.5, True, b"raw"):
        assert converter.from_bytes("t", converter.to_bytes(next(topics), None, value))[1] == value
    with pytest.raises(PoisonRecord, match="schema"):
        converter.to_bytes(next(topics), None, {"a": 1})


def test_nothing_is_a_tombstone(registry_url):
    converter = avro(registry_url)
    assert converter.to_bytes("t", ORDER, None) is None
    assert converter.from_bytes("t", None) == (None, None)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("TopicNameStrategy", "{topic}-value"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "shop.order"),
        ("TopicRecordNameStrategy", "{topic}-shop.order"),
    ],
)
def test_subjects_are_named_by_the_strategy(registry_url, strategy, expected):
    topic = next(topics)
    avro(registry_url, value_subject_name_strategy=strategy).to_bytes(topic, ORDER, ORDER_VALUE)
    with RegistryClient(registry_url) as client:
        assert expected.format(topic=topic) in client.ask("GET", "subjects")


def test_without_registration_only_known_schemas_are_written(registry_url):
    topic = next(topics)
    shy = avro(registry_url, auto_register_schemas="false")
    with pytest.raises(PoisonRecord, match="register"):
        shy.to_bytes(topic, ORDER, ORDER_VALUE)
    avro(registry_url).to_bytes(topic, ORDER, ORDER_VALUE)
    assert shy.to_bytes(topic, ORDER, ORDER_VALUE) is not None


def test_a_schema_that_may_not_follow_is_a_poison_record(registry_url):
    topic = next(topics)
    converter = avro(registry_url)
    converter.to_bytes(topic, struct({"a": INT32}, name="r"), {"a": 1})
    with pytest.raises(PoisonRecord, match="incompatible"):
        converter.to_bytes(topic, struct({"b": STRING}, name="r"), {"b": "x"})


def test_a_registry_that_is_away_is_tried_again_later():
    converter = avro("http://127.0.0.1:9")
    converter._registry._pauses = ()
    with pytest.raises(RetriableError):
        converter.to_bytes("t", STRING, "x")


@pytest.mark.parametrize(
    "data", [b"", b"plain", b"\0\0\0\0\1", b"\0\xff\xff\xff\xff", b"{}", b"\0\0\0"]
)
def test_bytes_of_another_kind_are_refused(registry_url, data):
    with pytest.raises(PoisonRecord):
        avro(registry_url).from_bytes("t", data)


def test_cut_or_lengthened_data_is_refused(registry_url):
    converter = avro(registry_url)
    data = converter.to_bytes(next(topics), ORDER, ORDER_VALUE)
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(PoisonRecord):
            converter.from_bytes("t", wrong)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT32, "x"),
        (INT32, 2**31),
        (STRING, 5),
        (struct({"a": INT32}), {"a": 1, "b": 2}),
        (struct({"a": INT32}), {}),
        (struct({"a": INT32}), 5),
        (array(INT32), ["x"]),
        (Schema(Type.STRUCT, fields=(Field("a b", INT32),)), {"a b": 1}),
    ],
)
def test_values_that_do_not_fit_are_refused(registry_url, schema, value):
    with pytest.raises(PoisonRecord):
        avro(registry_url).to_bytes(next(topics), schema, value)


def test_the_address_is_needed_and_must_be_one():
    with pytest.raises(InvalidSettings) as raised:
        make_converter("Avro", {}, is_key=True)
    assert "key.converter.schema.registry.url" in raised.value.problems
    with pytest.raises(InvalidSettings):
        avro("localhost:8081")


def test_no_default_is_no_default():
    assert back(INT32).default is NO_DEFAULT
