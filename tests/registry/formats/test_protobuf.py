"""Protobuf: what is valid, one canonical text for texts and descriptors, and who can read what."""

import base64
import re
from contextlib import suppress

import pytest
from google.protobuf import struct_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.registry.formats import InvalidSchema, Referenced, SchemaType, parse
from strom.registry.formats.protobuf.schema import ProtobufSchema
from tests.registry.formats.proto_cases import CASES, proto2, proto3

NAMES = [case.what for case in CASES]


def schema(text, references=()):
    return ProtobufSchema.parse(text, references)


def descriptor(read):
    return FileDescriptorProto.FromString(base64.b64decode(read.serialized))


def test_the_table_has_both_answers():
    assert len(set(NAMES)) == len(CASES) > 300
    assert 80 < sum(case.readable for case in CASES) < len(CASES) - 80


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_case_is_answered_as_the_table_says(case):
    problems = schema(case.reader).problems_reading(schema(case.writer))
    assert [problem.split(":")[0] for problem in problems] == ([] if case.readable else [case.rule])


EVERYTHING = proto2("""
import "google/type/money.proto";
import public "google/protobuf/any.proto";
import "confluent/meta.proto";
import "google/protobuf/descriptor.proto";
option java_package = "x.y";
option (confluent.file_meta) = { doc: "h\u00e9 \\"quoted\\"\\n" params: { key: "a" value: "b" } };
extend google.protobuf.FieldOptions { optional Level level = 50001; repeated string hints = 50002; }
enum Level { LOW = 0; HIGH = 1; }
message A {
  option deprecated = true;
  message Before {}
  optional google.type.Money price = 1
      [(confluent.field_meta) = { tags: ["a", "b"] }, deprecated = true, (level) = HIGH];
  map<string, A> m = 2;
  oneof o {
    int32 q = 3 [(hints) = "x", (hints) = "y"];
    group InChoice = 12 { optional int32 a = 1; }
  }
  optional int32 z = 4 [default = -5];
  optional string s = 5 [default = "a\\"b\\n\u00e9\\t\\\\"];
  optional bytes raw = 6 [default = "\\001\\377x\\""];
  optional float f = 8 [default = -inf];
  optional E e = 30 [default = Y];
  repeated int32 packed = 31 [packed = true, json_name = "zz"];
  reserved 7, 19 to 22, 100 to 199, 300 to max;
  reserved "foo", "bar";
  enum E { option allow_alias = true; X = 0; Y = 1; Z = 1; N = -3; reserved 5, 7 to max; reserved "W"; }
  repeated group G = 13 { required int32 x = 1; message Inner {} }
  message After {}
  map<int32, E> last = 32;
  extensions 200 to 250;
  extend A { optional int32 inner = 201; }
}
extend A { optional int32 outer = 202; repeated A.After more = 203; optional group Top = 204 {} }
service S {
  rpc F(stream A) returns (A.After) { option deprecated = true; }
  rpc H(A) returns (stream A);
}
""")


def nested_names(messages):
    return [(message.name, nested_names(message.nested_type)) for message in messages]


@pytest.mark.parametrize(
    "text",
    [
        EVERYTHING,
        proto3("message A { optional int32 a = 1; int32 b = 2; oneof c { int32 d = 3; } }"),
        "message NoSyntax { required int32 a = 1; }",
        'edition = "2023"; message A { int32 a = 1 [features.field_presence = IMPLICIT]; reserved b; }',
        proto3('import weak "google/protobuf/any.proto"; enum E { Z = 0; } '),
    ],
    ids=["everything", "proto3", "no syntax", "edition", "no message"],
)
def test_a_text_its_print_and_its_descriptor_are_one_schema(text):
    read = schema(text)
    printed = schema(read.canonical)
    assert printed.canonical == read.canonical
    assert schema(read.serialized).canonical == read.canonical
    assert schema(read.normalized).normalized == read.normalized
    assert read.problems_reading(printed) == printed.problems_reading(read) == []
    # Data names nested messages by their position.
    names = nested_names(descriptor(read).message_type)
    assert nested_names(descriptor(printed).message_type) == names
    assert nested_names(descriptor(schema(read.normalized)).message_type) == names


def test_nothing_of_a_file_is_lost_in_print():
    read, printed = schema(EVERYTHING), schema(schema(EVERYTHING).canonical)
    assert sorted_fields(descriptor(printed)) == sorted_fields(descriptor(read))


def sorted_fields(file):
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        message.field.sort(key=lambda field: field.number)
        waiting += message.nested_type
    return file


def test_layout_comments_and_ways_to_name_a_type_make_no_other_schema():
    one = proto3("message A { B b = 1; } message B {}")
    other = "// About.\n" + proto3("message A {\n  /* see */ .shop.B b = 1 ;;\n}\nmessage B {\n}")
    assert schema(one).canonical == schema(other).canonical
    assert "\n  .shop.B b = 1;\n" in schema(one).canonical


def test_order_makes_another_schema_but_not_a_normal_one():
    one = proto3("message A { int32 a = 1; int32 b = 2; }")
    other = proto3("message A { int32 b = 2; int32 a = 1; }")
    assert schema(one).canonical != schema(other).canonical
    assert schema(one).normalized == schema(other).normalized
    messages = proto3("message A {} message B {}"), proto3("message B {} message A {}")
    assert schema(messages[0]).normalized != schema(messages[1]).normalized


