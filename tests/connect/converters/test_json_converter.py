"""JSON with and without schemas: as Kafka's converter, but never a wrong value for a bad one."""

import json
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.connect.api import InvalidSettings, PoisonRecord
from strom.connect.api.schema import (
    FLOAT64,
    INT32,
    STRING,
    Field,
    Schema,
    Type,
    decimal,
    mapping,
)
from strom.connect.converters import make_converter
from tests.connect.judge import Judge
from tests.connect.shapes import shaped

SCHEMAS = make_converter("JSON", {}, is_key=False)
PLAIN = make_converter(
    "org.apache.kafka.connect.json.JsonConverter", {"schemas.enable": "false"}, is_key=True
)


def envelope(schema, payload):
    return json.dumps({"schema": schema, "payload": payload})


AS_KAFKA = [
    ({}, envelope({"type": "int32"}, 5)),
    ({}, envelope({"type": "int8", "optional": True}, None)),
    ({}, envelope({"type": "string", "optional": True, "default": "d"}, None)),
    ({}, envelope({"type": "string", "default": "d"}, None)),
    ({"replace.null.with.default": "false"}, envelope({"type": "string", "optional": True}, None)),
    ({}, envelope({"type": "string"}, None)),
    ({}, envelope({"type": "int32", "name": "n", "version": 3, "doc": "d"}, 5)),
    ({}, envelope({"type": "int32", "parameters": {"a": "b"}}, 5)),
    ({}, envelope({"type": "int32", "parameters": {"a": 1}}, 5)),
    ({}, envelope({"type": "float"}, 0.1)),
    ({}, envelope({"type": "double"}, 1e300)),
    ({}, envelope({"type": "double"}, 3)),
    ({}, envelope({"type": "boolean"}, True)),
    ({}, envelope({"type": "bytes"}, "AQI=")),
    ({}, envelope({"type": "array", "items": {"type": "int64"}}, [1, 2])),
    ({}, envelope({"type": "array"}, [1, 2])),
    (
        {},
        envelope(
            {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}, {"a": 1}
        ),
    ),
    (
        {},
        envelope({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, [[1, 2]]),
    ),
    ({}, envelope({"type": "map", "keys": {"type": "int32"}, "values": {"type": "int32"}}, [[1]])),
    ({}, envelope({"type": "map", "keys": {"type": "int32"}}, {})),
    ({}, envelope({"type": "struct", "fields": [{"type": "int32", "field": "a"}]}, {"a": 1})),
    ({}, envelope({"type": "struct", "fields": [{"type": "int32", "field": "a"}]}, {})),
    ({}, envelope({"type": "struct", "fields": [{"type": "int32"}]}, {"a": 1})),
    ({}, envelope({"type": "struct"}, {})),
    ({}, envelope({"type": "nothing"}, 1)),
    ({}, envelope({}, 1)),
    ({}, envelope(None, {"a": [1, 2.5, "x", None, True]})),
    ({}, envelope(None, None)),
    ({}, '{"schema": null}'),
    ({}, '{"schema": null, "payload": 1, "more": 2}'),
    ({}, "5"),
    ({}, "{"),
    ({}, "NaN"),
    ({}, None),
    *[
        (
            {"decimal.format": shape},
            envelope(
                {
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "version": 1,
                    "parameters": {"scale": "2"},
                },
                written,
            ),
        )
        for shape in ("BASE64", "numeric")
        for written in ("BOI=", "/w==")
    ],
    *[
        ({}, envelope({"type": kind, "name": f"org.apache.kafka.connect.data.{name}"}, number))
        for kind, name, number in (
            ("int32", "Date", 19_000),
            ("int32", "Time", 47_000_000),
            ("int64", "Timestamp", 1_700_000_000_123),
            ("int64", "Timestamp", "x"),
        )
    ],
    *[
        ({"schemas.enable": "false"}, text)
        for text in ("1", '"x"', "null", '{"a":{"b":[1,true,null]}}', "[]", "1.5", "", "{", None)
    ],
]


@pytest.mark.oracle
@pytest.mark.parametrize(("texts", "data"), AS_KAFKA)
def test_what_is_read_and_written_again_is_what_kafka_makes_of_it(judge: Judge, texts, data):
    theirs = judge.ask({"do": "json", "settings": texts, "data": data})
    converter = make_converter("JSON", texts, is_key=False)
    try:
        schema, value = converter.from_bytes("t", None if data is None else data.encode())
        written = converter.to_bytes("t", schema, value)
    except PoisonRecord:
        assert "error" in theirs
    else:
        assert "error" not in theirs
        expected = theirs["data"]
        assert (written and json.loads(written)) == (expected and json.loads(expected))


@settings(max_examples=200, deadline=None)
@given(pair=shaped, shape=st.sampled_from(["BASE64", "NUMERIC"]))
def test_every_value_comes_back_with_its_schema(pair, shape):
    converter = make_converter("JSON", {"decimal.format": shape}, is_key=False)
    for _ in range(2):  # the second time, the schema is recognised by its bytes
        assert converter.from_bytes("t", converter.to_bytes("t", *pair)) == pair


@pytest.mark.oracle
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(pair=shaped)
def test_kafka_reads_what_is_written_and_writes_it_the_same(judge: Judge, pair):
    written = SCHEMAS.to_bytes("t", *pair)
    theirs = judge.ask({"do": "json", "settings": {}, "data": written.decode()})
    if "error" in theirs:
        # Kafka reads no dates before its calendar's change, and no times it cannot hold.
        assert "name" in written.decode()
        return
    assert SCHEMAS.from_bytes("t", theirs["data"].encode()) == pair


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ("int32", '"5"'),
        ("int32", "1.5"),
        ("int32", "2147483648"),
        ("int8", "128"),
        ("boolean", "1"),
        ("string", "5"),
        ("double", '"x"'),
        ("bytes", '"not base64"'),
        ("bytes", "5"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_where_kafka_reads_a_wrong_one(schema, payload):
    data = f'{{"schema":{{"type":"{schema}"}},"payload":{payload}}}'
    with pytest.raises(PoisonRecord):
        SCHEMAS.from_bytes("t", data.encode())


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_numbers_come_back(value):
    assert SCHEMAS.from_bytes("t", SCHEMAS.to_bytes("t", FLOAT64, value)) == (FLOAT64, value)


def test_a_key_in_the_payload_that_looks_like_the_envelope_does_not_confuse():
    schema = mapping(STRING, mapping(STRING, INT32))
    value = {"schema": {"payload": 1}, "payload": {"payload": 2}}
    for _ in range(2):
        assert SCHEMAS.from_bytes("t", SCHEMAS.to_bytes("t", schema, value)) == (schema, value)


def test_a_default_that_looks_like_the_envelope_does_not_confuse():
    schema = Schema(
        Type.MAP, key=STRING, value=INT32, default={"x": 1, "payload": 2}, optional=True
    )
    for value in ({"a": 1}, {"b": 2}):
        assert SCHEMAS.from_bytes("t", SCHEMAS.to_bytes("t", schema, value)) == (schema, value)


def test_a_struct_with_a_field_its_schema_does_not_have_is_refused():
    with pytest.raises(PoisonRecord, match="no field b"):
        SCHEMAS.to_bytes("t", Schema(Type.STRUCT, fields=(Field("a", INT32),)), {"a": 1, "b": 2})


def test_decimals_as_numbers_keep_their_digits():
    converter = make_converter("JSON", {"decimal.format": "NUMERIC"}, is_key=False)
    written = converter.to_bytes("t", decimal(3), Decimal("12345678901234567890.120"))
    assert b'"payload":12345678901234567890.120' in written


def test_nothing_is_a_tombstone():
    assert SCHEMAS.to_bytes("t", None, None) is None
    assert SCHEMAS.from_bytes("t", None) == (None, None)


def test_settings_are_refused_by_name():
    with pytest.raises(InvalidSettings) as raised:
        make_converter("JSON", {"schema.enable": "false", "decimal.format": "HEX"}, is_key=True)
    assert "schemas.enable" in raised.value.problems["key.converter.schema.enable"][0]
