"""What one client holds of its listener's memory for the requests that it is sending."""

import asyncio
from collections.abc import Callable

from strom.server.memory import MemoryPool


class Reservation:
    """Bytes reserved for one connection. A connection that waits for memory holds none."""

    def __init__(
        self,
        pool_of: Callable[[int], MemoryPool],
        host: str,
        loop: asyncio.AbstractEventLoop,
        on_granted: Callable[[], None],
    ) -> None:
        self.size = 0
        self.is_waiting = False
        self.host = host
        self._pool_of = pool_of
        self._loop = loop
        self._on_granted = on_granted
        self._pool = pool_of(0)
        self._wanted = 0

    @property
    def pool(self) -> MemoryPool:
        """Where it holds or wants memory."""
        return self._pool

    def take(self, size: int) -> bool:
        """Hold at least this many bytes from now on; False if they would have to be waited for."""
        if size <= self.size:
            return True
        pool = self._pool_of(size)
        if not pool.take(size - self.size if pool is self._pool else size, self.host):
            return False
        if pool is not self._pool:
            self.release()
            self._pool = pool
        self.size = size
        return True

    def wait(self, size: int) -> None:
        """Give back everything, and hold this many bytes when it is their turn."""
        self.release()
        self._pool = self._pool_of(size)
        self._wanted, self.is_waiting = size, True
        self._pool.wait(size, self.host, self._granted)

    def reduce(self, size: int) -> None:
        """Give some bytes back."""
        self.size -= size
        self._pool.give(size, self.host)

    def release(self) -> None:
        """Give everything back, and wait no longer."""
        if self.is_waiting:
            self.is_waiting = False
            self._pool.forget(self.host, self._granted)
        if self.size:
            self.reduce(self.size)

    def _granted(self) -> None:
        self.size, self.is_waiting = self._wanted, False
        # In a turn of its own: this is called while another connection is at work.
        self._loop.call_soon(self._on_granted)
