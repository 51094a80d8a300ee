"""What responses with records may take of the listener's memory while they are read.

A response that is read in slices reserves what it has read, because other requests are handled between
two slices: without that, each of many such responses would take what is free.
"""

import asyncio

from strom.server.memory import MemoryPool

UNSENT = ""
"""In the place of an address: its share of the pool is enforced once the bytes are sent."""


class UnreservedResponse:
    """The response is sent in the turn in which it is read."""

    def __init__(self, pool: MemoryPool) -> None:
        self._pool = pool

    @property
    def free(self) -> int:
        return self._pool.free

    def take(self, size: int) -> None:
        """Nothing has to be reserved."""


class ReservedResponse:
    """What the response of the current task takes of the pool, until it is sent or given up."""

    def __init__(self, pool: MemoryPool) -> None:
        self._pool = pool
        self._size = 0
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a response is read in slices by a task
        task.add_done_callback(self._give_back)

    @property
    def free(self) -> int:
        """How many bytes the response may have, those included that it has."""
        return self._pool.free + self._size

    def take(self, size: int) -> None:
        """Reserve bytes that were read."""
        if size:
            self._size += size
            self._pool.force_take(size, UNSENT)

    def _give_back(self, _: object) -> None:
        if self._size:
            self._pool.give(self._size, UNSENT)
            self._size = 0
