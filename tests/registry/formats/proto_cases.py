"""Pairs of .proto files, and whether the first can read what the second wrote.

A text says what changed from the writer's file to the reader's. Where a case gives only the inside
of a message, it is put into a proto3 file.
"""

from typing import NamedTuple


class Case(NamedTuple):
    what: str
    reader: str
    writer: str
    readable: bool
    rule: str = ""
    """What the reason is, with its place, if it is not readable."""


def proto3(text: str) -> str:
    return f'syntax = "proto3";\npackage shop;\n{text}'


def proto2(text: str) -> str:
    return f'syntax = "proto2";\npackage shop;\n{text}'


def inside(what: str, reader: str, writer: str, readable: bool, rule: str = "") -> Case:
    one, other = (proto3(f"message M {{ {text} }}") for text in (reader, writer))
    return Case(what, one, other, readable, rule)


def old_inside(what: str, reader: str, writer: str, readable: bool, rule: str = "") -> Case:
    one, other = (proto2(f"message M {{ {text} }}") for text in (reader, writer))
    return Case(what, one, other, readable, rule)


FAMILIES = [
    ["int32", "int64", "uint32", "uint64", "bool", "E"],
    ["sint32", "sint64"],
    ["fixed32", "sfixed32"],
    ["fixed64", "sfixed64"],
    ["float"],
    ["double"],
    ["string", "bytes"],
]
ENUM = "enum E { NONE = 0; }"

SCALARS = [
    inside(
        f"{writer} to {reader}",
        f"{ENUM} {reader} a = 1;",
        f"{ENUM} {writer} a = 1;",
        mine is other,
        "" if mine is other else "FIELD_SCALAR_KIND_CHANGED at #/M/1",
    )
    for mine in FAMILIES
    for other in FAMILIES
    for reader in mine
    for writer in other
]

