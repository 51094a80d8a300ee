"""Runs the long work of requests in slices, so that no request keeps the others waiting.

Each turn of the event loop does one slice, of one request after another.
"""

import asyncio
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

from strom.broker.turns import SLICE_SECONDS
from strom.model.steps import Offload, Steps

T = TypeVar("T")

MAX_LARGE = 2
"""Requests that hold large decompressed records at a time: each may need 64 MiB."""
MAX_SMALL = 16
"""The same for small ones, of up to 4 MiB. They do not wait for large ones."""


class StepsDone(NamedTuple, Generic[T]):
    """The work is done."""

    result: T


def run_slice(steps: Steps[T], sent: Any = None) -> StepsDone[T] | Offload | None:
    """Do steps until the slice is over (None), the work is done, or a function is to be run aside.

    `sent` is the result of that function, for the next call. At least one step is done.
    """
    until = perf_counter() + SLICE_SECONDS
    try:
        aside = steps.send(sent)
        while aside is None and perf_counter() < until:
            aside = next(steps)
    except StopIteration as done:
        return StepsDone(done.value)
    return aside


class LongWork:
    """The long work in progress of all requests."""

    def __init__(self) -> None:
        self._turns = asyncio.Lock()  # the one that has waited longest is next
        self._large = asyncio.Semaphore(MAX_LARGE)
        self._small = asyncio.Semaphore(MAX_SMALL)

    async def run(self, steps: Steps[T]) -> T:
        """Do the work; what fits into one slice is done without waiting for other requests."""
        paused = run_slice(steps)
        return paused.result if isinstance(paused, StepsDone) else await self.finish(steps, paused)

    async def finish(self, steps: Steps[T], paused: Offload | None) -> T:
        """Do the rest of work whose first slice returned `paused`."""
        sent: Any = None
        held: asyncio.Semaphore | None = None
        try:
            while True:
                if paused is not None:
                    if held is None or (paused.large and held is self._small):
                        if held is not None:
                            held.release()  # a small slot must not wait for a large one
                            held = None
                        needed = self._large if paused.large else self._small
                        await needed.acquire()
                        held = needed
                    sent = await asyncio.get_running_loop().run_in_executor(None, paused.function)
                async with self._turns:
                    await asyncio.sleep(0)
                    result = run_slice(steps, sent)
                if isinstance(result, StepsDone):
                    ended: T = result.result
                    return ended
                paused, sent = result, None
        finally:
            steps.close()
            if held is not None:
                held.release()

    def pauses(self) -> "Pauses":
        """For a coroutine that does many small things without waiting for anything."""
        return Pauses(self._turns)


class Pauses:
    """Calling it after each small piece of work lets the event loop do other work when it is time."""

    def __init__(self, turns: asyncio.Lock) -> None:
        self._turns = turns
        self._until = perf_counter() + SLICE_SECONDS

    async def __call__(self) -> None:
        if perf_counter() >= self._until:
            async with self._turns:
                await asyncio.sleep(0)
            self._until = perf_counter() + SLICE_SECONDS
