"""Field tables: every letter, other codecs, and tables that mean no good."""

import tracemalloc
from decimal import Decimal

import pamqp.decode
import pamqp.encode
import pika.data
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.model.tables import Timestamp
from strom.wire.amqp.protocol import AmqpError, ReplyCode
from strom.wire.amqp.table import (
    EMPTY_TABLE,
    MAX_DEPTH,
    MAX_ELEMENTS,
    change_table,
    decode_table,
    encode_table,
)
from tests.wire.amqp import foreign, values


def table_of(entries: bytes) -> bytes:
    return len(entries).to_bytes(4, "big") + entries


def one(letter_and_value: str) -> bytes:
    return table_of(b"\x01k" + bytes.fromhex(letter_and_value))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("74 00", False),
        ("74 01", True),
        ("74 02", True),
        ("62 ff", -1),
        ("42 ff", 255),
        ("73 ffff", -1),
        ("75 ffff", 65535),
        ("49 ffffffff", -1),
        ("69 ffffffff", 2**32 - 1),
        ("6c ffffffffffffffff", -1),
        ("4c ffffffffffffffff", -1),
        ("66 3fc00000", 1.5),
        ("64 3ff8000000000000", 1.5),
        ("44 02 0000007b", Decimal("1.23")),
        ("44 02 ffffff85", Decimal("-1.23")),
        ("53 00000002 c3bc", "ü"),
        ("53 00000001 ff", "\udcff"),
        ("78 00000002 c3ff", b"\xc3\xff"),
        ("54 ffffffffffffffff", Timestamp(2**64 - 1)),
        ("46 00000004 01 61 74 01", {"a": True}),
        ("41 00000004 74 00 56 56", [False, None, None]),
        ("56", None),
    ],
)
def test_every_letter_of_rabbitmq_is_read(written, value):
    table, after = decode_table(one(written))
    assert table == {"k": value}
    assert type(table["k"]) is type(value)
    assert after == len(one(written))


@given(values.tables)
@settings(deadline=None)
def test_a_table_is_read_as_it_was_written(table):
    read, after = decode_table(encode_table(table))
    assert read == table
    assert repr(read) == repr(table)
    assert after == len(encode_table(table))


@given(values.plain_tables)
@settings(deadline=None)
def test_pamqp_writes_the_same_bytes(table):
    table = foreign.sorted_tables(table)
    assert encode_table(table) == pamqp.encode.field_table(foreign.as_pamqp_has_it(table))


@given(st.dictionaries(values.names, values.nested(st.integers(-(2**63), 2**63 - 1)), max_size=4))
@settings(deadline=None)
def test_integers_are_the_same_from_every_writer(table):
    assert decode_table(pamqp.encode.field_table(table))[0] == table
    assert pamqp.decode.field_table(encode_table(table))[1] == table
    pieces: list[bytes] = []
    pika.data.encode_table(pieces, table)
    assert decode_table(b"".join(pieces))[0] == table
    assert pika.data.decode_table(encode_table(table), 0)[0] == table


@given(st.binary(min_size=1, max_size=30).filter(lambda raw: not is_utf8(raw)))
def test_text_that_is_not_utf_8_comes_out_as_it_went_in(raw):
    written = table_of(b"\x01kS" + len(raw).to_bytes(4, "big") + raw)
    assert encode_table(decode_table(written)[0]) == written


def is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


# Changing some entries


def test_entries_that_are_not_changed_keep_their_letters():
    raw = table_of(b"\x01ab\x05\x01bI\x00\x00\x00\x07\x01cf\x3f\xc0\x00\x00")
    assert change_table(raw) == raw
    changed = change_table(raw, {"b": "new", "d": True}, without=["c"])
    assert changed == table_of(b"\x01ab\x05" + b"\x01bS\x00\x00\x00\x03new" + b"\x01dt\x01")


@given(values.tables, values.tables, st.sets(values.names))
@settings(deadline=None)
def test_changing_the_bytes_is_changing_the_table(table, changes, without):
    changed = decode_table(change_table(encode_table(table), changes, without=without))[0]
    left = {name: value for name, value in table.items() if name not in without}
    assert changed == {**left, **changes}


@pytest.mark.parametrize("raw", [b"", one("53 00000009 61"), table_of(b"\x01"), one("5a")])
def test_a_malformed_table_is_not_changed(raw):
    with pytest.raises(AmqpError):
        change_table(raw, {"a": 1})


# Tables that mean no good


def refused(raw: bytes) -> AmqpError:
    with pytest.raises(AmqpError) as caught:
        decode_table(raw)
    assert caught.value.code is ReplyCode.SYNTAX_ERROR
    return caught.value


