"""Whatever is sent, it is a schema or it is refused in plain words."""

import contextlib
import json
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.registry.formats import InvalidSchema, Referenced, SchemaType, parse, parsing
from strom.registry.formats.schema import MAX_CHARACTERS
from strom.supervision.limited_calls import CallLimits, LimitedCalls, LimitExceeded

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
    referenced = [Referenced("E", half), Referenced("F", half)]
    with pytest.raises(InvalidSchema, match="exceed the limit of 1,000,000"):
        parse(SchemaType.AVRO, '"int"', referenced)


def test_kinds_are_spelled_as_clients_spell_them():
    assert [str(kind) for kind in SchemaType] == ["AVRO", "JSON", "PROTOBUF"]


DAG = 60
"""Each document refers to all before it, so that there are 2**60 ways through them."""
PROTO = 'syntax = "proto3";'


def public_imports():
    for number in range(DAG):
        imports = "".join(f'import public "f{other}.proto";' for other in range(number))
        yield Referenced(f"f{number}.proto", f"{PROTO}{imports}message F{number} {{}}")


def referring_documents():
    yield Referenced("f0.json", '{"type": "string"}')
    for number in range(1, DAG):
        parts = [{"$ref": f"f{other}.json"} for other in range(number)]
        yield Referenced(f"f{number}.json", json.dumps({"allOf": parts}))


TOO_COMPLEX: dict[str, tuple[SchemaType, str, Callable[[], Iterable[Referenced]]]] = {
    "public imports": (SchemaType.PROTOBUF, f'{PROTO}import "f59.proto";', public_imports),
    "maps": (
        SchemaType.PROTOBUF,
        f"{PROTO}message A {{{''.join(f'map<int32,int32> f{n}={n};' for n in range(1, 33_000))}}}",
        tuple,
    ),
    "a long path of names": (
        SchemaType.PROTOBUF,
        f"{PROTO}message {'a' * 60_000} {{{''.join(f'bool f{n}={n};' for n in range(1, 40_000))}}}",
        tuple,
    ),
    "references between documents": (SchemaType.JSON, '{"$ref": "f59.json"}', referring_documents),
}


@pytest.mark.parametrize("name", TOO_COMPLEX)
def test_a_schema_that_takes_a_library_too_long_is_refused(name, monkeypatch):
    libraries = LimitedCalls("strom.registry.formats.library_calls", CallLimits(cpu_s=0.5))
    monkeypatch.setattr(parsing, "_libraries", lambda: libraries)
    kind, text, references = TOO_COMPLEX[name]
    with pytest.raises(InvalidSchema, match="The schema is too complex"):
        parse(kind, text, tuple(references()))


def test_a_lenient_parse_is_limited_too(monkeypatch):
    libraries = LimitedCalls("strom.registry.formats.library_calls", CallLimits(cpu_s=0.5))
    monkeypatch.setattr(parsing, "_libraries", lambda: libraries)
    chain = {f"a{n}": {"$ref": f"#/definitions/a{n + 1}"} for n in range(10_000)}
    text = json.dumps({"definitions": chain, "allOf": list(chain.values())})
    with pytest.raises(InvalidSchema, match="The schema is too complex"):
        parse(SchemaType.JSON, text, lenient=True)


def test_a_stored_schema_that_is_too_complex_to_validate_is_parsed():
    assert parse(
        SchemaType.JSON, '{"$ref": "f59.json"}', tuple(referring_documents()), lenient=True
    )


def test_a_chain_of_references_is_no_limit():
    references = [Referenced("f0.proto", PROTO + "message F0 {}")]
    for number in range(1, 100):
        text = f'{PROTO}import public "f{number - 1}.proto"; message F{number} {{}}'
        references.append(Referenced(f"f{number}.proto", text))
    text = f'{PROTO}import "f99.proto"; message A {{ F0 first = 1; }}'
    assert parse(SchemaType.PROTOBUF, text, references)


NOT_FILES = ["google/type/" + "a" * 5000, "google/type/", "google/type/..", "google/type/a\\000b"]


@pytest.mark.parametrize("path", NOT_FILES)
def test_an_import_that_no_file_can_have_is_refused(path):
    with pytest.raises(InvalidSchema):
        parse(SchemaType.PROTOBUF, f'{PROTO}import "{path}";')


def test_a_message_above_the_size_that_the_library_supports_is_refused():
    fields = "".join(f"int32 f{n}={n};" for n in range(1, 20_000))
    with pytest.raises(InvalidSchema, match="not supported"):
        parse(SchemaType.PROTOBUF, f'{PROTO}option java_package="x";message A {{{fields}}}')


def test_schemas_that_take_long_leave_child_processes_for_short_ones(monkeypatch):
    libraries = parsing._Libraries()
    monkeypatch.setattr(parsing, "_libraries", lambda: libraries)
    with contextlib.ExitStack() as taken:
        for _ in range(4):  # as many as there are for long ones
            taken.enter_context(libraries.long._free)
        assert not libraries.long._free.acquire(blocking=False)
        assert parse(SchemaType.PROTOBUF, PROTO + "message A {}")


def test_a_short_text_that_takes_long_is_parsed_among_the_long_ones(monkeypatch):
    libraries = parsing._Libraries()
    monkeypatch.setattr(parsing, "_libraries", lambda: libraries)

    def exceed(*_):
        raise LimitExceeded("It takes too much CPU time.")

    monkeypatch.setattr(libraries.short, "call", exceed)
    assert parse(SchemaType.PROTOBUF, PROTO + "message A {}")
