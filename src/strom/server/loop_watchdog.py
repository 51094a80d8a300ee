"""Notices that the event loop was busy for so long that clients had to wait.

A timer that is due every 10 ms is late by the rest of the turn that it falls into. That costs a broker
about a thousandth of a core, and needs no hook into the loop.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter

from strom.metrics.loop import LoopReading

CHECK_SECONDS = 0.01
SLOW_SECONDS = 0.05
"""A turn that takes longer is counted."""


class LoopWatchdog:
    """Counts slow turns of the running loop."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._slow_turns = 0
        self._longest = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._due = self._clock() + CHECK_SECONDS
        self._timer = self._loop.call_later(CHECK_SECONDS, self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def reading(self) -> LoopReading:
        """For metrics: what was counted since the start."""
        return LoopReading(self._slow_turns, self._longest)

    def _check(self) -> None:
        late = self._clock() - self._due
        if late > SLOW_SECONDS:
            self._slow_turns += 1
            self._longest = max(self._longest, late)
        self.start()
