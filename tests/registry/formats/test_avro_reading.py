"""Which texts are Avro schemas, and their canonical texts, as Avro's library for Java has them."""

import json

import pytest
from hypothesis import given, settings

from strom.registry.formats import InvalidSchema, Referenced, SchemaType, parse
from strom.registry.formats.avro.schema import AvroSchema
from tests.registry.formats.avro_cases import CASES, array, enum, field, fixed, logical, record
from tests.registry.formats.avro_schemas import schemas


def with_default(kind, default):
    return record(field("a", kind, default=default))


VALID = {
    "a primitive": "string",
    "a primitive as an object": {"type": "string"},
    "a primitive with attributes": {"type": "string", "x": {"y": [1, 2.5, None, "é"]}},
    "words of other types": {
        "type": "array",
        "items": "int",
        "name": "x",
        "size": 4,
        "default": [],
    },
    "an empty union": [],
    "an empty enum": enum(),
    "a fixed of nothing": fixed(0),
    "a record of nothing": record(),
    "an error": {**record(), "type": "error"},
    "a name before its definition": record(field("a", "F"), field("b", fixed(3))),
    "a name before its definition in a union": [
        record(field("a", ["null", "B"])),
        record(name="B"),
    ],
    "a name before its definition in an array": record(
        field("a", array("F")), field("b", fixed(3))
    ),
    "a name in the namespace": record(field("a", "R"), name="R", namespace="n"),
    "a name outside of the namespace": record(
        field("a", fixed(1, namespace="")), field("b", "F"), name="n.R"
    ),
    "a name of a primitive in a namespace": record(name="n.string"),
    "a full name beside a namespace": record(name="a.b.R", namespace="q"),
    "docs and aliases": record(
        field("a", "int", doc='é\n"', aliases=["b", "1c"]), doc="d", aliases=["Q", "z.P"], zz=1
    ),
    "docs of a wrong type": record(doc=3, namespace=4),
    "orders": record(
        field("a", "int", order="ignore"),
        field("b", "int", order="DESCENDING"),
        field("c", "int", order="ascending"),
    ),
    "attributes of a field": record(field("a", "int", x=None, items=4, namespace="g")),
    "a default null": with_default(["null", "int"], None),
    "a default of the second branch": with_default(["null", "int"], 3),
    "a default beyond the symbols": with_default(enum("A"), "Z"),
    "a default of another length": with_default(fixed(2), "a"),
    "a whole number for a double": with_default("double", 1),
    "a default of an array": with_default(array("int"), [1, 2]),
    "a default of a map": with_default({"type": "map", "values": "int"}, {"a": 1}),
    "a default of a record": with_default(record(field("x", "int"), name="In"), {"x": 1}),
    "a default filled in by another": with_default(
        record(field("x", "int", default=3), name="In"), {}
    ),
    "an enum with a default": enum("A", "B", default="B"),
    "a logical type": logical("bytes", "decimal", precision=4, scale=2),
    "a logical type that makes no sense": logical("int", "decimal", precision=-3),
    "a large fraction": with_default("double", 12345.0625),
}

INVALID = {
    "a number": 3,
    "null itself": None,
    "no type": {},
    "a type in a type": {"type": {"type": "string"}},
    "a union in a type": {"type": ["null", "string"]},
    "an unknown type": "strin",
    "an unknown type as an object": {"type": "strin"},
    "an unknown type of items": array("Foo"),
    "a record as the type of a field": record(field("a", "record")),
    "a primitive's name": record(name="string"),
    "a name with a digit first": record(name="1R"),
    "a name with a hyphen": record(name="a-b"),
    "a name with a letter beyond ASCII": record(name="é"),
    "a namespace with a digit first": record(namespace="a.1b"),
    "an empty name": record(name=""),
    "no name": {"type": "record", "fields": []},
    "no fields": {"type": "record", "name": "R"},
    "fields that are none": {"type": "record", "name": "R", "fields": {}},
    "a field that is none": {"type": "record", "name": "R", "fields": ["a"]},
    "a field without a name": {"type": "record", "name": "R", "fields": [{"type": "int"}]},
    "a field without a type": {"type": "record", "name": "R", "fields": [{"name": "a"}]},
    "a field's name with a dot": record(field("a.b", "int")),
    "two fields of one name": record(field("a", "int"), field("a", "string")),
    "an unknown order": record(field("a", "int", order="up")),
    "aliases that are no array": record(aliases="b"),
    "an alias that is no text": record(aliases=[3]),
    "no items": {"type": "array"},
    "no values": {"type": "map"},
    "no symbols": {"type": "enum", "name": "E"},
    "a symbol twice": enum("A", "A"),
    "a symbol that is no name": enum("a b"),
    "a default that is no symbol": enum("A", default="B"),
    "no size": {"type": "fixed", "name": "F"},
    "a negative size": fixed(-1),
    "a size in words": fixed("3"),
    "a fraction of a byte": fixed(3.5),
    "a type twice in a union": ["null", "null"],
    "two arrays in a union": [array("int"), array("string")],
    "a name twice in a union": [record(), "R"],
    "a union in a union": ["null", ["string"]],
    "a definition twice": record(field("a", record())),
    "a default null for a number": with_default("int", None),
    "a default with a fraction for an int": with_default("int", 3.0),
    "a default too large for an int": with_default("int", 2**31),
    "a default too large for a long": with_default("long", 2**63),
    "a text for a boolean": with_default("boolean", "true"),
    "a number for a text": with_default("string", 1),
    "true for an int": with_default("int", True),
    "an item of a wrong type": with_default(array("int"), [1, "2"]),
    "a default of no branch": with_default(["null", "int"], "x"),
    "a default without a part": with_default(record(field("x", "int"), name="In"), {}),
    "a default that is filled in with itself": record(field("r", "R", default={})),
}

