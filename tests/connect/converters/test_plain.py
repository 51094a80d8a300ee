"""Text, bytes, numbers and booleans, and converters by their names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.connect.api import InvalidSettings, PoisonRecord
from strom.connect.api.schema import BYTES, INT32, OPTIONAL_BYTES, OPTIONAL_STRING, STRING
from strom.connect.converters import CONVERTERS, make_converter, make_header_converter


def converter(name, **texts):
    return make_converter(name, texts, is_key=False)


@given(st.text())
def test_text_comes_back(text):
    one = converter("String")
    if any("\ud800" <= character <= "\udfff" for character in text):
        return
    assert one.from_bytes("t", one.to_bytes("t", STRING, text)) == (OPTIONAL_STRING, text)


def test_text_in_another_encoding():
    one = make_converter("String", {"converter.encoding": "ISO-8859-1"}, is_key=True)
    assert one.to_bytes("t", STRING, "ü") == b"\xfc"


def test_an_unknown_encoding_is_refused():
    with pytest.raises(InvalidSettings, match="UTF-8"):
        make_converter("String", {"converter.encoding": "UTF-9"}, is_key=True)


def test_bytes_that_are_no_text_are_refused_not_changed():
    with pytest.raises(PoisonRecord, match="ByteArrayConverter"):
        converter("String").from_bytes("t", b"\xff")


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, b"true"), (12, b"12"), (1e10, b"1.0E10"), ({"a": [1, None]}, b"{a=[1, null]}")],
)
def test_what_is_no_text_is_written_as_java_prints_it(value, text):
    assert converter("String").to_bytes("t", None, value) == text


def test_bytes_stay_as_they_are():
    one = converter("ByteArray")
    assert one.from_bytes("t", one.to_bytes("t", BYTES, b"\x00\xff")) == (
        OPTIONAL_BYTES,
        b"\x00\xff",
    )


@pytest.mark.parametrize(("schema", "value"), [(INT32, 5), (None, "text"), (STRING, "text")])
def test_only_bytes_are_bytes(schema, value):
    with pytest.raises(PoisonRecord):
        converter("ByteArray").to_bytes("t", schema, value)


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("Short", -2, b"\xff\xfe"),
        ("Integer", 1, b"\0\0\0\1"),
        ("Long", -1, b"\xff" * 8),
        ("Float", 1.5, b"\x3f\xc0\0\0"),
        ("Double", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        ("Boolean", True, b"\1"),
    ],
)
def test_numbers_are_big_endian_and_of_fixed_size(name, value, data):
    one = converter(name)
    assert one.to_bytes("t", None, value) == data
    assert one.from_bytes("t", data)[1] == value
    assert one.from_bytes("t", None)[1] is None
    assert one.to_bytes("t", None, None) is None
    with pytest.raises(PoisonRecord):
        one.from_bytes("t", data + b"\0")
    with pytest.raises(PoisonRecord):
        one.to_bytes("t", None, "text")


def test_a_number_too_large_is_refused():
    with pytest.raises(PoisonRecord):
        converter("Short").to_bytes("t", None, 40_000)


def test_a_boolean_is_0_or_1():
    with pytest.raises(PoisonRecord):
        converter("Boolean").from_bytes("t", b"\2")


@pytest.mark.parametrize("plugin", CONVERTERS, ids=lambda plugin: plugin.name)
def test_every_converter_is_known_by_short_and_by_full_name(plugin):
    assert plugin.load().settings_class.definitions() is not None
    settings = (
        {"schema.registry.url": "http://localhost:1"} if "confluent" in plugin.class_name else {}
    )
    by_short = make_converter(plugin.name, settings, is_key=True)
    by_full = make_converter(plugin.class_name, settings, is_key=True)
    assert type(by_short) is type(by_full) is plugin.load()
    by_short.close()
    by_full.close()


def test_an_unknown_class_is_refused_with_the_nearest():
    with pytest.raises(InvalidSettings) as raised:
        make_converter("StringConvertor", {}, is_key=False)
    assert "StringConverter" in raised.value.problems["value.converter"][0]


def test_headers_may_go_through_any_converter():
    one = make_header_converter("JSON", {"schemas.enable": "false"})
    assert one.to_bytes("t", None, {"a": 1}) == b'{"a":1}'
    assert one.from_bytes("t", b"[1]") == (None, [1])
    with pytest.raises(InvalidSettings) as raised:
        make_header_converter("Jason", {})
    assert "header.converter" in raised.value.problems
