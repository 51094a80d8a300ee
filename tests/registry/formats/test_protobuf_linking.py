"""Protobuf files that the compiler refuses and Confluent's registry accepts."""

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from strom.registry.formats import InvalidSchema, Referenced
from strom.registry.formats.protobuf.custom_options import keep_unresolved
from strom.registry.formats.protobuf.linking import MAX_ADDED_FILES
from strom.registry.formats.protobuf.schema import ProtobufSchema
from tests.registry.formats.proto_cases import proto2, proto3

ADDRESS = Referenced("shop/address.proto", proto3("message Address { string city = 1; }"))


def schema(text, references=(), *, lenient=False):
    """Parse a text; its canonical text, and its normalized one, are the same schema."""
    read = ProtobufSchema.parse(text, references, lenient=lenient)
    for printed in (read.canonical, read.normalized):
        again = ProtobufSchema.parse(printed, references, lenient=lenient)
        assert again.normalized == read.normalized
    assert (
        ProtobufSchema.parse(read.canonical, references, lenient=lenient).canonical
        == read.canonical
    )
    return read


def dependencies(read):
    return list(FileDescriptorProto.FromString(base64.b64decode(read.serialized)).dependency)


def test_a_type_is_found_in_a_reference_under_another_name():
    read = schema(
        proto3('import "address.proto"; message Order { Address to = 1; .shop.Address of = 2; }'),
        [ADDRESS],
    )
    assert 'import "address.proto";' in read.canonical
    assert "shop/address.proto" not in read.canonical
    assert "  .shop.Address to = 1;" in read.canonical
    assert dependencies(read) == ["address.proto"]


def test_a_type_of_a_reference_needs_no_import():
    assert "import" not in schema(proto3("message A { Address a = 1; }"), [ADDRESS]).canonical


def test_a_built_in_type_needs_no_import():
    text = proto3("message A { google.protobuf.Timestamp at = 1; }")
    assert "import" not in schema(text).canonical


def test_references_may_import_each_other_in_any_order():
    one = Referenced("one.proto", proto3('import "two.proto"; message One { Two two = 1; }'))
    two = Referenced("two.proto", proto3("message Two { }"))
    for references in ([one, two], [two, one]):
        assert schema(proto3("message A { One a = 1; Two b = 2; }"), references)


def test_a_stored_reference_may_use_unknown_types():
    order = Referenced("o.proto", proto3('import "gone.proto"; message Order { Gone it = 1; }'))
    assert schema(proto3('import "o.proto"; message A { Order a = 1; }'), [order])


def test_a_change_of_a_type_under_another_name_is_found():
    text = proto3('import "x.proto"; message Order { Address to = 1; }')
    changed = ADDRESS._replace(text=ADDRESS.text.replace("string", "int32"))
    assert schema(text, [changed]).problems_reading(schema(text, [ADDRESS])) != []


OPTIONS = r"""
import "acme/options.proto";
option (acme.file).owner = "a\"b\\";
message A {
  option (acme.message) = { a: 1 b < c: -1e-5 > d: [1, 2] };
  optional string name = 1
      [(acme.rules).text.min = 1, deprecated = true, (acme.tag) = 'x', (acme.tag) = "y"];
  oneof o { option (acme.oneof) = FOO; int32 p = 6; group Q = 7 { option (acme.message) = {}; } }
  enum E { option (.acme.enum) = true; X = 0 [(acme.value) = -1]; }
  extensions 100 to 200 [(acme.range) = 1];
  message N { optional int32 option = 1; }
}
service S {
  option (acme.service) = 1;
  rpc Get(A) returns (A) { option (google.api.http) = { get: "/x" additional_bindings { get: "/y" } }; }
}
"""


def test_custom_options_without_a_definition_are_kept():
    printed = schema(proto2(OPTIONS)).canonical
    for text in (
        r'option (acme.file).owner = "a\"b\\";',
        "option (acme.message) = { a : 1 b < c : -1e-5 > d : [ 1 , 2 ] };",
        "    (acme.rules).text.min = 1,\n    (acme.tag) = 'x',\n    (acme.tag) = \"y\"\n  ];",
        "option (acme.oneof) = FOO;",
        "option (acme.message) = { };",
        "option (.acme.enum) = true;",
        "X = 0 [(acme.value) = -1];",
        "extensions 100 to 200 [(acme.range) = 1];",
        "option (acme.service) = 1;",
        'option (google.api.http) = { get : "/x" additional_bindings { get : "/y" } };',
        'import "acme/options.proto";',
    ):
        assert text in printed
    assert "strom" not in printed
    assert dependencies(schema(proto2(OPTIONS))) == ["acme/options.proto"]


