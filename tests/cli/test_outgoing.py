"""Lines to records."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.cli.outgoing import LineFormat, OutgoingRecord, read_json_line
from strom.cli.record_format import format_json
from strom.model.errors import UserError


def test_a_plain_line_is_the_value():
    assert LineFormat().read(b"a\tb") == OutgoingRecord(b"a\tb")


def test_the_first_separator_ends_the_key():
    line_format = LineFormat(parse_key=True, key_separator="::")
    assert line_format.read(b"k::v::w") == OutgoingRecord(b"v::w", b"k")


def test_headers_key_and_value_in_kafkas_order():
    line_format = LineFormat(parse_key=True, parse_headers=True)
    record = line_format.read(b"h1:v1,h2:v2\tk\tv")
    assert record == OutgoingRecord(b"v", b"k", [("h1", b"v1"), ("h2", b"v2")])


def test_a_missing_separator_is_refused_unless_ignored():
    with pytest.raises(UserError, match="No key separator"):
        LineFormat(parse_key=True).read(b"value")
    record = LineFormat(parse_key=True, ignore_error=True).read(b"value")
    assert record == OutgoingRecord(b"value")


def test_the_null_marker_stands_for_nothing():
    record = LineFormat(parse_key=True, null_marker="NULL").read(b"k\tNULL")
    assert record == OutgoingRecord(None, b"k")


def test_json_values_that_are_no_text_stay_json():
    record = read_json_line(b'{"key": 7, "value": {"a": [1, "\xc3\xa4"]}}')
    assert record == OutgoingRecord('{"a":[1,"ä"]}'.encode(), b"7")


def test_json_says_partition_timestamp_and_headers():
    record = read_json_line(
        b'{"value": null, "partition": 3, "timestamp": 5, "headers": {"a": "b", "c": null}}'
    )
    assert record == OutgoingRecord(None, None, [("a", b"b"), ("c", None)], 3, 5)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b'{"key": "k"}',
        b'{"value": 1, "partition": "x"}',
        b'{"value": 1, "partition": -1}',
        b'{"value": 1, "timestamp": true}',
        b'{"value": 1, "headers": 5}',
        b'{"value": 1, "headers": [5]}',
        b'{"value_base64": "%"}',
        b'{"value_base64": 5}',
        b"\xff",
    ],
)
def test_bad_json_is_refused(line):
    with pytest.raises(UserError):
        read_json_line(line)


class Received:
    """A record as confluent-kafka hands it out."""

    def __init__(self, record: OutgoingRecord):
        self._record = record

    def topic(self):
        return "clicks"

    def partition(self):
        return self._record.partition

    def offset(self):
        return 0

    def timestamp(self):
        return (1, self._record.timestamp)

    def key(self):
        return self._record.key

    def value(self):
        return self._record.value

    def headers(self):
        return self._record.headers or None


payloads = st.none() | st.binary() | st.text().map(str.encode)


@given(
    st.builds(
        OutgoingRecord,
        value=payloads,
        key=payloads,
        headers=st.lists(st.tuples(st.text(), payloads), max_size=3),
        partition=st.integers(0, 100),
        timestamp=st.integers(0, 2**40),
    )
)
def test_what_consume_prints_as_json_produce_reads_back(record):
    line = format_json(Received(record))
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    assert json.loads(line)["topic"] == "clicks"
    assert read_json_line(line[:-1]) == record
