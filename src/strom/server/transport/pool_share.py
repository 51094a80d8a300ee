"""What one client takes of its listener's memory pool by not reading what it is sent."""

import asyncio
from collections.abc import Callable

from strom.server.memory import MemoryPool


class PoolShare:
    """Counts the bytes that the socket does not accept, and waits for the pool where it is exhausted."""

    def __init__(
        self, pool: MemoryPool, loop: asyncio.AbstractEventLoop, on_freed: Callable[[], None]
    ) -> None:
        self.host = ""
        """The client's address."""
        self._pool = pool
        self._loop = loop
        self._on_freed = on_freed
        self._unsent = 0
        self._waits = False

    @property
    def is_exhausted(self) -> bool:
        """Whether the bytes that all clients have not read exceed the pool."""
        return not self._pool.free

    def count(self, unsent: int) -> None:
        """Take what the client has not read, even beyond the pool's capacity."""
        if unsent > self._unsent:
            self._pool.force_take(unsent - self._unsent, self.host)
            self._unsent = unsent

    def give_back(self) -> None:
        unsent, self._unsent = self._unsent, 0
        if unsent:
            self._pool.give(unsent, self.host)

    def wait(self) -> None:
        """Call back once when other clients have freed memory of the exhausted pool."""
        if not self._waits:
            self._waits = True
            self._pool.wait(1, self.host, self._freed)

    def close(self) -> None:
        if self._waits:
            self._pool.forget(self.host, self._freed)
        self.give_back()

    def _freed(self) -> None:
        # In a turn of its own: this is called while another connection is at work.
        self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._waits = False
        self._pool.give(1, self.host)
        self._on_freed()
