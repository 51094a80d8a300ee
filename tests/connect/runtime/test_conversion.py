"""Messages become the same records in columns as one after the other."""

from itertools import groupby

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from hypothesis import given
from hypothesis import strategies as st

from strom.connect.converters import make_converter, make_header_converter
from strom.connect.converters.making import DEFAULT_HEADER_CONVERTER
from strom.connect.runtime.conversion import Conversion, spans_of
from strom.connect.transforms import make_chain

CONVERTERS = {
    "String": {},
    "ByteArray": {},
    "JSON": {"schemas.enable": "false"},
}
HOIST = {
    "transforms": "value,key",
    "transforms.value.type": "HoistField$Value",
    "transforms.value.field": "line",
    "transforms.key.type": "HoistField$Key",
    "transforms.key.field": "id",
}
RENAME = {
    "transforms": "to",
    "transforms.to.type": "RegexRouter",
    "transforms.to.regex": ".*",
    "transforms.to.replacement": "z",
}


def a_conversion(key="String", value="String", transforms=None):
    return Conversion(
        make_converter(key, CONVERTERS.get(key, {}), is_key=True),
        make_converter(value, CONVERTERS.get(value, {}), is_key=False),
        make_header_converter(DEFAULT_HEADER_CONVERTER, {}),
        make_chain(transforms) if transforms else None,
    )


def a_message(topic="t", partition=0, offset=0, value=b"1", key=None, stamp=7, headers=None):
    return Message(
        topic=topic,
        partition=partition,
        offset=offset,
        value=value,
        key=key,
        timestamp=(TIMESTAMP_CREATE_TIME, stamp),
        headers=headers,
    )


data = st.none() | st.sampled_from([b"", b"1", b'"x"', b'{"a": [1.5, null]}'])
messages = st.builds(
    a_message,
    topic=st.sampled_from("tu"),
    partition=st.integers(0, 1),
    offset=st.integers(0, 9),
    value=data,
    key=data,
    stamp=st.integers(0, 9),
)


@given(
    st.lists(messages, max_size=12),
    st.sampled_from(sorted(CONVERTERS)),
    st.sampled_from(sorted(CONVERTERS)),
    st.sampled_from([None, HOIST]),
)
def test_columns_are_what_one_after_the_other_makes(some, key, value, transforms):
    conversion = a_conversion(key, value, transforms)
    columns = conversion.in_columns(some, spans_of(some))
    assert columns is not None
    assert list(columns) == conversion.one_after_the_other(some)
    assert list(columns) == [conversion.one_incoming(message) for message in some]


@given(st.lists(messages, max_size=12))
def test_spans_are_the_messages_of_each_partition_in_a_row(some):
    def place(message):
        return message.topic(), message.partition()

    expected = [(at, len(list(group))) for at, group in groupby(some, place)]
    assert [(tuple(one.partition), one.end - one.start) for one in spans_of(some)] == expected


@pytest.mark.parametrize(
    "conversion",
    [a_conversion("Long"), a_conversion(value="Long"), a_conversion(transforms=RENAME)],
    ids=["key", "value", "transform"],
)
def test_what_has_no_columns_goes_one_after_the_other(conversion):
    number = bytes(8)
    some = [a_message(value=number, key=number)]
    assert conversion.in_columns(some, spans_of(some)) is None
    assert list(conversion.incoming(some, spans_of(some))) == [conversion.one_incoming(some[0])]


def test_headers_go_one_after_the_other():
    some = [a_message(), a_message(offset=1, headers=[("h", b"5")])]
    conversion = a_conversion()
    assert conversion.in_columns(some, spans_of(some)) is None
    first, second = conversion.incoming(some, spans_of(some))
    assert (first.headers, [header.value for header in second.headers]) == ((), [5])


def test_one_bad_value_fails_all_so_that_they_are_tried_one_by_one():
    some = [a_message(), a_message(offset=1, value=b"\xff")]
    with pytest.raises(UnicodeDecodeError):
        a_conversion().incoming(some, spans_of(some))
