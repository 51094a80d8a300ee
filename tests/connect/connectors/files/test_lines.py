"""Cutting blocks into lines."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.connect.connectors.files.lines import CsvSplitter, LineSplitter, _End

blocks = st.lists(st.text("ab\n", max_size=6).map(str.encode), max_size=12)


@given(blocks)
@settings(deadline=None)
def test_however_blocks_are_cut_the_lines_are_the_same(pieces):
    whole = b"".join(pieces)
    splitter = LineSplitter(100, 1000)
    texts, ends = [], []
    for piece in pieces:
        lines = splitter.feed(piece)
        texts += lines.texts
        ends += lines.ends
        assert splitter.position == (ends[-1] if ends else 100)
    last = splitter.last()
    assert [*texts, *last.texts] == whole.split(b"\n")[: None if whole[-1:] not in b"\n" else -1]
    starts = [100, *ends]
    for text, start, end in zip(texts, starts, ends, strict=False):
        assert whole[start - 100 : end - 100] == text + b"\n"


@given(blocks, st.integers(1, 4))
@settings(deadline=None)
def test_a_line_that_is_too_long_is_marked_and_the_others_are_kept(pieces, longest):
    splitter = LineSplitter(0, longest)
    texts = [text for piece in pieces for text in splitter.feed(piece).texts]
    whole = b"".join(pieces).split(b"\n")[:-1]
    assert texts == [None if len(line) > longest else line for line in whole]


@given(
    st.lists(st.lists(st.text('x,"\n', max_size=4), min_size=2, max_size=3), max_size=6),
    st.integers(1, 7),
)
@settings(deadline=None)
def test_rows_of_csv_may_span_lines(rows, size):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    data = text.getvalue().encode()
    splitter = CsvSplitter(0, 1000)
    found = []
    for start in range(0, len(data), size):
        found += splitter.feed(data[start : start + size]).texts
        assert splitter.given <= splitter.position
    again = CsvSplitter(splitter.given, 1000).feed(data[splitter.given :])
    assert again.texts == []  # nothing whole is left there, and nothing of it was given out
    assert [next(csv.reader(io.StringIO(line.decode(), newline=""))) for line in found] == rows


@given(st.text('x,;"\r', max_size=12).map(str.encode), st.sampled_from([b",", b";", b",,"]))
@settings(deadline=None, max_examples=300)
def test_closed_lines_are_seen_as_such_at_once(line, delimiter):
    splitter = CsvSplitter(0, 1000, delimiter)
    assert (splitter._closed.fullmatch(line) is not None) is (
        splitter._end_of(line, within=False) is _End.CLOSED
    )


def csv_splitter(longest=1000, columns=2):
    """One for rows of so many columns, without quotes in them."""

    def is_row(line, least):
        return columns >= least and b'"' not in line and line.count(b",") == columns - 1

    return CsvSplitter(0, longest, is_row=is_row)


@pytest.mark.parametrize(
    "line", [b'1,5" pipe', b'1,5"" or "6', b'"a",x"y', b'"a""b",', b"1,'\"'", b'"",""""']
)
def test_a_quote_within_a_field_opens_nothing(line):
    splitter = csv_splitter()
    assert splitter.feed(line + b"\n2,b\n").texts == [line, b"2,b"]
    assert splitter.feed(line + b"\r\n").texts == [line + b"\r"]


def test_a_quote_that_is_never_closed_holds_back_no_more_than_the_longest_line():
    splitter = csv_splitter(longest=10)
    lines = splitter.feed(b'1,"a\n' + b"2,b\n" * 5 + b"3,c\n")
    assert lines.texts == [b'1,"a', *[b"2,b"] * 5, b"3,c"]
    assert lines.ends == [5, 9, 13, 17, 21, 25, 29]
    assert splitter.given == 29


def test_lines_that_are_no_rows_are_a_part_of_the_field_that_is_not_closed():
    splitter = csv_splitter(longest=10)
    lines = splitter.feed(b'1,"a\n' + b"bbbb\n" * 5 + b"3,c\n")
    assert lines.texts[0] == b'1,"a\nbbbb'
    assert lines.texts[-1] == b"3,c"


def test_a_quote_that_cannot_be_the_end_of_an_open_field_shows_that_it_is_none():
    splitter = csv_splitter()
    lines = splitter.feed(b'1,"a\n2,b\n3,"c"\n4,"two\nlines"\n')
    assert lines.texts == [b'1,"a', b"2,b", b'3,"c"', b'4,"two\nlines"']


def test_at_the_end_rows_are_given_that_an_open_quote_held_back():
    splitter = csv_splitter()
    assert splitter.feed(b'1,"a\n2,b\n3,c').texts == []
    assert splitter.last().texts == [b'1,"a', b"2,b", b"3,c"]
    assert splitter.last().texts == []


@pytest.mark.parametrize(
    ("data", "columns", "given"),
    [
        (b'1,"a\n2,b\n3,c\n', 2, [b'1,"a', b"2,b", b"3,c"]),
        (b'1,"a\n2,b\n3,c', 2, []),  # the last line is not whole
        (b'1,"Dear Sir or Madam\nthank you\n', 2, []),  # no rows: a text that is still written
        (b'"a\nb\nc\n', 1, []),  # every line could be a row, or not
        (b'1,"a\n', 2, []),
    ],
)
def test_when_a_file_does_not_grow_any_more_only_what_are_rows_is_given(data, columns, given):
    splitter = csv_splitter(columns=columns)
    assert splitter.feed(data).texts == []
    assert splitter.may_give_up is bool(given)
    assert splitter.give_up().texts == given
    assert splitter.given == (len(data) if given else 0)
    assert splitter.feed(b'x",y\n').texts[-1].endswith(b'x",y')


def test_lines_that_open_quotes_for_ever_take_time_in_proportion(monkeypatch):
    """Each of these leaves a quote open, whether it begins within one or not."""
    looked_at = 0
    usual = CsvSplitter._end_of

    def counting(splitter, text, *, within):
        nonlocal looked_at
        looked_at += 1
        return usual(splitter, text, within=within)

    monkeypatch.setattr(CsvSplitter, "_end_of", counting)
    splitter = csv_splitter(longest=1000)
    splitter.feed(b'a",""",\n' * 2000)
    splitter.last()
    assert looked_at <= 2 * 2000
