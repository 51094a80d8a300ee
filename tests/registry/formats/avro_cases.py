"""Pairs of Avro schemas, and whether the first can read what the second wrote.

A text says what changed from the writer's schema to the reader's. Avro's Java library is asked the
same questions by the tests.
"""

from typing import Any, NamedTuple

Json = Any


class Case(NamedTuple):
    what: str
    reader: Json
    writer: Json
    readable: bool


def record(*fields: Json, name: str = "R", **more: Json) -> Json:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Json, **more: Json) -> Json:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, name: str = "E", **more: Json) -> Json:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: Json, name: str = "F", **more: Json) -> Json:
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: Json) -> Json:
    return {"type": "array", "items": items}


def mapping(values: Json) -> Json:
    return {"type": "map", "values": values}


def logical(kind: str, name: str, **more: Json) -> Json:
    return {"type": kind, "logicalType": name, **more}


PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTIONS = {
    ("long", "int"),
    ("float", "int"),
    ("float", "long"),
    ("double", "int"),
    ("double", "long"),
    ("double", "float"),
    ("bytes", "string"),
    ("string", "bytes"),
}

EVERY_PAIR_OF_PRIMITIVES = [
    Case(
        f"{writer} to {reader}", reader, writer, reader == writer or (reader, writer) in PROMOTIONS
    )
    for reader in PRIMITIVES
    for writer in PRIMITIVES
]

CONTAINERS = [
    Case("array to the same", array("int"), array("int"), True),
    Case("array with promoted items", array("long"), array("int"), True),
    Case("array with demoted items", array("int"), array("long"), False),
    Case("map to the same", mapping("string"), mapping("string"), True),
    Case("map with promoted values", mapping("double"), mapping("float"), True),
    Case("map with demoted values", mapping("float"), mapping("double"), False),
    Case("map to array", array("int"), mapping("int"), False),
    Case("array to map", mapping("int"), array("int"), False),
    Case("array of arrays promoted", array(array("long")), array(array("int")), True),
    Case("array of maps demoted", array(mapping("int")), array(mapping("long")), False),
    Case("items become nullable", array(["null", "int"]), array("int"), True),
    Case("items cease to be nullable", array("int"), array(["null", "int"]), False),
    Case("array to record", record(), array("int"), False),
    Case("record to map", mapping("int"), record(), False),
    Case("int to array of int", array("int"), "int", False),
]

UNIONS = [
    Case("type to a union that has it", ["null", "int"], "int", True),
    Case("type to a union without it", ["null", "int"], "string", False),
    Case("type to a union with a promotion", ["null", "long"], "int", True),
    Case("null to a union with null", ["null", "int"], "null", True),
    Case("union to one of its types", "int", ["null", "int"], False),
    Case("union of one to that type", "int", ["int"], True),
    Case("union of one to a promotion", "double", ["int"], True),
    Case("union of numbers to the widest", "double", ["int", "long", "float"], True),
    Case("union of numbers to a narrow one", "int", ["int", "long"], False),
    Case("union to the same", ["null", "int"], ["null", "int"], True),
    Case("union in another order", ["int", "null"], ["null", "int"], True),
    Case("union grows", ["null", "int", "string"], ["null", "int"], True),
    Case("union shrinks", ["null", "int"], ["null", "int", "string"], False),
    Case("union with a branch promoted", ["null", "long"], ["null", "int"], True),
    Case("union with a branch demoted", ["null", "int"], ["null", "long"], False),
    Case("union with text for bytes", ["null", "string"], ["null", "bytes"], True),
    Case("empty union to a type", "int", [], True),
    Case("empty union to a union", ["int"], [], True),
    Case("type to an empty union", [], "int", False),
    Case(
        "union of records to more of them",
        [record(name="A"), record(name="B")],
        [record(name="A")],
        True,
    ),
    Case(
        "union of records to fewer", [record(name="A")], [record(name="A"), record(name="B")], False
    ),
    Case(
        "record in a union, with a field that needs a default",
        ["null", record(field("a", "int"))],
        ["null", record()],
        False,
    ),
    Case(
        "record in a union, with a field that has one",
        ["null", record(field("a", "int", default=1))],
        ["null", record()],
        True,
    ),
    Case("enum in a union grows", ["null", enum("A", "B")], ["null", enum("A")], True),
    Case("enum in a union shrinks", ["null", enum("A")], ["null", enum("A", "B")], False),
    Case("fixed in a union changes", ["null", fixed(3)], ["null", fixed(4)], False),
    Case("array in a union promoted", ["null", array("long")], ["null", array("int")], True),
    Case("int or text to text or bytes", ["string", "bytes"], ["int", "string"], False),
    Case(
        "record renamed in a union", ["null", record(name="B")], ["null", record(name="A")], False
    ),
    Case(
        "record renamed in a union, with an alias",
        ["null", record(name="B", aliases=["A"])],
        ["null", record(name="A")],
        True,
    ),
    Case(
        "record moved to another namespace in a union",
        ["null", record(name="a.R")],
        ["null", record(name="b.R")],
        True,
    ),
    Case(
        "the first fitting branch is not the equal one",
        [record(field("x", "int", default=0), name="A"), record(name="B")],
        record(name="B"),
        True,
    ),
]

