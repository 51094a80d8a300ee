"""Parts of a range of records as SQL conditions."""

import sqlite3

from hypothesis import given
from hypothesis import strategies as st

from strom.pipelines.layers.record_ranges import RecordRange, in_slices, one_of
from strom.pipelines.offsets import TopicOffsets


@st.composite
def ranges(draw):
    starts = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    lengths = [draw(st.integers(0, 5)) for _ in starts]
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    return RecordRange(TopicOffsets(tuple(starts)), TopicOffsets(tuple(ends)))


def selected(condition):
    """What SQL makes of a condition, over more records than any range has."""
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE rows (_partition, _offset)")
        records = [(partition, offset) for partition in range(4) for offset in range(12)]
        database.executemany("INSERT INTO rows VALUES (?, ?)", records)
        return sorted(database.execute(f"SELECT * FROM rows WHERE {condition}"))


@given(ranges(), st.integers(0, 15), st.integers(0, 15))
def test_a_condition_selects_the_records_between_two_indices(whole, one, other):
    low, high = sorted((min(one, whole.size), min(other, whole.size)))
    wanted = [whole.record(index) for index in range(low, high)]
    assert selected(whole.condition(low, high)) == sorted(wanted)
    assert all(record in whole for record in wanted)
    assert len(set(wanted)) == high - low


@given(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 11))))
def test_single_records_are_selected_by_place(records):
    condition = one_of(records, partition="_partition", offset="_offset")
    assert selected(condition) == sorted(records)


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 3), st.integers(0, 11)), st.integers(0, 20), min_size=1
    ),
    st.integers(1, 50),
)
def test_slices_hold_every_record_once_and_few_bytes(sizes, most):
    slices = in_slices([(*record, size) for record, size in sizes.items()], most)
    held = [[record for record in selected(one) if record in sizes] for one in slices]
    assert sorted(record for some in held for record in some) == sorted(sizes)
    assert all(len(some) == 1 or sum(map(sizes.get, some)) <= most for some in held)
