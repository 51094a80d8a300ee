"""JSON Schema: JSON that Confluent's deserializer takes, and back."""

import dataclasses
import itertools
import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings

from strom.connect.api import PoisonRecord
from strom.connect.api.schema import (
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    Schema,
    Type,
    array,
    decimal,
    mapping,
    struct,
)
from strom.connect.converters import make_converter
from strom.connect.converters.json_schema_converter import FromJsonSchema, to_json_schema
from strom.registry.client import RegistryClient, frame
from tests.connect.shapes import shaped

topics = (f"json-schema-{number}" for number in itertools.count())
LINE = struct(
    {
        "id": INT64,
        "note": Schema(Type.STRING, optional=True),
        "tags": array(STRING),
        "counts": mapping(STRING, INT32),
        "pairs": mapping(INT32, STRING),
    },
    name="shop.Line",
)
VALUE = {"id": 7, "note": None, "tags": ["a"], "counts": {"x": 1}, "pairs": {1: "y"}}


@pytest.fixture
def converter(registry_url):
    made = make_converter("JsonSchema", {"schema.registry.url": registry_url}, is_key=False)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (INT32, {"type": "integer", "connect.type": "int32"}),
        (
            Schema(Type.STRING, optional=True, default="d"),
            {"oneOf": [{"type": "null"}, {"type": "string"}], "default": "d"},
        ),
        (array(FLOAT64), {"type": "array", "items": {"type": "number", "connect.type": "float64"}}),
        (
            TIMESTAMP,
            {
                "type": "integer",
                "title": "org.apache.kafka.connect.data.Timestamp",
                "connect.version": 1,
                "connect.type": "int64",
            },
        ),
        (
            struct({"b": STRING, "a": Schema(Type.INT8, optional=True)}, name="n"),
            {
                "type": "object",
                "title": "n",
                "properties": {
                    "b": {"type": "string", "connect.index": 0},
                    "a": {
                        "oneOf": [{"type": "null"}, {"type": "integer", "connect.type": "int8"}],
                        "connect.index": 1,
                    },
                },
                "required": ["b"],
            },
        ),
    ],
)
def test_schemas_are_mapped_as_confluents_converter_maps_them(schema, expected):
    found = to_json_schema(schema, numeric_decimals=False)
    assert found == expected
    assert FromJsonSchema(json.loads(json.dumps(found, sort_keys=True)), {}).schema() == schema


@settings(max_examples=100, deadline=None)
@given(pair=shaped)
def test_every_schema_comes_back(pair):
    found = json.loads(json.dumps(to_json_schema(pair[0], numeric_decimals=False)))
    assert FromJsonSchema(found, {}).schema() == pair[0]


def test_values_come_back_with_their_schema(converter):
    data = converter.to_bytes(next(topics), LINE, VALUE)
    assert converter.from_bytes("t", data) == (LINE, VALUE)


@pytest.mark.parametrize("shape", ["BASE64", "NUMERIC"])
def test_decimals_come_back_either_way(registry_url, shape):
    from decimal import Decimal

    made = make_converter(
        "JsonSchema",
        {"schema.registry.url": registry_url, "decimal.format": shape},
        is_key=False,
    )
    data = made.to_bytes(next(topics), decimal(2), Decimal("1.10"))
    assert made.from_bytes("t", data) == (decimal(2), Decimal("1.10"))
    made.close()


def test_confluents_deserializer_reads_and_checks_what_is_written_here(converter, registry_url):
    topic = next(topics)
    data = converter.to_bytes(topic, LINE, VALUE)
    with SchemaRegistryClient({"url": registry_url}) as client:
        text = client.get_latest_version(f"{topic}-value").schema.schema_str
        deserializer = JSONDeserializer(text, schema_registry_client=client)
        read = deserializer(data, SerializationContext(topic, MessageField.VALUE))
    assert read == {**VALUE, "pairs": [{"key": 1, "value": "y"}]}


def test_what_confluents_serializer_writes_is_read_here(converter, registry_url):
    topic = next(topics)
    text = json.dumps(
        {
            "title": "point",
            "type": "object",
            "properties": {
                "x": {"type": "integer"},
                "label": {"type": ["string", "null"]},
                "at": {"$ref": "#/definitions/place"},
            },
            "required": ["x"],
            "definitions": {"place": {"type": "object", "properties": {"y": {"type": "number"}}}},
        }
    )
    given = {"x": 5, "at": {"y": 1.5}}
    with SchemaRegistryClient({"url": registry_url}) as client:
        serializer = JSONSerializer(text, client)
        data = serializer(given, SerializationContext(topic, MessageField.VALUE))
    schema, value = converter.from_bytes(topic, data)
    assert value == {"x": 5, "label": None, "at": {"y": 1.5}}
    assert [(field.name, field.schema.optional) for field in schema.fields] == [
        ("x", False),
        ("label", True),
        ("at", True),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "true",
        '{"oneOf":[{"type":"string"},{"type":"integer"}]}',
        '{"$ref":"#/definitions/a","definitions":{"a":{"type":"array","items":{"$ref":"#/definitions/a"}}}}',
    ],
)
def test_schemas_that_connect_cannot_say_are_refused(converter, registry_url, text):
    topic = next(topics)
    with RegistryClient(registry_url) as client:
        schema_id = client.register(f"{topic}-value", text, "JSON")
    with pytest.raises(PoisonRecord):
        converter.from_bytes(topic, frame(schema_id, b"[]"))


@pytest.mark.parametrize(("schema", "value"), [(None, {"a": 1}), (INT32, "x"), (LINE, {"id": 1})])
def test_values_that_do_not_fit_are_refused(converter, schema, value):
    with pytest.raises(PoisonRecord):
        converter.to_bytes(next(topics), schema, value)


def test_optional_structs_keep_their_default():
    schema = dataclasses.replace(struct({"a": INT32}), optional=True, default={"a": 5})
    found = json.loads(json.dumps(to_json_schema(schema, numeric_decimals=False)))
    assert FromJsonSchema(found, {}).schema() == schema
