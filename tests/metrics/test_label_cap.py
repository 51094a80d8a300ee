"""No more series than the limit, and sums that `rate()` can be taken of."""

import math
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strom.metrics.label_cap import OTHER, LabelCap
from strom.metrics.tables import MetricRow, MetricTable, counter, gauge

COUNTED = MetricTable(("topic",), (counter("bytes_in", ""), gauge("size", "")), ranked_by=1)
GAUGES = MetricTable(("group", "topic"), (gauge("lag", ""),), ranked_by=0)


def applied(cap: LabelCap, rows: list[MetricRow]) -> dict[tuple[str, ...], list[Any]]:
    work, capped = cap.apply(rows), []
    while True:
        try:
            next(work)
        except StopIteration as done:
            capped = done.value
            break
    found = {labels: list(values) for labels, values in capped}
    assert len(found) == len(capped), "two rows with the same labels"
    return found


def rows_of(values: Mapping[str, tuple[float, float]]) -> list[MetricRow]:
    return [((name,), pair) for name, pair in values.items()]


def test_below_the_limit_every_row_stays():
    rows = rows_of({"a": (1, 10), "b": (2, 20)})
    assert applied(LabelCap(COUNTED, 2), rows) == {("a",): [1, 10], ("b",): [2, 20]}


def test_the_largest_get_series_and_the_others_are_summed():
    rows = rows_of({"a": (1, 10), "b": (2, 30), "c": (4, 20)})
    assert applied(LabelCap(COUNTED, 1), rows) == {("b",): [2, 30], (OTHER,): [5, 30]}


def test_a_limit_of_none_sums_everything():
    assert applied(LabelCap(COUNTED, 0), rows_of({"a": (1, 10)})) == {(OTHER,): [1, 10]}


def test_gauges_are_chosen_by_size_at_each_scrape():
    cap = LabelCap(GAUGES, 1)
    rows: list[MetricRow] = [(("g", "a"), (9,)), (("g", "b"), (1,))]
    assert applied(cap, rows) == {("g", "a"): [9], (OTHER, OTHER): [1]}
    rows = [(("g", "a"), (9,)), (("g", "b"), (10,))]
    assert applied(cap, rows) == {("g", "b"): [10], (OTHER, OTHER): [9]}


def test_a_counter_keeps_its_series_when_others_become_larger():
    cap = LabelCap(COUNTED, 1)
    applied(cap, rows_of({"a": (1, 10), "b": (1, 1)}))
    assert ("a",) in applied(cap, rows_of({"a": (1, 10), "b": (9, 90)}))


def test_a_row_that_gets_a_series_leaves_its_counts_in_the_sum():
    cap = LabelCap(COUNTED, 1)
    applied(cap, rows_of({"a": (1, 10), "b": (5, 1)}))
    assert applied(cap, rows_of({"b": (7, 1)})) == {("b",): [7, 1], (OTHER,): [5, 0]}


def test_a_topic_that_is_deleted_and_created_again_does_not_lower_the_sum():
    cap = LabelCap(COUNTED, 1)
    applied(cap, rows_of({"a": (0, 10), "b": (5, 1)}))
    assert applied(cap, rows_of({"a": (0, 10), "b": (2, 1)}))[(OTHER,)] == [7, 1]


def test_a_topic_of_that_name_is_part_of_the_sum():
    cap = LabelCap(COUNTED, 5)
    assert applied(cap, rows_of({OTHER: (3, 9), "a": (1, 1)})) == {
        ("a",): [1, 1],
        (OTHER,): [3, 9],
    }


def test_a_row_without_a_value_of_a_gauge_is_left_out_of_its_sum():
    cap, absent = LabelCap(COUNTED, 1), float("nan")
    rows = rows_of({"sink": (9, 30), "source": (5, absent), "other sink": (4, 20)})
    assert applied(cap, rows) == {("sink",): [9, 30], (OTHER,): [9, 20]}


def test_a_gauge_that_no_row_of_the_sum_has_is_absent_there():
    cap = LabelCap(COUNTED, 1)
    rows = rows_of({"sink": (9, 30), "source": (5, float("nan")), "another": (1, float("nan"))})
    count, size = applied(cap, rows)[(OTHER,)]
    assert count == 6
    assert math.isnan(size)


@given(
    st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9), max_size=8)),
    st.integers(0, 4),
)
def test_however_topics_come_and_go_the_sum_never_falls(scrapes, limit):
    cap, before = LabelCap(COUNTED, limit), 0.0
    for scrape in scrapes:
        found = applied(cap, rows_of({name: (value, value) for name, value in scrape.items()}))
        assert len(found) <= limit + 1
        counted = found.get((OTHER,), [before])[0]
        assert counted >= before
        before = counted
