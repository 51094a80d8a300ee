"""The retry policy."""

from hypothesis import given
from hypothesis import strategies as st

from strom.model.backoff import Backoff


def test_delays_double_up_to_the_cap():
    backoff = Backoff(first_s=0.5, longest_s=30)
    assert [backoff.delay(attempt, 0) for attempt in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]


@given(st.integers(0, 10**9), st.floats(0, 1))
def test_jitter_takes_off_at_most_half(attempt, chance):
    backoff = Backoff(first_s=0.5, longest_s=30)
    assert 0.25 <= backoff.delay(attempt, chance) <= 30
    assert backoff.delay(attempt, chance) >= backoff.delay(attempt, 0) / 2