FIELDS = [
    Case("record to the same", record(field("a", "int")), record(field("a", "int")), True),
    Case("field added without default", record(field("a", "int")), record(), False),
    Case("field added with default", record(field("a", "int", default=0)), record(), True),
    Case(
        "field added with default null",
        record(field("a", ["null", "int"], default=None)),
        record(),
        True,
    ),
    Case(
        "nullable field added without default", record(field("a", ["null", "int"])), record(), False
    ),
    Case("field removed", record(), record(field("a", "int")), True),
    Case("field with default removed", record(), record(field("a", "int", default=0)), True),
    Case("field promoted", record(field("a", "long")), record(field("a", "int")), True),
    Case("field demoted", record(field("a", "int")), record(field("a", "long")), False),
    Case(
        "a default does not help against a wrong type",
        record(field("a", "int", default=0)),
        record(field("a", "string")),
        False,
    ),
    Case("field renamed", record(field("b", "int")), record(field("a", "int")), False),
    Case(
        "field renamed, with default",
        record(field("b", "int", default=0)),
        record(field("a", "int")),
        True,
    ),
    Case(
        "field renamed, with an alias",
        record(field("b", "int", aliases=["a"])),
        record(field("a", "int")),
        True,
    ),
    Case(
        "field renamed, with an alias and promoted",
        record(field("b", "double", aliases=["a"])),
        record(field("a", "int")),
        True,
    ),
    Case(
        "field renamed, with an alias and demoted",
        record(field("b", "int", aliases=["a"])),
        record(field("a", "double")),
        False,
    ),
    Case(
        "an alias of the writer says nothing",
        record(field("b", "int")),
        record(field("a", "int", aliases=["b"])),
        False,
    ),
    Case(
        "one of two aliases fits",
        record(field("c", "int", aliases=["a", "b"])),
        record(field("b", "int")),
        True,
    ),
    Case(
        "both aliases fit",
        record(field("c", "int", aliases=["a", "b"])),
        record(field("a", "int"), field("b", "int")),
        False,
    ),
    Case(
        "name and alias both fit",
        record(field("a", "int", aliases=["b"])),
        record(field("a", "int"), field("b", "int")),
        False,
    ),
    Case(
        "two fields swap their names",
        record(field("a", "int"), field("b", "string")),
        record(field("a", "string"), field("b", "int")),
        False,
    ),
    Case(
        "fields in another order",
        record(field("a", "int"), field("b", "string")),
        record(field("b", "string"), field("a", "int")),
        True,
    ),
    Case(
        "field becomes nullable",
        record(field("a", ["null", "int"])),
        record(field("a", "int")),
        True,
    ),
    Case(
        "field ceases to be nullable",
        record(field("a", "int")),
        record(field("a", ["null", "int"])),
        False,
    ),
    Case(
        "doc changes",
        record(field("a", "int", doc="new")),
        record(field("a", "int", doc="old")),
        True,
    ),
    Case(
        "default changes",
        record(field("a", "int", default=2)),
        record(field("a", "int", default=1)),
        True,
    ),
    Case("default vanishes", record(field("a", "int")), record(field("a", "int", default=1)), True),
    Case(
        "order changes", record(field("a", "int", order="ignore")), record(field("a", "int")), True
    ),
    Case("field names differ in case", record(field("A", "int")), record(field("a", "int")), False),
    Case("record without fields to one with", record(field("a", "int", default=0)), record(), True),
    Case("error to record", record(), {**record(), "type": "error"}, True),
    Case(
        "enum field added, whose enum has a default, but not the field",
        record(field("a", enum("X", default="X"))),
        record(),
        False,
    ),
    Case(
        "enum field added with a default of its own",
        record(field("a", enum("X"), default="X")),
        record(),
        True,
    ),
    Case(
        "several things wrong at once",
        record(field("a", "int"), field("b", "int"), field("c", "int")),
        record(field("a", "string"), field("d", "int")),
        False,
    ),
]

