"""Protobuf: structs as messages that anyone's Protobuf reads, and back."""

import dataclasses
import datetime as dt
import importlib.util
import itertools
from decimal import Decimal

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, given, settings

from strom.connect.api import PoisonRecord
from strom.connect.api.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    array,
    decimal,
    mapping,
    struct,
)
from strom.connect.converters import make_converter
from strom.connect.converters.protobuf_schemas import ENUM, TAG, ToProtobuf
from strom.registry.client import RegistryClient, frame
from tests.connect.shapes import shaped

topics = (f"protobuf-{number}" for number in itertools.count())
POINT = struct({"x": INT32, "y": INT32}, name="Point")
ORDER = struct(
    {
        "id": INT64,
        "small": Schema(Type.INT8),
        "note": Schema(Type.STRING, optional=True),
        "paid": BOOLEAN,
        "raw": BYTES,
        "ratio": FLOAT64,
        "total": decimal(2),
        "day": DATE,
        "time": TIME,
        "at": TIMESTAMP,
        "tags": array(STRING),
        "points": array(POINT),
        "counts": mapping(STRING, INT32),
        "places": mapping(INT32, POINT),
        "odd": mapping(DATE, array(STRING)),
        "where": dataclasses.replace(POINT, optional=True),
    },
    name="shop.Order",
)
VALUE = {
    "id": 2**40,
    "small": -5,
    "note": None,
    "paid": True,
    "raw": b"\x00\xff",
    "ratio": 0.25,
    "total": Decimal("-12.50"),
    "day": dt.date(2024, 2, 29),
    "time": dt.time(13, 5, 7, 89000),
    "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC),
    "tags": ["a", ""],
    "points": [{"x": 1, "y": 2}, {"x": 0, "y": 0}],
    "counts": {"a": 1},
    "places": {7: {"x": 3, "y": 4}},
    "odd": {dt.date(2024, 1, 1): ["x"]},
    "where": {"x": 0, "y": 0},
}


@pytest.fixture
def converter(registry_url):
    made = make_converter("Protobuf", {"schema.registry.url": registry_url}, is_key=False)
    yield made
    made.close()


def bare(schema):
    """The schema without what Protobuf adds (numbers), or cannot say (names of inner messages)."""
    if schema is None:
        return None
    return dataclasses.replace(
        schema,
        name=schema.name if schema.type is not Type.STRUCT else None,
        optional=schema.optional and schema.type is not Type.STRUCT,
        parameters=tuple(pair for pair in schema.parameters if pair[0] != TAG),
        fields=tuple(
            dataclasses.replace(field, schema=bare(field.schema)) for field in schema.fields
        ),
        key=bare(schema.key),
        value=bare(schema.value),
    )


def written(schema):
    return "\n".join(line.strip() for line in ToProtobuf().text(schema).splitlines())


def test_a_struct_is_a_message():
    assert (
        written(
            struct({"id": INT64, "note": Schema(Type.STRING, optional=True)}, name="shop.Order")
        )
        == 'syntax = "proto3";\npackage shop;\nmessage Order {\n'
        "int64 id = 1;\noptional string note = 2;\n}"
    )


def test_inner_structs_are_inner_messages():
    text = written(struct({"a": struct({"b": array(POINT)})}))
    assert "message ConnectDefault1 {" in text
    assert "repeated Point b = 1;" in text


def test_everything_comes_back(converter):
    data = converter.to_bytes(next(topics), ORDER, VALUE)
    schema, value = converter.from_bytes("t", data)
    assert value == VALUE
    assert schema.name == "shop.Order"
    read = {field.name: field.schema for field in schema.fields}
    for field in ORDER.fields:
        if field.name not in ("day", "time", "at", "total", "odd"):
            assert bare(read[field.name]) == bare(field.schema), field.name
    assert read["total"].parameter("scale") == "2"
    assert [read[name].name for name in ("day", "time", "at")] == [
        DATE.name,
        TIME.name,
        TIMESTAMP.name,
    ]


def test_a_missing_value_is_distinguished_from_an_empty_one(converter):
    schema = struct({"a": Schema(Type.STRING, optional=True)}, name="M")
    topic = next(topics)
    for value in (None, ""):
        assert converter.from_bytes("t", converter.to_bytes(topic, schema, {"a": value}))[1] == {
            "a": value
        }