def test_a_table_that_is_cut_anywhere_is_refused():
    whole = encode_table(
        {
            "text": "abc",
            "list": [1, 2.5, None, {"inner": b"x"}],
            "time": Timestamp(5),
            "money": Decimal("9.99"),
            "yes": True,
        }
    )
    for size in range(len(whole)):
        refused(whole[:size])
        # Cut inside as well, where the length of the outermost table is right.
        if size > 4:
            shorter = whole[4:size]
            try:
                decode_table(table_of(shorter))
            except AmqpError:
                continue
            assert size in whole_entries(whole)


def whole_entries(whole: bytes) -> set[int]:
    """Where one entry ends and the next begins."""
    table = decode_table(whole)[0]
    ends, position = set(), 4
    for name, value in table.items():
        position += len(encode_table({name: value})) - 4
        ends.add(position)
    return ends


@pytest.mark.parametrize(
    "letter", [chr(code) for code in range(256) if chr(code) not in "tbBsuIilLfdDSATFVx"]
)
def test_other_letters_are_refused(letter):
    assert "unknown type" in str(refused(table_of(b"\x01k" + letter.encode("latin-1") + bytes(8))))


@pytest.mark.parametrize("letter", ["S", "x", "F", "A"])
@pytest.mark.parametrize("size", [2**32 - 1, 2**31, 100])
def test_an_announced_size_takes_no_memory(letter, size):
    bomb = table_of(b"\x01k" + letter.encode() + size.to_bytes(4, "big") + b"abc")
    assert peak_memory(lambda: refused(bomb)) < 100_000
    assert peak_memory(lambda: refused(size.to_bytes(4, "big") + b"abc")) < 100_000


@pytest.mark.parametrize("letter", ["F", "A"])
def test_tables_inside_each_other_end_somewhere(letter):
    def levels(count: int) -> bytes:
        inner = b""
        for _ in range(count - 1):
            name = b"\x00" if letter == "F" else b""
            inner = name + letter.encode() + len(inner).to_bytes(4, "big") + inner
        return table_of(inner if letter == "F" else b"\x00" + inner)

    assert decode_table(levels(MAX_DEPTH))
    assert "levels" in str(refused(levels(MAX_DEPTH + 1)))
    refused(levels(10_000))


def test_a_table_has_so_many_values_and_no_more():
    def array_of(count: int) -> bytes:
        return table_of(b"\x01kA" + count.to_bytes(4, "big") + b"V" * count)

    assert len(decode_table(array_of(MAX_ELEMENTS - 1))[0]["k"]) == MAX_ELEMENTS - 1
    assert "values" in str(refused(array_of(MAX_ELEMENTS)))
    assert peak_memory(lambda: refused(array_of(1_000_000))) < 4_000_000


def peak_memory(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=300))
@settings(max_examples=500, deadline=None)
def test_random_bytes_give_a_table_or_an_error(raw):
    for candidate in (raw, table_of(raw)):
        try:
            decode_table(candidate)
        except AmqpError as error:
            assert error.code is ReplyCode.SYNTAX_ERROR  # noqa: PT017 - it may well be read


@given(values.tables, st.data())
@settings(max_examples=200, deadline=None)
def test_a_flipped_bit_gives_another_table_or_an_error(table, data):
    damaged = bytearray(encode_table(table))
    place = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[place // 8] ^= 1 << place % 8
    try:
        read, _ = decode_table(damaged)
    except AmqpError as error:
        assert error.code is ReplyCode.SYNTAX_ERROR  # noqa: PT017 - it may well be read
    else:
        encode_table(read)


@pytest.mark.parametrize("inner", ["46 00000003 01 61 74", "41 00000001 74"])
def test_a_value_that_runs_over_the_end_of_what_holds_it_is_refused(inner):
    # The byte that is missing inside is there outside, where it is the name of another entry.
    assert "exceeds its" in str(refused(one(inner + "00 56")))


# What cannot be written


class Odd:
    pass


def endless() -> list[object]:
    inner: list[object] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    "value",
    [2**63, -(2**63) - 1, Timestamp(-1), Decimal("1e11"), Decimal(2**31), Decimal("NaN"), Odd()],
    ids=lambda value: type(value).__name__ if isinstance(value, Odd) else repr(value),
)
def test_what_does_not_fit_is_not_written(value):
    with pytest.raises(AmqpError) as caught:
        encode_table({"k": value})
    assert caught.value.code is ReplyCode.INTERNAL_ERROR


def test_what_never_ends_is_not_written():
    with pytest.raises(AmqpError, match="levels"):
        encode_table({"k": endless()})


def test_a_name_that_is_too_long_is_not_written():
    assert encode_table({"n" * 255: None})
    with pytest.raises(AmqpError, match="short string"):
        encode_table({"n" * 256: None})


def test_an_empty_table_is_four_zeros():
    assert encode_table({}) == EMPTY_TABLE
    assert decode_table(EMPTY_TABLE) == ({}, 4)
