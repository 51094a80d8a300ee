"""Ratios are taken round by round, and judged by what was set out to be reached."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.comparison import (
    BOTH_DURABLE,
    DURABLE,
    EIGHTFOLD,
    GROWTH_LARGE,
    GROWTH_SMALL,
    HALF,
    MEMORY_IDLE,
    SAME_PROMISE,
    Ratio,
    Target,
    compare,
    growth,
    paired_ratio,
    target,
)
from benchmarks.results import Measurement, Run

rates = st.floats(min_value=0.001, max_value=1e9)


def run_of(*measurements: Measurement) -> Run:
    return Run("2026-01-01", "python -m benchmarks", {}, list(measurements))


def test_a_ratio_is_the_median_of_the_rounds_with_their_spread():
    ratio = paired_ratio({0: 10, 1: 30, 2: 20}, {0: 10, 1: 10, 2: 10})
    assert ratio == Ratio(2.0, 1.0, 3.0)


def test_a_round_that_only_one_peer_had_is_left_out():
    assert paired_ratio({0: 10, 1: 99}, {0: 20, 2: 99}) == Ratio(0.5, 0.5, 0.5)


def test_without_a_common_round_there_is_no_ratio():
    assert paired_ratio({0: 1.0}, {1: 1.0}) is None
    assert paired_ratio({}, {}) is None
    assert paired_ratio({0: 1.0}, {0: 0.0}) is None


@given(st.dictionaries(st.integers(0, 9), st.tuples(rates, rates, rates), min_size=1))
def test_a_round_in_which_everything_is_slower_changes_no_ratio(rounds):
    ours = {number: one for number, (one, _, _) in rounds.items()}
    theirs = {number: other for number, (_, other, _) in rounds.items()}
    slow_ours = {number: one * slow for number, (one, _, slow) in rounds.items()}
    slow_theirs = {number: other * slow for number, (_, other, slow) in rounds.items()}
    assert paired_ratio(slow_ours, slow_theirs) == pytest.approx(paired_ratio(ours, theirs))


@given(st.dictionaries(st.integers(0, 9), st.tuples(rates, rates), min_size=1))
def test_the_median_lies_within_the_spread(rounds):
    ratio = paired_ratio(
        {number: one for number, (one, _) in rounds.items()},
        {number: other for number, (_, other) in rounds.items()},
    )
    assert ratio is not None
    assert ratio.lowest <= ratio.median <= ratio.highest


@pytest.mark.parametrize(
    ("bound", "at_least", "ratio", "met"),
    [
        (1.0, True, 1.0, True),
        (1.0, True, 0.996, True),  # shown as 1.00
        (1.0, True, 0.98, False),
        (0.5, False, 0.5, True),
        (0.5, False, 0.51, False),
        (0.5, False, 0.1, True),
    ],
)
def test_a_target_is_judged_by_the_ratio_as_it_is_shown(bound, at_least, ratio, met):
    assert Target(bound, at_least).is_met(ratio) is met


def test_a_target_reads_as_a_bound():
    assert str(EIGHTFOLD) == "≥ 8"
    assert str(HALF) == "≤ 0.5"


def test_latency_has_a_target_only_between_equal_promises():
    assert target("p99", "1 connection, …", SAME_PROMISE) == Target(0.5, at_least=False)
    assert target("p99", "64 connections, …", SAME_PROMISE) == Target(1.0, at_least=False)
    assert target("p99", "1 connection, …", BOTH_DURABLE) == Target(0.5, at_least=False)
    assert target("p99", "1 connection, …", DURABLE) is None


def test_eightfold_is_asked_of_small_requests_when_both_wait_for_the_disk():
    assert target("requests", "64 connections, …", BOTH_DURABLE) == EIGHTFOLD
    assert target("requests", "64 connections, …", SAME_PROMISE) == Target(1.0, at_least=True)
    assert target("requests", "64 connections, …", DURABLE) is None


def test_every_throughput_row_has_a_target_beside_kafkas_default():
    for metric in ("produce", "consume", "produce_cpu", "consume_cpu"):
        for comparison in (SAME_PROMISE, DURABLE):
            assert target(metric, "100 B, none, 1 partition", comparison) is not None


def test_memory_is_judged_at_work():
    assert target("resident", "at work", DURABLE) == Target(0.1, at_least=False)
    assert target("resident", MEMORY_IDLE, DURABLE) is None


def test_rows_compare_the_variants_that_a_comparison_names():
    run = run_of(
        Measurement("throughput", "100 B", "produce", "strom-os", 0, 200.0),
        Measurement("throughput", "100 B", "produce", "strom-disk", 0, 90.0),
        Measurement("throughput", "100 B", "produce", "kafka", 0, 100.0),
    )
    (row,) = compare(run, "throughput", SAME_PROMISE)
    assert (row.ours, row.theirs, row.ratio.median, row.verdict) == (200.0, 100.0, 2.0, "met")
    (row,) = compare(run, "throughput", DURABLE)
    assert (row.ours, row.ratio.median, row.verdict) == (90.0, 0.9, "not met")
    assert compare(run, "throughput", BOTH_DURABLE) == []


def test_growth_compares_a_broker_with_itself():
    run = run_of(
        Measurement(GROWTH_SMALL, "10 → 4,000 partitions", "produce", "strom-os", 0, 100.0),
        Measurement(GROWTH_LARGE, "10 → 4,000 partitions", "produce", "strom-os", 0, 95.0),
        Measurement(GROWTH_SMALL, "10 → 4,000 partitions", "p50", "strom-os", 0, 1.0),
        Measurement(GROWTH_LARGE, "10 → 4,000 partitions", "p50", "strom-os", 0, 1.5),
        Measurement(GROWTH_SMALL, "10 → 4,000 partitions", "produce", "kafka", 0, 100.0),
        Measurement(GROWTH_LARGE, "10 → 4,000 partitions", "produce", "kafka", 0, 50.0),
    )
    produce, p50 = growth(run)
    assert (produce.ratio.median, produce.verdict) == (0.95, "met")
    assert produce.kafka_ratio == Ratio(0.5, 0.5, 0.5)
    assert (p50.ratio.median, p50.verdict, p50.kafka_ratio) == (1.5, "not met", None)
