"""Calls that are retried: what comes back, what is raised, and when nothing more is tried."""

import asyncio
import threading

import pytest

from strom.model.retries import RetryPolicy
from strom.supervision.retrying import retry, retry_async


class Failing:
    """Fails a number of times, then returns how often it was called."""

    def __init__(self, times, error=ConnectionError):
        self.times, self.error, self.calls = times, error, 0

    def __call__(self):
        self.calls += 1
        if self.calls <= self.times:
            raise self.error(self.calls)
        return self.calls

    async def later(self):
        return self()


POLICY = RetryPolicy(1, 4, attempts=4)


def test_the_result_comes_after_growing_pauses():
    pauses: list[float] = []
    seen = []
    result = retry(
        Failing(3),
        POLICY,
        ConnectionError,
        sleep=pauses.append,
        on_failure=lambda error, pause: seen.append((str(error), pause)),
        chance=lambda: 0.0,
    )
    assert result == 4
    assert pauses == [1, 2, 4]
    assert seen == [("1", 1), ("2", 2), ("3", 4)]


def test_the_last_error_is_raised_when_attempts_are_used_up():
    call = Failing(9)
    with pytest.raises(ConnectionError, match="4"):
        retry(call, POLICY, ConnectionError, sleep=lambda _: None)
    assert call.calls == 4


def test_other_errors_are_not_retried():
    call = Failing(1, KeyError)
    with pytest.raises(KeyError):
        retry(call, POLICY, (ConnectionError, TimeoutError), sleep=lambda _: None)
    assert call.calls == 1


def test_a_stop_ends_the_pause_and_the_retries():
    stopping = threading.Event()
    call = Failing(9)
    with pytest.raises(ConnectionError):
        retry(
            call,
            RetryPolicy(3600, 3600),
            ConnectionError,
            sleep=stopping.wait,
            on_failure=lambda *_: stopping.set(),
        )
    assert call.calls == 1


def test_what_on_failure_raises_ends_the_retries():
    def refuse(error, pause):
        raise InterruptedError

    call = Failing(9)
    with pytest.raises(InterruptedError):
        retry(call, POLICY, ConnectionError, on_failure=refuse)
    assert call.calls == 1


def test_coroutines_are_retried_alike():
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    call = Failing(2)
    assert (
        asyncio.run(
            retry_async(call.later, POLICY, ConnectionError, sleep=sleep, chance=lambda: 0.0)
        )
        == 3
    )
    assert pauses == [1, 2]
    with pytest.raises(ConnectionError, match="4"):
        asyncio.run(retry_async(Failing(9).later, POLICY, ConnectionError, sleep=sleep))


def test_a_cancelled_task_stops_at_once():
    async def main():
        call = Failing(9)
        task = asyncio.create_task(
            retry_async(call.later, RetryPolicy(3600, 3600), ConnectionError)
        )
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return call.calls

    assert asyncio.run(main()) == 1
