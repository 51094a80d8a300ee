"""Work in several turns of the event loop, so that other clients are served in between."""

import asyncio
from collections.abc import Iterable
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
