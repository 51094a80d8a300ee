"""Whatever is sent, it is a schema or it is refused in plain words."""

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.registry.formats import InvalidSchema, Referenced, SchemaType, parse
from strom.registry.formats.schema import MAX_CHARACTERS

AVRO_WORDS = (
    *("type", "name", "namespace", "fields", "symbols", "size", "items", "values", "aliases"),
    *("default", "doc", "order", "logicalType"),
)
AVRO_VALUES = ("record", "enum", "fixed", "array", "map", "int", "string", "null", "A", "B")
JSON_WORDS = (
    *("type", "properties", "required", "items", "additionalItems", "additionalProperties"),
    *("$ref", "$id", "definitions", "anyOf", "allOf", "oneOf", "not", "if", "then", "enum"),
    *("const", "pattern", "minimum", "dependencies", "patternProperties", "$schema", "prefixItems"),
)
JSON_VALUES = (
    *("object", "array", "string", "integer", "#", "#/definitions/a", "a", "http://x.test/y"),
    *("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-04/schema#"),
)


def documents(words, values):
    scalars = st.one_of(
        st.sampled_from(values), st.none(), st.booleans(), st.integers(-3, 9), st.floats(-1, 9)
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from((*words, "a")), inner, max_size=5),
        ),
        max_leaves=20,
    )


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        (SchemaType.AVRO, documents(AVRO_WORDS, AVRO_VALUES)),
        (SchemaType.JSON, documents(JSON_WORDS, JSON_VALUES)),
    ],
    ids=["avro", "json"],
)
def test_any_document_is_read_or_refused(kind, strategy):
    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(one=strategy, other=strategy)
    def law(one, other):
        with suppress(InvalidSchema):
            reader, writer = (parse(kind, json.dumps(text)) for text in (one, other))
            assert parse(kind, reader.canonical).canonical == reader.canonical
            assert parse(kind, reader.normalized).normalized == reader.normalized
            assert isinstance(reader.problems_reading(writer), list)

    law()


@pytest.mark.parametrize("kind", SchemaType)
@settings(max_examples=100, deadline=None)
@given(text=st.text())
def test_any_text_is_read_or_refused(kind, text):
    with suppress(InvalidSchema):
        assert parse(kind, text).canonical.encode()


@pytest.mark.parametrize("kind", SchemaType)
def test_an_empty_text_is_refused(kind):
    with pytest.raises(InvalidSchema, match="The schema is empty"):
        parse(kind, " \n")


def test_the_size_of_references_counts():
    half = json.dumps(
        {"type": "enum", "name": "E", "symbols": [], "doc": "x" * (MAX_CHARACTERS // 2)}
    )
    referenced = Referenced("E", half, (Referenced("F", half),))
    with pytest.raises(InvalidSchema, match="exceed the limit of 1,000,000"):
        parse(SchemaType.AVRO, '"int"', [referenced])


def test_kinds_are_spelled_as_clients_spell_them():
    assert [str(kind) for kind in SchemaType] == ["AVRO", "JSON", "PROTOBUF"]
