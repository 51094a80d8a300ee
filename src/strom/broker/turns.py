"""Work in several turns of the event loop, so that other clients are served in between."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from time import perf_counter

SLICE_SECONDS = 0.003
"""How long work occupies the event loop at a time."""


async def in_turns(steps: Iterable[object]) -> None:
    """Do all steps, as many in each turn as fit into a slice."""
    until = perf_counter() + SLICE_SECONDS
    for _ in steps:
        if perf_counter() >= until:
            await asyncio.sleep(0)
            until = perf_counter() + SLICE_SECONDS


class TurnQueue:
    """Does small works in their order, at most so many in each turn of the event loop.

    Works of many origins share it: each may be short, and all of them together long.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, at_once: int) -> None:
        self._loop = loop
        self._at_once = self._room = at_once
        self._works: deque[Callable[[], None]] = deque()

    def do(self, work: Callable[[], None]) -> None:
        """Do it now, or in a later turn if this one has done enough."""
        self._works.append(work)
        self._go_on()

    def stop(self) -> None:
        """Drop the works that wait for a later turn."""
        self._works.clear()

    def _go_on(self) -> None:
        while self._works and self._room:
            if self._room == self._at_once:
                self._loop.call_soon(self._begin_turn)
            self._room -= 1
            self._works.popleft()()

    def _begin_turn(self) -> None:
        self._room = self._at_once
        self._go_on()