FIELDS = [
    inside("the same", "int32 a = 1;", "int32 a = 1;", True),
    inside("field added", "int32 a = 1; string b = 2;", "int32 a = 1;", True),
    inside("field removed", "", "int32 a = 1;", True),
    inside("field renamed", "int32 b = 1;", "int32 a = 1;", True),
    inside("field renumbered to a free one", "int32 a = 2;", "int32 a = 1;", True),
    inside(
        "field renumbered to a taken one",
        "int32 a = 2;",
        "int32 a = 1; string b = 2;",
        False,
        "FIELD_SCALAR_KIND_CHANGED at #/M/2",
    ),
    inside(
        "fields in another order", "int32 b = 2; int32 a = 1;", "int32 a = 1; int32 b = 2;", True
    ),
    inside(
        "number becomes repeated",
        "repeated int32 a = 1;",
        "int32 a = 1;",
        False,
        "FIELD_NUMERIC_LABEL_CHANGED at #/M/1",
    ),
    inside(
        "number ceases to be repeated",
        "int32 a = 1;",
        "repeated int32 a = 1;",
        False,
        "FIELD_NUMERIC_LABEL_CHANGED at #/M/1",
    ),
    inside("text becomes repeated", "repeated string a = 1;", "string a = 1;", True),
    inside("text ceases to be repeated", "bytes a = 1;", "repeated string a = 1;", True),
    inside("number becomes optional", "optional int32 a = 1;", "int32 a = 1;", True),
    inside("number ceases to be optional", "int32 a = 1;", "optional int32 a = 1;", True),
    inside("options change", "int32 a = 1 [deprecated = true];", "int32 a = 1;", True),
    inside("number is reserved", "reserved 1;", "int32 a = 1;", True),
    inside(
        "scalar to message",
        "message N {} N a = 1;",
        "message N {} int32 a = 1;",
        False,
        "FIELD_KIND_CHANGED at #/M/1",
    ),
    inside(
        "message to scalar",
        "message N {} bytes a = 1;",
        "message N {} N a = 1;",
        False,
        "FIELD_KIND_CHANGED at #/M/1",
    ),
    inside(
        "message to another",
        "message N {} message O {} O a = 1;",
        "message N {} message O {} N a = 1;",
        False,
        "FIELD_NAMED_TYPE_CHANGED at #/M/1",
    ),
    inside(
        "message becomes repeated", "message N {} repeated N a = 1;", "message N {} N a = 1;", True
    ),
    inside("map to the same", "map<string, int32> a = 1;", "map<string, int32> a = 1;", True),
    inside(
        "map with values of the family",
        "map<string, int64> a = 1;",
        "map<string, int32> a = 1;",
        True,
    ),
    inside(
        "map with other values",
        "map<string, string> a = 1;",
        "map<string, int32> a = 1;",
        False,
        "FIELD_SCALAR_KIND_CHANGED at #/M/1",
    ),
    inside(
        "map with other keys",
        "map<int32, int32> a = 1;",
        "map<string, int32> a = 1;",
        False,
        "FIELD_SCALAR_KIND_CHANGED at #/M/1",
    ),
    inside(
        "map with a message for numbers",
        "message N {} map<string, N> a = 1;",
        "message N {} map<string, int32> a = 1;",
        False,
        "FIELD_KIND_CHANGED at #/M/1",
    ),
    inside(
        "map to scalar",
        "bytes a = 1;",
        "map<string, int32> a = 1;",
        False,
        "FIELD_KIND_CHANGED at #/M/1",
    ),
    inside("map removed", "", "map<string, int32> a = 1;", True),
    inside("map renamed", "map<string, int32> b = 1;", "map<string, int32> a = 1;", True),
    old_inside(
        "required field added", "required int32 a = 1;", "", False, "REQUIRED_FIELD_ADDED at #/M/1"
    ),
    old_inside(
        "required field removed",
        "",
        "required int32 a = 1;",
        False,
        "REQUIRED_FIELD_REMOVED at #/M/1",
    ),
    old_inside(
        "required becomes optional",
        "optional int32 a = 1;",
        "required int32 a = 1;",
        False,
        "FIELD_NUMERIC_LABEL_CHANGED at #/M/1",
    ),
    old_inside(
        "required text becomes optional", "optional string a = 1;", "required string a = 1;", True
    ),
    old_inside("optional field added", "optional int32 a = 1;", "", True),
    old_inside(
        "default changes", "optional int32 a = 1 [default = 2];", "optional int32 a = 1;", True
    ),
    old_inside(
        "group to the same",
        "optional group G = 1 { optional int32 a = 1; }",
        "optional group G = 1 { optional int32 a = 1; }",
        True,
    ),
    old_inside(
        "group changed inside",
        "optional group G = 1 { optional string a = 1; }",
        "optional group G = 1 { optional int32 a = 1; }",
        False,
        "FIELD_SCALAR_KIND_CHANGED at #/M/G/1",
    ),
]

CHOICES = [
    inside(
        "oneof to the same",
        "oneof o { int32 a = 1; string b = 2; }",
        "oneof o { int32 a = 1; string b = 2; }",
        True,
    ),
    inside("oneof added", "oneof o { int32 a = 1; }", "", True),
    inside("oneof removed with all its fields", "", "oneof o { int32 a = 1; string b = 2; }", True),
    inside(
        "oneof renamed",
        "oneof p { int32 a = 1; string b = 2; }",
        "oneof o { int32 a = 1; string b = 2; }",
        True,
    ),
    inside(
        "oneof grows by a new field",
        "oneof o { int32 a = 1; string b = 2; }",
        "oneof o { int32 a = 1; }",
        True,
    ),
    inside(
        "oneof loses a field",
        "oneof o { int32 a = 1; }",
        "oneof o { int32 a = 1; string b = 2; }",
        False,
        "ONEOF_FIELD_REMOVED at #/M/o/2",
    ),
    inside(
        "oneof dissolved, one field lost",
        "int32 a = 1;",
        "oneof o { int32 a = 1; string b = 2; }",
        False,
        "ONEOF_FIELD_REMOVED at #/M/o/2",
    ),
    inside(
        "oneof dissolved",
        "int32 a = 1; string b = 2;",
        "oneof o { int32 a = 1; string b = 2; }",
        True,
    ),
    inside("one field moves into a new oneof", "oneof o { int32 a = 1; }", "int32 a = 1;", True),
    inside(
        "two fields move into a new oneof",
        "oneof o { int32 a = 1; string b = 2; }",
        "int32 a = 1; string b = 2;",
        False,
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF at #/M/o",
    ),
    inside(
        "a field moves into a oneof with others",
        "oneof o { int32 a = 1; string b = 2; }",
        "oneof o { int32 a = 1; } string b = 2;",
        False,
        "FIELD_MOVED_TO_EXISTING_ONEOF at #/M/o",
    ),
    inside(
        "two oneofs become one",
        "oneof o { int32 a = 1; string b = 2; }",
        "oneof o { int32 a = 1; } oneof p { string b = 2; }",
        False,
        "FIELD_MOVED_TO_EXISTING_ONEOF at #/M/o",
    ),
    inside(
        "one oneof becomes two",
        "oneof o { int32 a = 1; } oneof p { string b = 2; }",
        "oneof o { int32 a = 1; string b = 2; }",
        True,
    ),
    inside(
        "type changes inside of a oneof",
        "oneof o { string a = 1; }",
        "oneof o { int32 a = 1; }",
        False,
        "FIELD_SCALAR_KIND_CHANGED at #/M/1",
    ),
    inside(
        "optional is no oneof",
        "optional int32 a = 1; optional int32 b = 2;",
        "int32 a = 1; int32 b = 2;",
        True,
    ),
]

