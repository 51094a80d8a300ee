"""Cutting blocks into lines."""

import csv
import io

from hypothesis import given, settings
from hypothesis import strategies as st

from strom.connect.connectors.files.lines import CsvSplitter, LineSplitter

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


def test_a_quote_that_is_never_closed_takes_no_more_than_the_longest_line():
    splitter = CsvSplitter(0, 10)
    lines = splitter.feed(b'"a\n' + b"bbbb\n" * 5 + b"c,d\n")
    assert lines.texts[0] is None
    assert lines.texts[-1] == b"c,d"
