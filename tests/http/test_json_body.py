"""JSON bodies: strict, and limited in the number of their values."""

import json

import pytest

from strom.http import json_body
from strom.http.errors import HttpError
from strom.http.json_body import FEW_VALUES, MAX_VALUES, parse_json

MANY = b"[" + b'{"a": [1.5, "\\ud83d\\ude00"]}, ' * FEW_VALUES + b"[]]"


REFUSED = {
    "lists": b"[" + b"[]," * MAX_VALUES + b"[]]",
    "an object": b"{" + b'"a":0,' * MAX_VALUES + b'"a":0}',
    "lists after strings with quotes": b'["\\\\","\\"",' + b"[]," * MAX_VALUES + b"[]]",
}


@pytest.mark.parametrize("name", REFUSED)
def test_too_many_values_are_refused(name):
    with pytest.raises(HttpError) as refused:
        parse_json(REFUSED[name])
    assert refused.value.status == 413


@pytest.mark.parametrize("piece", [",", "[{,", '\\"', "\\\\,", '\\\\\\",'])
def test_separators_inside_strings_are_no_values(piece):
    body = b'{"payload":"' + piece.encode() * MAX_VALUES + b'"}'
    assert parse_json(body) == json.loads(body)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 500_000,
        b"9" * 5_000,
        b'{"a":NaN}',
        b'"\\ud800"',
        b"\xff",
        MANY[:-1] + b', "\\ud800"]',
    ],
)
def test_what_python_would_accept_or_fail_on_is_refused(body):
    with pytest.raises(HttpError) as refused:
        parse_json(body)
    assert refused.value.status == 400


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-be", "utf-8-sig"])
def test_only_utf_8_is_accepted(encoding):
    with pytest.raises(HttpError) as refused:
        parse_json('["\u2200", []]'.encode(encoding))
    assert refused.value.status == 400


def test_many_values_are_parsed_by_a_parser_that_lets_other_threads_run():
    assert parse_json(MANY) == json.loads(MANY)
    assert not json_body._has_few_values(MANY)
    decoder = json_body._YieldingDecoder()
    assert decoder.scan_once.__module__ == "json.scanner"  # Python's, not the one in C