TYPES = [
    Case("message added", proto3("message A {} message B {}"), proto3("message A {}"), True),
    Case(
        "message removed",
        proto3("message A {}"),
        proto3("message A {} message B {}"),
        False,
        "MESSAGE_REMOVED at #/B",
    ),
    Case(
        "message renamed",
        proto3("message B {}"),
        proto3("message A {}"),
        False,
        "MESSAGE_REMOVED at #/A",
    ),
    Case(
        "messages in another order",
        proto3("message B {} message A {}"),
        proto3("message A {} message B {}"),
        True,
    ),
    inside("nested message removed", "", "message N {}", False, "MESSAGE_REMOVED at #/M/N"),
    inside(
        "nested message changed",
        "message N { string a = 1; }",
        "message N { int32 a = 1; }",
        False,
        "FIELD_SCALAR_KIND_CHANGED at #/M/N/1",
    ),
    Case(
        "package changed",
        proto3("message A {}").replace("shop", "store"),
        proto3("message A {}"),
        False,
        "PACKAGE_CHANGED at #/",
    ),
    Case("enum added", proto3(f"{ENUM} message A {{}}"), proto3("message A {}"), True),
    Case("enum removed", proto3("message A {}"), proto3(f"{ENUM} message A {{}}"), True),
    Case("enum value added", proto3("enum E { A = 0; B = 1; }"), proto3("enum E { A = 0; }"), True),
    Case(
        "enum value removed", proto3("enum E { A = 0; }"), proto3("enum E { A = 0; B = 1; }"), True
    ),
    Case("enum value renamed", proto3("enum E { X = 0; }"), proto3("enum E { A = 0; }"), True),
    Case(
        "service removed",
        proto3("message A {}"),
        proto3("message A {} service S { rpc F(A) returns (A); }"),
        True,
    ),
    Case(
        "file options change",
        proto3('option java_package = "x"; message A {}'),
        proto3("message A {}"),
        True,
    ),
    Case(
        "name written in full",
        proto3("message A { .shop.A a = 1; }"),
        proto3("message A { A a = 1; }"),
        True,
    ),
    Case(
        "list to the same",
        proto3("message L { L next = 1; int32 v = 2; }"),
        proto3("message L { L next = 1; int32 v = 2; }"),
        True,
    ),
    Case(
        "list changed",
        proto3("message L { L next = 1; string v = 2; }"),
        proto3("message L { L next = 1; int32 v = 2; }"),
        False,
        "FIELD_SCALAR_KIND_CHANGED at #/L/2",
    ),
    Case(
        "proto2 to proto3",
        proto3("message A { optional int32 a = 1; }"),
        proto2("message A { optional int32 a = 1; }"),
        True,
    ),
    Case(
        "built-in type to another",
        proto3(
            'import "google/protobuf/duration.proto"; message A { google.protobuf.Duration t = 1; }'
        ),
        proto3(
            'import "google/protobuf/timestamp.proto"; message A { google.protobuf.Timestamp t = 1; }'
        ),
        False,
        "FIELD_NAMED_TYPE_CHANGED at #/A/1",
    ),
]

CASES = [*SCALARS, *FIELDS, *CHOICES, *TYPES]
