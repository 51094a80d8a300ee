"""The offset language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.cli.offsets import (
    END,
    START,
    Anchor,
    OffsetRange,
    PartitionOffsets,
    Point,
    parse_offset_range,
)

NOW = 1_800_000_000_000


def at(milliseconds: int) -> Point:
    return Point(Anchor.TIME, milliseconds)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("start", OffsetRange(START)),
        ("earliest", OffsetRange(START)),
        ("end", OffsetRange(END)),
        ("47", OffsetRange(Point(Anchor.OFFSET, 47))),
        ("+10", OffsetRange(Point(Anchor.START, 10))),
        ("-10", OffsetRange(Point(Anchor.END, 10))),
        ("47:100", OffsetRange(Point(Anchor.OFFSET, 47), Point(Anchor.OFFSET, 100))),
        ("47:", OffsetRange(Point(Anchor.OFFSET, 47))),
        (":100", OffsetRange(START, Point(Anchor.OFFSET, 100))),
        (":end", OffsetRange(START, END)),
        ("-100:end", OffsetRange(Point(Anchor.END, 100), END)),
        ("+1:-1", OffsetRange(Point(Anchor.START, 1), Point(Anchor.END, 1))),
        ("@1700000000000", OffsetRange(at(1_700_000_000_000))),
        ("@1700000000", OffsetRange(at(1_700_000_000_000))),
        ("@-1h", OffsetRange(at(NOW - 3_600_000))),
        ("@-48h:-24h", OffsetRange(at(NOW - 172_800_000), at(NOW - 86_400_000))),
        ("@-2d:end", OffsetRange(at(NOW - 172_800_000), END)),
        ("@2027-01-15", OffsetRange(at(1_799_971_200_000))),
        ("@2027-01-15T08:00:00Z", OffsetRange(at(NOW))),
        ("@2027-01-15T09:00:00+01:00", OffsetRange(at(NOW))),
        ("@2027-01-15T08:00", OffsetRange(at(NOW))),
        (
            "@2027-01-15T08:00:00Z:2027-01-15T08:00:01Z",
            OffsetRange(at(NOW), at(NOW + 1000)),
        ),
        ("@1700000000000:1700000000001", OffsetRange(at(1_700_000_000_000), at(1_700_000_000_001))),
    ],
)
def test_the_language_is_read(text, wanted):
    assert parse_offset_range(text, NOW) == wanted


@pytest.mark.parametrize(
    "text",
    ["", ":", "middle", "1:2:3", "1-2", "--1", "@", "@yesterday", "@-1", "@-1y", "@1:", "@5x"],
)
def test_what_is_not_of_the_language_is_refused_with_examples(text):
    with pytest.raises(ValueError, match="Examples"):
        parse_offset_range(text, NOW)


@given(st.text(alphabet="0123456789@:+-hmsdTZtarend", max_size=20))
def test_no_text_makes_the_reader_fail_otherwise(text):
    try:
        parse_offset_range(text, NOW)
    except ValueError as error:
        assert "Examples" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("start", (100, None)),
        ("end", (200, None)),
        ("150:160", (150, 160)),
        ("+5:-5", (105, 195)),
        ("-1000", (100, None)),
        ("5", (100, None)),
        ("900", (200, None)),
        (":end", (100, 200)),
        ("190:500", (190, 500)),
        ("@1700000000000", (130, None)),
        ("@1700000000001", (200, None)),
    ],
)
def test_points_become_offsets_of_a_partition(text, resolved):
    found = PartitionOffsets(100, 200, {1_700_000_000_000: 130, 1_700_000_000_001: -1})
    assert found.resolve(parse_offset_range(text, NOW)) == resolved


@given(
    st.sampled_from([Anchor.START, Anchor.END, Anchor.OFFSET]),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
def test_reading_always_begins_within_the_partition(anchor, number, earliest, length):
    offsets = PartitionOffsets(earliest, earliest + length, {})
    begin, _ = offsets.resolve(OffsetRange(Point(anchor, number)))
    assert earliest <= begin <= earliest + length
