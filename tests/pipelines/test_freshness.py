"""How old records are when they can be served."""

import pytest

from strom.pipelines.freshness import FreshnessTracker


def test_records_between_two_looks_are_taken_to_come_evenly():
    fresh = FreshnessTracker()
    for second in range(11):
        fresh.observe_end(float(second), second * 100)
    fresh.on_published(10.0, 0, 1000)  # all at once: they are 0 to 10 seconds old
    assert fresh.quantile(0.5) == pytest.approx(5.0, abs=0.01)
    assert fresh.quantile(0.99) == pytest.approx(9.9, abs=0.01)


def test_a_speed_layer_that_keeps_up_is_fresh():
    fresh = FreshnessTracker()
    for second in range(11):
        fresh.observe_end(float(second), second * 100)
        if second:
            fresh.on_published(second + 0.5, (second - 1) * 100, second * 100)
    assert fresh.quantile(0.99) == pytest.approx(1.49, abs=0.02)
    fresh.reset()
    assert fresh.quantile(0.99) == 0.0
