"""Retries a call according to a RetryPolicy: `retry` blocks its thread, `retry_async` its task."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from strom.model.retries import RetryPolicy

T = TypeVar("T")
Errors = type[Exception] | tuple[type[Exception], ...]
OnFailure = Callable[[Exception, float], None]


def retry(
    call: Callable[[], T],
    policy: RetryPolicy,
    on: Errors,
    *,
    sleep: Callable[[float], object] = time.sleep,
    on_failure: OnFailure | None = None,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> T:
    """The result of a call that is retried while it raises `on`; raises the last error at the deadline.

    Pass `event.wait` as `sleep` to stop at once: when the event is set, the last error is raised.
    `on_failure` gets each error and the pause that follows; an exception from it ends the retries.
    """
    delays = policy.delays(clock, chance)
    while True:
        try:
            return call()
        except on as error:
            pause = next(delays, None)
            if pause is None:
                raise
            if on_failure is not None:
                on_failure(error, pause)
            if sleep(pause) is True:
                raise


async def retry_async(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    on: Errors,
    *,
    on_failure: OnFailure | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
    chance: Callable[[], float] = random.random,
) -> T:
    """`retry` for coroutines; cancel the task to stop at once."""
    delays = policy.delays(clock, chance)
    while True:
        try:
            return await call()
        except on as error:
            pause = next(delays, None)
            if pause is None:
                raise
            if on_failure is not None:
                on_failure(error, pause)
            await sleep(pause)