def test_confluents_serializer_and_a_text_give_one_schema():
    """confluent-kafka for Python registers the descriptor that generated code carries."""
    sent = base64.b64encode(struct_pb2.DESCRIPTOR.serialized_pb).decode()
    read = schema(sent)
    assert "message ListValue {\n  repeated .google.protobuf.Value values = 1;\n" in read.canonical
    names = list(struct_pb2.DESCRIPTOR.message_types_by_name)
    assert [message.name for message in read.file.message_type] == names
    assert schema(read.canonical).canonical == read.canonical


IMPORTED = Referenced("shop/address.proto", proto3("message Address { string city = 1; }"))
ORDER = proto3('import "shop/address.proto"; message Order { Address to = 1; }')


def test_an_import_is_found_among_the_references():
    assert 'import "shop/address.proto";' in schema(ORDER, [IMPORTED]).canonical
    with pytest.raises(InvalidSchema, match=r"The import shop/address\.proto is neither built in"):
        schema(ORDER)


def test_a_reference_may_be_a_descriptor():
    sent = IMPORTED._replace(text=schema(IMPORTED.text).serialized)
    assert schema(ORDER, [sent]).canonical == schema(ORDER, [IMPORTED]).canonical
    order = schema(ORDER, [IMPORTED]).serialized
    assert schema(order, [sent]).canonical == schema(ORDER, [IMPORTED]).canonical


def test_references_of_references_are_known():
    customer = Referenced(
        "customer.proto",
        proto3('import "shop/address.proto"; message Customer { Address at = 1; }'),
    )
    text = proto3('import "customer.proto"; message Bill { Customer of = 1; }')
    assert schema(text, [IMPORTED, customer]).canonical


def test_a_change_in_an_import_is_found():
    changed = IMPORTED._replace(text=IMPORTED.text.replace("string", "int32"))
    assert schema(ORDER, [changed]).problems_reading(schema(ORDER, [IMPORTED])) == [
        "FIELD_SCALAR_KIND_CHANGED at #/Address/1: the writer's string city cannot be read as int32"
    ]


def test_a_message_may_move_into_an_import_of_another_package():
    own = proto3("message Order { Address to = 1; } message Address { string city = 1; }")
    moved = IMPORTED._replace(text=IMPORTED.text.replace("package shop", "package places"))
    text = ORDER.replace("Address to", "places.Address to")
    assert schema(own).problems_reading(schema(text, [moved])) == []
    found = schema(text, [moved]).problems_reading(schema(own))
    assert found == ["MESSAGE_REMOVED at #/Address: the reader has no message Address"]


def test_own_options_are_known_from_their_file():
    options = Referenced(
        "options.proto",
        proto3(
            'import "google/protobuf/descriptor.proto";'
            "extend google.protobuf.FieldOptions { string about = 50001; }"
        ),
    )
    text = proto3('import "options.proto"; message A { int32 a = 1 [(about) = "x"]; }')
    read = schema(text, [options])
    assert 'a = 1 [(shop.about) = "x"];' in read.canonical
    assert schema(read.serialized, [options]).canonical == read.canonical


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The schema is empty"),
        ("nonsense", "Line 1, column 1: Expected top-level statement"),
        (proto3("message A { int32 a = 0; }"), "Line 3, column 23: Field numbers must be positive"),
        (proto3("message A { int32 a = 1; int32 b = 1; }"), "Line 3, column"),
        (proto3("message A { Foo a = 1; }"), 'Line 3, column 13: "Foo" is not defined'),
        (proto3("message A {} message A {}"), '"A" is already defined'),
        (
            proto3("message A { required int32 a = 1; }"),
            "Required fields are not allowed in proto3",
        ),
        (proto3("message A {"), "Reached end of input"),
        (proto3("enum E { A = 1; }"), "The first enum value must be zero"),
        (
            proto3('import "../secret.proto";'),
            "are not allowed in the virtual path of ../secret.proto",
        ),
        ("AAAA", "Line 1"),
        (base64.b64encode(b'\n\x01a"\x05\n\x03b c').decode(), "Line 3"),
        ("message A { " * 50 + "}" * 50, "recursion limit"),
        (proto3("option (o) = " + "{ a " * 50_000 + "}" * 50_000), "nested more than 100 levels"),
        (proto3("option (o)" + ".a" * 50_000 + " = 1;"), "a name of more than 100 parts"),
        (proto3("message A {\0}"), "Invalid control characters"),
        ("x" * 2_000_000, "characters"),
    ],
)
def test_an_invalid_file_is_refused_with_a_place(text, said):
    with pytest.raises(InvalidSchema, match=re.escape(said)):
        parse(SchemaType.PROTOBUF, text)


@pytest.mark.parametrize("name", ["../x.proto", "/x.proto", "a//b.proto", "a\\b.proto", "", "."])
def test_a_reference_cannot_lead_out_of_the_folder(name):
    with pytest.raises(InvalidSchema, match="is not a valid import path"):
        schema(proto3("message A {}"), [Referenced(name, IMPORTED.text)])


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    with suppress(InvalidSchema):
        assert parse(SchemaType.PROTOBUF, base64.b64encode(data).decode()).canonical


def test_every_one_of_many_messages_is_compared():
    text = proto3("".join(f"message M{n} {{ message N {{ int32 a = 1; }} }}" for n in range(500)))
    found = schema(text.replace("int32", "string")).problems_reading(schema(text))
    assert len(found) == 500


def test_a_chain_of_messages_is_compared_however_long():
    chain = "".join(f"message M{n} {{ M{n + 1} next = 1; }}" for n in range(3000))
    read = schema(proto3(f"{chain} message M3000 {{}}"))
    assert read.problems_reading(read) == []
