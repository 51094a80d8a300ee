import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.model.errors import ProtocolError
from strom.wire.kafka.header import RequestHeader, decode_request_header, response_header

PRODUCE, OFFSET_DELETE, API_VERSIONS, UNKNOWN = 0, 47, 18, 9999


def frame(api_key, version, rest, correlation_id=7):
    return memoryview(struct.pack(">hhi", api_key, version, correlation_id) + rest)


def test_a_rigid_request_has_a_header_without_tags():
    read = decode_request_header(frame(PRODUCE, 8, b"\x00\x02mebody"))
    assert read == RequestHeader(PRODUCE, 8, 7, "me", 12)


def test_a_request_that_is_never_flexible_has_a_header_without_tags():
    read = decode_request_header(frame(OFFSET_DELETE, 0, b"\x00\x02mebody"))
    assert read == RequestHeader(OFFSET_DELETE, 0, 7, "me", 12)


def test_a_flexible_request_has_a_header_with_tags():
    read = decode_request_header(frame(PRODUCE, 9, b"\x00\x02me\x01\x05\x03abcbody"))
    assert read == RequestHeader(PRODUCE, 9, 7, "me", 18)


def test_a_client_may_have_no_name():
    read = decode_request_header(frame(PRODUCE, 9, b"\xff\xff\x00body"))
    assert read == RequestHeader(PRODUCE, 9, 7, None, 11)


def test_a_version_from_the_future_can_be_read_to_be_answered():
    read = decode_request_header(frame(API_VERSIONS, 99, b"\x00\x02me\x00body"))
    assert (read.api_version, read.correlation_id, read.client_id) == (99, 7, "me")


@pytest.mark.parametrize("rest", [b"", b"\x00", b"\x00\xffno"])
def test_an_unknown_api_key_is_read_up_to_the_correlation_id(rest):
    assert decode_request_header(frame(UNKNOWN, 3, rest)) == RequestHeader(UNKNOWN, 3, 7, None, 8)


@pytest.mark.parametrize(
    "rest", [b"", b"\x00\x05me", b"\xff\xfe", b"\x00\x01\xff\x00", b"\x00\x00"]
)
def test_a_broken_header_is_refused(rest):
    with pytest.raises(ProtocolError):
        decode_request_header(frame(PRODUCE, 9, rest))


def test_a_header_full_of_tags_is_refused():
    with pytest.raises(ProtocolError, match="65 unknown tagged fields"):
        decode_request_header(frame(API_VERSIONS, 3, b"\xff\xff\x41" + b"\x01\x00" * 65))


@given(st.binary(max_size=40))
def test_any_bytes_give_a_header_or_a_refusal(raw):
    try:
        header = decode_request_header(memoryview(raw))
    except ProtocolError:
        return
    assert 8 <= header.body_position <= len(raw)


@pytest.mark.parametrize(
    ("api_key", "version", "expected"),
    [
        (PRODUCE, 8, "00 00 00 07"),
        (PRODUCE, 9, "00 00 00 07 00"),
        (API_VERSIONS, 0, "00 00 00 07"),
        (API_VERSIONS, 4, "00 00 00 07"),
        (OFFSET_DELETE, 0, "00 00 00 07"),
        (UNKNOWN, 4, "00 00 00 07"),
    ],
)
def test_an_answer_has_tags_in_its_header_if_it_is_flexible_but_never_for_api_versions(
    api_key, version, expected
):
    assert response_header(api_key, version, 7).hex(" ") == expected