NOT_JSON = ("", " ", "string", "{", '"string" x', "[1,]", "NaN", '{"type": "int", "x": Infinity}')


def avro(schema):
    return parse(SchemaType.AVRO, json.dumps(schema))


@pytest.mark.parametrize("schema", VALID.values(), ids=VALID)
def test_a_valid_schema_is_read_and_written_so_that_it_is_read_again(schema):
    read = avro(schema)
    again = AvroSchema.parse(read.canonical, [])
    assert again.canonical == read.canonical
    assert parse(SchemaType.AVRO, read.normalized).normalized == read.normalized


@pytest.mark.parametrize("schema", INVALID.values(), ids=INVALID)
def test_an_invalid_schema_is_refused_with_a_place(schema):
    with pytest.raises(InvalidSchema, match=r"^At /.*\.$"):
        avro(schema)


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_is_not_json_is_refused(text):
    with pytest.raises(InvalidSchema):
        parse(SchemaType.AVRO, text)


def test_avros_own_library_agrees_on_what_is_valid_and_how_it_is_written(avro_judge):
    for name, schema in VALID.items():
        assert_same(avro_judge, schema, name)
    for case in CASES:
        assert_same(avro_judge, case.reader, case.what)
    for name, schema in INVALID.items():
        assert "invalid" in avro_judge.describes(json.dumps(schema)), name


@settings(max_examples=150, deadline=None)
@given(schema=schemas())
def test_avros_own_library_writes_any_schema_the_same(avro_judge, schema):
    assert_same(avro_judge, schema, "")


def assert_same(avro_judge, schema, name):
    judged = avro_judge.describes(json.dumps(schema))
    read = avro(schema)
    assert read.canonical == judged.get("text"), (name, judged)


def test_schemas_that_differ_in_what_readers_see_are_different_schemas():
    texts = [
        record(field("a", "int")),
        record(field("a", "int", default=1)),
        record(field("a", "int", default=2)),
        record(field("a", "int"), doc="about"),
        record(field("a", "int"), aliases=["Q"]),
        record(field("a", logical("int", "date"))),
    ]
    assert len({avro(text).canonical for text in texts}) == len(texts)


def test_layout_and_the_order_of_words_do_not_make_another_schema():
    one = parse(
        SchemaType.AVRO, '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
    )
    other = (
        '{ "fields": [ {"type": {"type": "int"}, "name": "a"} ],\n "name": "R", "type": "record"}'
    )
    assert parse(SchemaType.AVRO, other).canonical == one.canonical


def test_normalizing_also_puts_attributes_and_aliases_in_order():
    one = record(aliases=["Q", "P"], x=1, a=2)
    other = record(aliases=["P", "Q"], a=2, x=1)
    assert avro(one).canonical != avro(other).canonical
    assert avro(one).normalized == avro(other).normalized


ADDRESS = Referenced(
    "shop.Address", json.dumps(record(field("city", "string"), name="shop.Address"))
)


def test_a_schema_uses_the_types_of_its_references_and_does_not_repeat_them():
    order = record(
        field("to", "shop.Address"), field("from", ["null", "shop.Address"]), name="Order"
    )
    read = AvroSchema.parse(json.dumps(order), [ADDRESS])
    assert json.loads(read.canonical) == order
    with pytest.raises(
        InvalidSchema, match=r"At /fields/0/type: the type shop\.Address is not defined"
    ):
        parse(SchemaType.AVRO, json.dumps(order))


def test_references_of_references_are_known_too_and_may_come_twice():
    person = Referenced(
        "shop.Person",
        json.dumps(record(field("at", "shop.Address"), name="shop.Person")),
    )
    order = record(field("who", "shop.Person"), field("to", "shop.Address"), name="Order")
    assert (
        parse(SchemaType.AVRO, json.dumps(order), [ADDRESS, person, ADDRESS]).problems_reading(
            parse(SchemaType.AVRO, json.dumps(order), [ADDRESS, person])
        )
        == []
    )


def test_a_broken_reference_is_named():
    with pytest.raises(
        InvalidSchema, match=r"In the reference shop\.Broken: At /: the type Foo is not defined"
    ):
        parse(SchemaType.AVRO, '"int"', [Referenced("shop.Broken", '{"type": "Foo"}')])


def test_a_change_in_a_reference_is_found():
    changed = ADDRESS._replace(text=ADDRESS.text.replace('"string"', '"int"'))
    order = json.dumps(record(field("to", "shop.Address"), name="Order"))
    old, new = (parse(SchemaType.AVRO, order, [one]) for one in (ADDRESS, changed))
    assert new.problems_reading(old) == [
        "TYPE_MISMATCH at /fields/0/type/fields/0/type: string cannot be read as int"
    ]


def test_deep_and_huge_schemas_are_refused():
    deep = '{"type":"array","items":' * 400 + '"int"' + "}" * 400
    with pytest.raises(InvalidSchema, match="nested more than 100 levels"):
        parse(SchemaType.AVRO, deep)
    with pytest.raises(InvalidSchema, match="nested"):
        parse(SchemaType.AVRO, "[" * 400_000)
    with pytest.raises(InvalidSchema, match="characters"):
        parse(SchemaType.AVRO, json.dumps(record(doc="x" * 1_000_000)))
    with pytest.raises(InvalidSchema, match="not JSON"):
        parse(SchemaType.AVRO, '{"type": "int", "x": ' + "9" * 5000 + "}")
