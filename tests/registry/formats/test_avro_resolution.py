"""Avro's schema resolution: a table of cases, and whatever Hypothesis finds, before two judges."""

import io
import json
import re

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.registry.formats import SchemaType, parse
from tests.registry.formats.avro_cases import CASES, array, field, record
from tests.registry.formats.avro_schemas import values, versions, without_aliases

NAMES = [case.what for case in CASES]
# It compares the enum with the record around the missing field, and blames their types.
ODD_REASON = "enum field added, whose enum has a default, but not the field"


def avro(schema):
    return parse(SchemaType.AVRO, json.dumps(schema))


def problems(reader, writer):
    return avro(reader).problems_reading(avro(writer))


def test_the_table_is_large_and_has_both_answers():
    assert len(set(NAMES)) == len(CASES) > 200
    assert 60 < sum(case.readable for case in CASES) < len(CASES) - 60


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_case_is_answered_as_the_table_says(case):
    assert (problems(case.reader, case.writer) == []) is case.readable


def test_avros_own_library_gives_the_same_answers_and_reasons(avro_judge):
    for case in CASES:
        judged = avro_judge.compares(json.dumps(case.reader), json.dumps(case.writer))
        found = problems(case.reader, case.writer)
        assert judged["readable"] is case.readable, case.what
        if "failed" not in judged and case.what != ODD_REASON:
            assert sorted(map(without_words, found)) == sorted(judged["reasons"]), case.what


def without_words(problem):
    return re.match(r"\w+ at [^:]*", problem)[0]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pair=versions())
def test_avros_own_library_gives_the_same_answer_for_any_schemas(avro_judge, pair):
    reader, writer = map(json.dumps, pair)
    judged = avro_judge.compares(reader, writer)
    found = parse(SchemaType.AVRO, reader).problems_reading(parse(SchemaType.AVRO, writer))
    assert (found == []) is judged["readable"], judged


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), pair=versions())
def test_what_is_called_readable_can_be_read(data, pair):
    reader, writer = map(without_aliases, pair)
    if problems(reader, writer):
        return
    written = fastavro.parse_schema(writer)
    value = data.draw(values(writer))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, written, value)
    stream.seek(0)
    fastavro.schemaless_reader(stream, written, fastavro.parse_schema(reader))
    assert stream.read() == b""


def test_a_problem_says_where_and_what():
    old = record(field("items", array("string")))
    new = record(field("items", array("int")), field("id", "long"))
    assert problems(new, old) == [
        "TYPE_MISMATCH at /fields/0/type/items: string cannot be read as int",
        "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1: the reader's field id has no default, "
        "and the writer lacks it",
    ]


def test_a_chain_of_types_too_long_to_follow_is_reported():
    chain = [record(name="R0")]
    chain += [record(field("a", f"R{index}"), name=f"R{index + 1}") for index in range(5000)]
    assert problems(chain[::-1], chain[::-1]) == [
        "The schemas are nested too deeply to be compared."
    ]


def test_a_wide_record_is_compared_quickly():
    wide = record(*(field(f"f{index}", "int") for index in range(20_000)))
    assert problems(wide, wide) == []


def test_unions_with_too_many_pairs_of_branches_are_reported_as_too_large(monkeypatch):
    monkeypatch.setattr("strom.registry.formats.schema.MAX_COMPARISONS", 2000)
    one = [record(name=f"A{index}") for index in range(50)]
    other = [record(name=f"B{index}") for index in range(50)]
    assert problems(one, one) == []
    assert problems(one, other) == ["The schemas are too large to be compared."]
