"""The retry policy."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from strom.model.retries import STEADY_S, Restarts, RetryPolicy


def test_delays_double_up_to_the_cap():
    policy = RetryPolicy(first_s=0.5, longest_s=30)
    assert [policy.delay(retry, 0) for retry in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]


@given(st.integers(0, 10**9), st.floats(0, 1))
def test_jitter_takes_off_at_most_a_fifth(retry, chance):
    policy = RetryPolicy(first_s=0.5, longest_s=30)
    assert 0.4 <= policy.delay(retry, chance) <= 30
    assert policy.delay(retry, chance) >= policy.delay(retry, 0) * 0.8


def test_there_is_one_pause_less_than_attempts():
    delays = RetryPolicy(1, 8, attempts=4).delays(clock=lambda: 0.0, chance=lambda: 0.0)
    assert list(delays) == [1, 2, 4]
    assert list(RetryPolicy(attempts=1).delays(lambda: 0.0, lambda: 0.0)) == []


def test_without_a_limit_it_never_ends():
    delays = RetryPolicy(1, 2).delays(clock=lambda: 0.0, chance=lambda: 0.0)
    assert list(itertools.islice(delays, 4)) == [1, 2, 2, 2]


def test_the_last_attempt_is_made_at_the_deadline():
    now = [100.0]
    pauses = []
    for pause in RetryPolicy(1, 8, deadline_s=5).delays(lambda: now[0], lambda: 0.0):
        pauses.append(pause)
        now[0] += pause
    assert pauses == [1, 2, 2]


def test_the_deadline_counts_from_the_first_attempt_and_not_from_its_failure():
    now = [100.0]
    delays = RetryPolicy(1, 8, deadline_s=5).delays(lambda: now[0], lambda: 0.0)
    now[0] += 4.5  # the first attempt takes its time
    assert next(delays) == 0.5
    now[0] += 0.5
    assert list(delays) == []


def test_restarts_pause_longer_until_one_has_run_for_a_while():
    restarts = Restarts(RetryPolicy(1, 8))
    assert [restarts.delay(ran_s, 0) for ran_s in (0, 0, 0, STEADY_S + 1, 0)] == [1, 2, 4, 1, 2]