def test_what_was_read_is_written_with_the_same_numbers_and_symbols(converter, registry_url):
    topic, copy = next(topics), next(topics)
    text = """
        syntax = "proto3";
        package cards;
        enum Suit { SPADES = 0; HEARTS = 4; }
        message Other { int32 a = 1; }
        message Card { Suit suit = 7; uint32 rank = 3; oneof extra { string note = 9; int32 n = 8; } }
    """
    with RegistryClient(registry_url) as client:
        schema_id = client.register(f"{topic}-value", text, "PROTOBUF")
        # Message 1 of the file; suit (7) is 4, rank (3) is 5, note (9) is "x".
        data = frame(schema_id, b"\x02\x02" + b"\x38\x04\x18\x05\x4a\x01x")
        schema, value = converter.from_bytes(topic, data)
        assert value == {"suit": "HEARTS", "rank": 5, "note": "x", "n": None}
        assert schema.field("suit").schema.parameter(f"{ENUM}.HEARTS") == "4"
        again = converter.to_bytes(copy, schema, value)
        assert converter.from_bytes(copy, again)[1] == value
        kept = client.latest(f"{copy}-value").text
    assert "HEARTS = 4" in kept
    assert "suit = 7" in kept


def test_messages_in_other_files_are_found(converter, registry_url):
    topic = next(topics)
    with RegistryClient(registry_url) as client:
        client.register(
            "geo.proto", 'syntax = "proto3"; package geo; message P { int32 x = 1; }', "PROTOBUF"
        )
        schema_id = client.register(
            f"{topic}-value",
            'syntax = "proto3"; import "geo.proto"; message Q { geo.P at = 1; }',
            "PROTOBUF",
            [("geo.proto", "geo.proto", 1)],
        )
    _, value = converter.from_bytes(topic, frame(schema_id, b"\0\x0a\x02\x08\x05"))
    assert value == {"at": {"x": 5}}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(pair=shaped)
def test_every_value_that_protobuf_can_hold_comes_back(converter, pair):
    schema, value = struct({"it": pair[0]}, name="Any"), {"it": pair[1]}
    try:
        ToProtobuf().text(schema)
    except PoisonRecord:
        return  # arrays of arrays
    data = converter.to_bytes(next(topics), schema, value)
    assert converter.from_bytes("t", data)[1] == value


@pytest.fixture(scope="module")
def order_module(tmp_path_factory):
    """Classes that protoc makes of a file."""
    from grpc_tools import protoc

    folder = tmp_path_factory.mktemp("proto")
    (folder / "strom_converter_test.proto").write_text(
        'syntax = "proto3"; package shop; message Line { int64 id = 1; repeated string tags = 2;'
        " optional string note = 3; map<string, int32> counts = 4; }"
    )
    assert (
        protoc.main(["", f"-I{folder}", f"--python_out={folder}", "strom_converter_test.proto"])
        == 0
    )
    spec = importlib.util.spec_from_file_location(
        "strom_converter_test_pb2", folder / "strom_converter_test_pb2.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LINE = struct(
    {
        "id": INT64,
        "tags": array(STRING),
        "note": Schema(Type.STRING, optional=True),
        "counts": mapping(STRING, INT32),
    },
    name="shop.Line",
)
LINE_VALUE = {"id": 7, "tags": ["a"], "note": "n", "counts": {"x": 1}}


def test_confluents_deserializer_reads_what_is_written_here(converter, registry_url, order_module):
    topic = next(topics)
    data = converter.to_bytes(topic, LINE, LINE_VALUE)
    with SchemaRegistryClient({"url": registry_url}) as client:
        deserializer = ProtobufDeserializer(order_module.Line, {}, client)
        read = deserializer(data, SerializationContext(topic, MessageField.VALUE))
    expected = order_module.Line(id=7, tags=["a"], note="n", counts={"x": 1})
    assert read == expected


def test_what_confluents_serializer_writes_is_read_here(converter, registry_url, order_module):
    topic = next(topics)
    message = order_module.Line(id=7, tags=["a"], note="n", counts={"x": 1})
    with SchemaRegistryClient({"url": registry_url}) as client:
        serializer = ProtobufSerializer(order_module.Line, client, {})
        data = serializer(message, SerializationContext(topic, MessageField.VALUE))
    schema, value = converter.from_bytes(topic, data)
    assert value == LINE_VALUE
    assert bare(schema) == bare(LINE)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (STRING, "x"),
        (None, {"a": 1}),
        (struct({"a": INT32}), {"a": "x"}),
        (struct({"a": INT32}), {"a": 2**31}),
        (struct({"a": INT32}), {}),
        (struct({"a": INT32}), {"a": 1, "b": 2}),
        (struct({"a b": INT32}), {"a b": 1}),
        (struct({"a": array(array(INT32))}), {"a": [[1]]}),
        (struct({"a": array(INT32)}), {"a": 5}),
    ],
)
def test_values_that_do_not_fit_are_refused(converter, schema, value):
    with pytest.raises(PoisonRecord):
        converter.to_bytes(next(topics), schema, value)


@pytest.mark.parametrize("data", [b"", b"plain", b"\0\0\0\0\1", b"\0\0\0\0\1\x02"])
def test_bytes_of_another_kind_are_refused(converter, data):
    with pytest.raises(PoisonRecord):
        converter.from_bytes("t", data)


def test_nothing_is_a_tombstone(converter):
    assert converter.to_bytes("t", LINE, None) is None
    assert converter.from_bytes("t", None) == (None, None)
