import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.model.errors import ProtocolError
from strom.wire.kafka.varints import read_varint, skip_tags, varint


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_what_is_written_is_read_back(value, before):
    raw = before + varint(value) + b"after"
    assert read_varint(raw, len(before)) == (value, len(raw) - 5)


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (127, "7f"), (128, "80 01"), (300, "ac 02"), (2**31, "8080808008")],
)
def test_known_bytes(value, raw):
    assert varint(value) == bytes.fromhex(raw)


@pytest.mark.parametrize("raw", ["ffffffffff01", "808080808000", "ffffffff7f"])
def test_more_than_32_bits_are_refused(raw):
    with pytest.raises(ProtocolError, match="32 bits"):
        read_varint(bytes.fromhex(raw), 0)


def test_tags_are_stepped_over():
    assert skip_tags(b"\x05\x02ab\x06\x00rest", 0, 2) == 6


def test_a_tag_that_reaches_past_the_end_is_refused():
    with pytest.raises(ProtocolError, match="exceeds the message"):
        skip_tags(b"\x05\x09ab", 0, 1)
