"""JSON Schema: what is valid, what is the same, and who accepts whose data."""

import json
from contextlib import suppress

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strom.registry.formats import InvalidSchema, Referenced, SchemaType, parse
from strom.registry.formats.json_schema import combinations, loading
from strom.registry.formats.json_schema.combinations import _most_pairs
from tests.registry.formats import json_cases, json_combined_cases
from tests.registry.formats.json_cases import INT, NUMBER, TEXT, thing
from tests.registry.formats.json_schemas import instances, versions

CASES = [*json_cases.CASES, *json_combined_cases.CASES]
NAMES = [case.what for case in CASES]


def schema(value, references=()):
    return parse(SchemaType.JSON, json.dumps(value), references)


def test_the_table_is_large_and_has_both_answers():
    assert len(set(NAMES)) == len(CASES) > 150
    assert 60 < sum(case.readable for case in CASES) < len(CASES) - 60


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_case_is_answered_as_the_table_says(case):
    problems = schema(case.reader).problems_reading(schema(case.writer))
    assert (problems == []) is case.readable
    assert all(" at #/" in problem for problem in problems)
    assert case.readable or problems[0].startswith(case.rule)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), pair=versions())
def test_what_the_writer_accepts_the_reader_accepts_if_there_is_no_problem(data, pair):
    reader, writer = pair
    if schema(reader).problems_reading(schema(writer)):
        return
    accepts = jsonschema_rs.Draft7Validator(reader).is_valid
    wrote = jsonschema_rs.Draft7Validator(writer).is_valid
    for instance in data.draw(st.lists(instances(writer), min_size=1, max_size=5)):
        assert accepts(instance) or not wrote(instance), instance


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pair=versions())
def test_a_schema_accepts_what_it_accepts(pair):
    assert schema(pair[0]).problems_reading(schema(pair[0])) == []


