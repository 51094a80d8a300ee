"""JSON bodies: strict, and limited in the number of their values."""

import json

import pytest

from strom.http.errors import HttpError
from strom.http.json_body import MAX_VALUES, parse_json

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
    "body", [b"[" * 500_000, b"9" * 5_000, b'{"a":NaN}', b'"\\ud800"', b"\xff"]
)
def test_what_python_would_accept_or_fail_on_is_refused(body):
    with pytest.raises(HttpError) as refused:
        parse_json(body)
    assert refused.value.status == 400