NAMES = [
    Case("record renamed", record(name="B"), record(name="A"), False),
    Case("record renamed, with an alias", record(name="B", aliases=["A"]), record(name="A"), True),
    Case(
        "record renamed, alias on the writer",
        record(name="B"),
        record(name="A", aliases=["B"]),
        False,
    ),
    Case(
        "namespace changes", record(name="R", namespace="b"), record(name="R", namespace="a"), True
    ),
    Case("namespace vanishes", record(name="R"), record(name="R", namespace="a"), True),
    Case("full name as name", record(name="a.R"), record(name="R", namespace="a"), True),
    Case(
        "renamed across namespaces, with a full alias",
        record(name="b.B", aliases=["a.A"]),
        record(name="a.A"),
        True,
    ),
    Case(
        "renamed across namespaces, with a short alias",
        record(name="b.B", aliases=["A"]),
        record(name="a.A"),
        False,
    ),
    Case(
        "renamed within a namespace, with a short alias",
        record(name="a.B", aliases=["A"]),
        record(name="a.A"),
        True,
    ),
    Case("alias of another name", record(name="B", aliases=["C"]), record(name="A"), False),
    Case("enum renamed", enum("A", name="E2"), enum("A"), False),
    Case("enum renamed, with an alias", enum("A", name="E2", aliases=["E"]), enum("A"), True),
    Case("fixed renamed", fixed(4, name="G"), fixed(4), False),
    Case("fixed renamed, with an alias", fixed(4, name="G", aliases=["F"]), fixed(4), True),
    Case("fixed with alias and another size", fixed(5, name="G", aliases=["F"]), fixed(4), False),
    Case(
        "nested record renamed",
        record(field("a", record(name="B"))),
        record(field("a", record(name="A"))),
        False,
    ),
    Case(
        "nested record renamed, with an alias",
        record(field("a", record(name="B", aliases=["A"]))),
        record(field("a", record(name="A"))),
        True,
    ),
    Case(
        "nested record inherits a namespace",
        record(field("a", record(name="B")), name="n.R"),
        record(field("a", record(name="m.B")), name="n.R"),
        True,
    ),
]

ENUMS_AND_FIXED = [
    Case("enum to the same", enum("A", "B"), enum("A", "B"), True),
    Case("symbols in another order", enum("B", "A"), enum("A", "B"), True),
    Case("symbol added", enum("A", "B"), enum("A"), True),
    Case("symbol removed", enum("A"), enum("A", "B"), False),
    Case("symbol removed, reader has a default", enum("A", default="A"), enum("A", "B"), True),
    Case("symbol removed, writer has a default", enum("A"), enum("A", "B", default="A"), False),
    Case("nothing in common", enum("C"), enum("A", "B"), False),
    Case("nothing in common, but a default", enum("C", default="C"), enum("A", "B"), True),
    Case("no symbols at all", enum("A"), enum(), True),
    Case("renamed and shrunk", enum("A", name="X"), enum("A", "B"), False),
    Case("enum to text", "string", enum("A"), False),
    Case("text to enum", enum("A"), "string", False),
    Case("enum to int", "int", enum("A"), False),
    Case("fixed to the same", fixed(4), fixed(4), True),
    Case("fixed grows", fixed(5), fixed(4), False),
    Case("fixed shrinks", fixed(3), fixed(4), False),
    Case("fixed to bytes", "bytes", fixed(4), False),
    Case("bytes to fixed", fixed(4), "bytes", False),
    Case("fixed to enum", enum("A"), fixed(1), False),
    Case("fixed renamed and resized", fixed(3, name="G"), fixed(4), False),
]

