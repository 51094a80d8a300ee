"""A memory pool that all connections share, so that no number of them can exhaust the memory."""

from collections import deque
from collections.abc import Callable


class MemoryPool:
    """Counts bytes in flight; connections that get none wait in a queue."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def free(self) -> int:
        """The number of bytes that can still be taken."""
        return max(0, self.capacity - self.in_use)

    @property
    def is_wanted(self) -> bool:
        return bool(self._waiting)

    def take(self, size: int) -> bool:
        """Take bytes; False if there are too few, or others wait for some."""
        if self._waiting or self.in_use + size > self.capacity:
            return False
        self.in_use += size
        return True

    def force_take(self, size: int) -> None:
        """Take bytes that are already used, even beyond the capacity; others wait for them."""
        self.in_use += size

    def wait(self, size: int, callback: Callable[[], None]) -> None:
        """Take the bytes when it is their turn, then call back."""
        self._waiting.append((min(size, self.capacity), callback))

    def give(self, size: int) -> None:
        """Return bytes, and serve the connections that wait."""
        self.in_use -= size
        while self._waiting and self.in_use + self._waiting[0][0] <= self.capacity:
            size, callback = self._waiting.popleft()
            self.in_use += size
            callback()

    def forget(self, callback: Callable[[], None]) -> None:
        self._waiting = deque(entry for entry in self._waiting if entry[1] != callback)