def test_custom_options_of_a_text_in_another_layout_are_the_same():
    one = proto3('message A { int32 a = 1 [(u) = { x: "ms" }, (v) = 2]; }')
    other = proto3('message A { int32 a = 1 [ (u) = {x:"ms"} /* unit */, ( v )=2 ] ; }')
    assert schema(one).canonical == schema(other).canonical
    changed = one.replace("2]", "3]")
    assert schema(one).canonical != schema(changed).canonical


def test_a_field_may_have_many_custom_options():
    options = ", ".join(f"(acme.o{n}) = {n}" for n in range(30))
    printed = schema(proto3(f"message A {{ int32 a = 1 [{options}]; }}")).canonical
    assert all(f"    (acme.o{n}) = {n}" in printed for n in range(30))


@given(st.text(st.sampled_from("option()[]{}<>;,=\"'/*\n a1"), max_size=60))
def test_any_text_can_be_searched_for_options(text):
    assert keep_unresolved(text, set()) == text
    keep_unresolved(text, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A { Foo a = 1; }", '"Foo" is not defined'),
        ('import "x.proto"; message A { Foo a = 1; }', "The import x.proto is neither built in"),
        ("message A { int32 a = 1 [deprecatd = true]; }", 'Option "deprecatd" unknown'),
        ("message A { int32 a = 1 [(x) = 1]; int32 b = 1; }", "already been used"),
        ('import "../x.proto"; message A { }', "not allowed in the virtual path"),
    ],
)
def test_a_new_file_is_refused_for_anything_else(text, reason):
    with pytest.raises(InvalidSchema, match=reason):
        ProtobufSchema.parse(proto3(text), ())


@pytest.mark.parametrize(
    "text",
    [
        "message A { Foo a = 1; map<string, .far.away.Bar> b = 2; }",
        'import "x.proto"; message A { other.Foo a = 1; }',
        'import "google/api/http.proto"; message A { google.api.Http a = 1; }',
        "message A { int32 a = 1 [no_such_option = { x: 1 }]; }",
        "extend Foo { optional string note = 100; }",
    ],
)
def test_a_stored_file_may_use_what_is_unknown(text):
    with pytest.raises(InvalidSchema):
        ProtobufSchema.parse(proto3(text), ())
    read = schema(proto2(text) if "extend" in text else proto3(text), lenient=True)
    assert read.problems_reading(read) == []


def test_missing_files_and_types_are_limited():
    many = "".join(f"T{n} f{n} = {n + 1}; " for n in range(MAX_ADDED_FILES + 1))
    with pytest.raises(InvalidSchema, match="is not defined"):
        ProtobufSchema.parse(proto3(f"message A {{ {many} }}"), (), lenient=True)


LAYOUT = """syntax = "proto3";
package shop;

import "google/protobuf/any.proto";
import public "google/protobuf/empty.proto";

option java_multiple_files = true;
option java_package = "shop";

message Order {
  reserved 8 to 9;
  reserved "old";

  option deprecated = true;

  string id = 1;
  map<string, .shop.Order.Line> lines = 2;
  repeated .google.protobuf.Any more = 3 [
    deprecated = true,
    json_name = "others"
  ];

  oneof by {
    string mail = 4;
    string phone = 5 [deprecated = true];
  }

  message Line {
    reserved 2;
__
    int32 count = 1;
__
    enum Unit {
      reserved 5;
      PIECE = 0;
      KILO = 1 [deprecated = true];
    }
  }
  message Nothing {}
}
message Empty {}
enum State {
  OPEN = 0;
  DONE = 1;
}

service Orders {
  option deprecated = true;

  rpc Put (.shop.Order) returns (stream .shop.Empty);
  rpc Get (.shop.Empty) returns (.shop.Order) {
    option deprecated = true;
  };
}
""".replace("__", "  ")
"""As Confluent's registry normalizes it; the blank lines of nested messages are indented."""


def test_the_layout_is_that_of_confluents_registry():
    assert schema(LAYOUT).normalized == LAYOUT
    shuffled = LAYOUT.replace("  string id = 1;\n", "").replace(
        "  map<", "  string id = 1;\n  map<"
    )
    assert schema(shuffled.replace("\n\n", "\n")).normalized == LAYOUT