LOGICAL_TYPES = [
    Case("logical type added", logical("long", "timestamp-millis"), "long", True),
    Case("logical type removed", "long", logical("long", "timestamp-millis"), True),
    Case(
        "unit changes",
        logical("long", "timestamp-micros"),
        logical("long", "timestamp-millis"),
        True,
    ),
    Case("date to timestamp", logical("long", "timestamp-millis"), logical("int", "date"), True),
    Case(
        "precision of a decimal shrinks",
        logical("bytes", "decimal", precision=4, scale=2),
        logical("bytes", "decimal", precision=9, scale=2),
        True,
    ),
    Case(
        "scale of a decimal changes",
        logical("bytes", "decimal", precision=9, scale=3),
        logical("bytes", "decimal", precision=9, scale=2),
        True,
    ),
    Case("uuid to text", "string", logical("string", "uuid"), True),
    Case("other attributes change", {"type": "string", "x": 1}, {"type": "string", "x": 2}, True),
]


def linked(*fields: Json, name: str = "Node", inner: str = "Node") -> Json:
    return record(*fields, field("next", ["null", inner], default=None), name=name)


def tree(value: Json) -> Json:
    return record(field("value", value), field("children", array("Tree")), name="Tree")


def two_records(inner: Json) -> Json:
    return record(field("a", record(field("x", inner), name="In")), field("b", "In"))


RECURSION = [
    Case("list to the same", linked(field("v", "int")), linked(field("v", "int")), True),
    Case("list with promoted values", linked(field("v", "long")), linked(field("v", "int")), True),
    Case("list with demoted values", linked(field("v", "int")), linked(field("v", "long")), False),
    Case("list gets a field", linked(field("v", "int", default=1)), linked(), True),
    Case("list gets a field without default", linked(field("v", "int")), linked(), False),
    Case("list loses a field", linked(), linked(field("v", "int")), True),
    Case("tree to the same", tree("int"), tree("int"), True),
    Case("tree with promoted values", tree("double"), tree("int"), True),
    Case("tree with other values", tree("int"), tree("string"), False),
    Case(
        "list becomes endless",
        record(field("next", "R")),
        record(field("next", ["null", "R"])),
        False,
    ),
    Case(
        "endless list may end",
        record(field("next", ["null", "R"])),
        record(field("next", "R")),
        True,
    ),
    Case("a type used twice, promoted", two_records("long"), two_records("int"), True),
    Case("a type used twice, demoted", two_records("int"), two_records("long"), False),
    Case(
        "two records that hold each other",
        record(
            field("b", record(field("a", ["null", "A"]), field("v", "long"), name="B")), name="A"
        ),
        record(
            field("b", record(field("a", ["null", "A"]), field("v", "int"), name="B")), name="A"
        ),
        True,
    ),
    Case(
        "two records that hold each other, one changed for the worse",
        record(
            field("b", record(field("a", ["null", "A"]), field("v", "int"), name="B")), name="A"
        ),
        record(
            field("b", record(field("a", ["null", "A"]), field("v", "long"), name="B")), name="A"
        ),
        False,
    ),
    Case(
        "nested deeply",
        record(field("a", array(mapping(["null", record(field("x", "long"), name="In")])))),
        record(field("a", array(mapping(["null", record(field("x", "int"), name="In")])))),
        True,
    ),
    Case(
        "nested deeply, with a field that needs a default",
        record(field("a", array(mapping(["null", record(field("x", "int"), name="In")])))),
        record(field("a", array(mapping(["null", record(name="In")])))),
        False,
    ),
]

CASES = [
    *EVERY_PAIR_OF_PRIMITIVES,
    *CONTAINERS,
    *UNIONS,
    *FIELDS,
    *NAMES,
    *ENUMS_AND_FIXED,
    *LOGICAL_TYPES,
    *RECURSION,
]