INVALID = {
    "no object": "3",
    "a text": '"string"',
    "an array": "[]",
    "an unknown type": '{"type": "strin"}',
    "an unknown type deep inside": '{"properties": {"a": {"items": {"type": 3}}}}',
    "required that is no array": '{"required": true}',
    "a negative length": '{"minLength": -1}',
    "an expression that is none": '{"pattern": "("}',
    "a reference to nowhere": '{"$ref": "#/definitions/none"}',
    "a reference to nobody": '{"$ref": "other.json"}',
    "a reference to the network": '{"$ref": "http://127.0.0.1:1/other.json"}',
    "a reference to what is no schema": '{"$ref": "#/x", "x": {"type": ["none"]}}',
    "a reference to data": '{"$ref": "#/default", "default": {"required": 3}}',
    "no JSON": '{"type": ',
    "draft 4 with a word of draft 6": json.dumps(
        {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": 3}
    ),
    "draft 7 with a word of draft 4": '{"minimum": 3, "exclusiveMinimum": true}',
}


@pytest.mark.parametrize("text", INVALID.values(), ids=INVALID)
def test_an_invalid_schema_is_refused(text):
    with pytest.raises(InvalidSchema) as refused:
        parse(SchemaType.JSON, text)
    assert "schema.invalid" not in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_a_mistake_is_reported_with_its_place():
    with pytest.raises(InvalidSchema, match=r"^At #/properties/a/items: "):
        parse(SchemaType.JSON, INVALID["an unknown type deep inside"])


@pytest.mark.parametrize("uri", [None, "https://example.test/mine", *range(5)])
def test_drafts_are_known_and_anything_else_is_draft_7(uri):
    drafts = ["draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12"]
    if isinstance(uri, int):
        uri = f"http://json-schema.org/{drafts[uri]}/schema#"
    assert schema({"$schema": uri, "type": "string"} if uri else {}).canonical


def test_layout_makes_no_other_schema_but_the_order_of_words_does():
    one = parse(SchemaType.JSON, '{"type": "string",\n  "title": "é"}')
    assert one.canonical == '{"type":"string","title":"é"}'
    other = parse(SchemaType.JSON, '{"title":"é","type":"string"}')
    assert other.canonical != one.canonical
    assert other.normalized == one.normalized


ADDRESS = Referenced("address.json", json.dumps(thing({"city": TEXT, "zip": INT})))


def test_a_reference_is_found_by_its_name():
    order = thing({"to": {"$ref": "address.json"}, "zip": {"$ref": "address.json#/properties/zip"}})
    read = schema(order, [ADDRESS])
    narrow = ADDRESS._replace(text=ADDRESS.text.replace("integer", "number"))
    assert schema(order, [narrow]).problems_reading(read) == []
    assert {
        problem.split(":")[0] for problem in read.problems_reading(schema(order, [narrow]))
    } == {
        "TYPE_NARROWED at #/properties/to/properties/zip",
        "TYPE_NARROWED at #/properties/zip",
    }


def test_a_reference_is_found_relative_to_the_id_of_the_schema_or_by_its_own():
    order = {"$id": "http://shop.test/order.json", **thing({"to": {"$ref": "address.json"}})}
    assert schema(order, [ADDRESS]).problems_reading(schema(order, [ADDRESS])) == []
    full = Referenced("http://shop.test/address.json", ADDRESS.text)
    assert schema(order, [full])
    named = Referenced("whatever", json.dumps({"$id": "urn:example:address", **NUMBER}))
    assert schema({"$ref": "urn:example:address"}, [named]).problems_reading(schema(INT)) == []


def test_references_of_references_are_known():
    person = Referenced("person.json", json.dumps(thing({"at": {"$ref": "address.json"}})))
    assert schema({"$ref": "person.json"}, [ADDRESS, person]).problems_reading(schema(True)) != []
    with pytest.raises(InvalidSchema, match=r"address\.json"):
        schema({"$ref": "person.json"}, [person])


def test_a_broken_reference_is_named():
    with pytest.raises(
        InvalidSchema, match=r"In the reference address\.json: The schema is not JSON"
    ):
        schema({}, [ADDRESS._replace(text="{")])


@pytest.mark.parametrize("lenient", [False, True])
def test_identifiers_and_names_that_are_no_uri_are_refused(lenient):
    for text, name in [('{"$id": "http://[x"}', "a"), ("{}", "http://[x")]:
        with pytest.raises(InvalidSchema, match=r"'http://\[x' is not a URI"):
            parse(SchemaType.JSON, text, [Referenced(name, "{}")], lenient=lenient)


def test_a_reference_to_itself_restricts_nothing():
    circle = {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}
    assert schema(circle).problems_reading(schema(circle)) == []


def test_a_schema_that_denies_itself_can_be_compared():
    paradox = {"not": {"$ref": "#"}}
    assert isinstance(schema(paradox).problems_reading(schema(paradox)), list)


def test_deep_and_huge_schemas_are_refused():
    deep = '{"not":' * 300 + "{}" + "}" * 300
    with pytest.raises(InvalidSchema, match="nested more than 100 levels"):
        parse(SchemaType.JSON, deep)
    with pytest.raises(InvalidSchema, match="characters"):
        schema({"title": "x" * 1_000_000})
    almost = '{"not":' * 95 + "{}" + "}" * 95
    assert parse(SchemaType.JSON, almost).problems_reading(parse(SchemaType.JSON, almost)) == []


def test_definitions_that_all_refer_to_each_other_are_compared_in_time():
    names = [f"d{index}" for index in range(12)]
    everyone = {"anyOf": [{"$ref": f"#/definitions/{name}"} for name in names]}
    web = {
        **everyone,
        "definitions": {name: thing({"v": INT, "next": everyone, name: TEXT}) for name in names},
    }
    assert schema(web).problems_reading(schema(web)) == []


def test_schemas_with_too_many_pairs_of_parts_are_reported_as_too_large(monkeypatch):
    monkeypatch.setattr("strom.registry.formats.schema.MAX_COMPARISONS", 1000)
    wide = {"anyOf": [{"type": "string", "minLength": length} for length in range(50)]}
    assert schema(wide).problems_reading(schema(wide)) == [
        "The schemas are too large to be compared."
    ]


def test_an_expression_that_takes_forever_elsewhere_is_matched_in_time():
    slow = {"patternProperties": {"(a+)+$": INT}, "additionalProperties": False}
    assert schema(slow).problems_reading(schema(thing({"a" * 60 + "!": INT}))) != []


@pytest.mark.parametrize("text", ['{"title": "\\ud800"}', '{"title": "\ud800"}'])
def test_half_of_a_character_is_refused(text):
    with pytest.raises(InvalidSchema, match="lone surrogate"):
        parse(SchemaType.JSON, text)


STORED = [
    {"properties": {"a": {"$ref": "gone.json"}, "b": {"$ref": "#/definitions/gone"}}},
    {"type": "object", "required": True},
    {"type": "number", "minimum": "low"},
    {"pattern": "(", "minLength": "x"},
]


@pytest.mark.parametrize("document", STORED, ids=str)
def test_a_stored_document_is_compared_or_called_malformed(document):
    with pytest.raises(InvalidSchema):
        parse(SchemaType.JSON, json.dumps(document))
    with suppress(InvalidSchema):  # such as one with a `type` that does not exist
        read = parse(SchemaType.JSON, json.dumps(document), lenient=True)
        assert read.canonical
        for other in map(json.dumps, STORED):
            with suppress(InvalidSchema):
                read.problems_reading(parse(SchemaType.JSON, other, lenient=True))


def chain(length, title):
    """References to references, and one object that refers to them all."""
    names = [f"a{number}" for number in range(length)]
    links = {name: {"$ref": f"#/definitions/a{n + 1}"} for n, name in enumerate(names)}
    parts = [{"$ref": f"#/definitions/{name}"} for name in names]
    definitions = {**links, f"a{length}": TEXT}
    return schema({"definitions": definitions, "allOf": parts, "title": title})


def test_a_comparison_walks_no_chain_of_references_again(monkeypatch):
    reader, writer = chain(80, "1"), chain(80, "2")
    steps = []

    def base_inside(value, base):
        steps.append(value)
        return base

    monkeypatch.setattr(loading, "base_inside", base_inside)
    assert reader.problems_reading(writer) == []
    assert steps == []


def test_problems_that_double_with_every_reference_are_too_many():
    def doubling(kind):
        levels = {
            f"a{n}": thing({side: {"$ref": f"#/definitions/a{n + 1}"} for side in "lr"})
            for n in range(40)
        }
        return schema({"definitions": {**levels, "a40": kind}, "$ref": "#/definitions/a0"})

    assert doubling(INT).problems_reading(doubling(TEXT)) == [
        "The schemas are too large to be compared."
    ]


def test_the_steps_of_a_matching_are_limited():
    """Every part takes the partner that a later one needs."""
    size, steps = 60, []
    fitting = [[*range(number + 1)] for number in range(size)][::-1]
    assert _most_pairs(fitting, size, lambda: steps.append(1)) == size
    assert 0 < len(steps) <= size**3


def test_many_comparisons_of_large_objects_and_enums_are_too_large(monkeypatch):
    monkeypatch.setattr("strom.registry.formats.schema.MAX_COMPARISONS", 6000)

    def choices(prefix):
        objects = [
            thing({f"{prefix}{n}-{name}": INT for name in range(200)}, required=[f"{prefix}{n}-0"])
            for n in range(30)
        ]
        return schema({"oneOf": [{"enum": [n, *range(1000, 1300)]} for n in range(30)] + objects})

    assert choices("a").problems_reading(choices("b")) == [
        "The schemas are too large to be compared."
    ]


def test_parts_are_told_apart_once(monkeypatch):
    def nested(title):
        parts = [
            {"allOf": [{"minLength": n}, {"maxLength": m}]} for n in range(9) for m in (50, 60)
        ]
        return schema({"oneOf": parts, "title": title})

    reader, writer = nested("1"), nested("2")
    asked = []

    def identity(value):
        asked.append(id(value))
        return json.dumps(value)

    monkeypatch.setattr(combinations, "identity", identity)
    assert reader.problems_reading(writer) == []
    assert len(asked) == len(set(asked))
