"""Histograms in plain integers."""

from strom.metrics.instruments import SECONDS, SIZES, HistogramCounts


def test_a_value_on_a_bound_is_in_its_bucket():
    counts = HistogramCounts((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 7.0):
        counts.observe(value)
    assert counts.counts == [2, 2, 1]


def test_buckets_are_cumulative_when_read():
    counts = HistogramCounts((1.0, 2.0))
    for value in (0.5, 1.5, 7.0):
        counts.observe(value)
    assert counts.read() == (((1.0, 1), (2.0, 2), (float("inf"), 3)), 9.0)
    assert counts.count == 3


def test_what_was_read_does_not_change_with_what_is_counted_later():
    counts = HistogramCounts((1.0,))
    before = counts.read()
    counts.observe(0.5)
    assert before.buckets == ((1.0, 0), (float("inf"), 0))


def test_bounds_ascend():
    assert list(SECONDS) == sorted(set(SECONDS))
    assert list(SIZES) == sorted(set(SIZES))
