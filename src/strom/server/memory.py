"""A pool of bytes that all connections share, so that no number of them can exhaust the memory."""

from collections import deque
from collections.abc import Callable


class MemoryPool:
    """Counts bytes in flight; whoever gets none waits in line."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def free(self) -> int:
        """Bytes that may still be taken."""
        return max(0, self.capacity - self.in_use)

    @property
    def is_wanted(self) -> bool:
        """Whether someone waits for bytes."""
        return bool(self._waiting)

    def take(self, size: int) -> bool:
        """Take bytes if there are enough and nobody waits before us."""
        if self._waiting or self.in_use + size > self.capacity:
            return False
        self.in_use += size
        return True

    def take_anyway(self, size: int) -> None:
        """Take bytes that are already spent; others will wait for them."""
        self.in_use += size

    def wait(self, size: int, callback: Callable[[], None]) -> None:
        """Take the bytes when their turn comes, then call back."""
        self._waiting.append((min(size, self.capacity), callback))

    def give(self, size: int) -> None:
        """Give bytes back, and serve who waits."""
        self.in_use -= size
        while self._waiting and self.in_use + self._waiting[0][0] <= self.capacity:
            size, callback = self._waiting.popleft()
            self.in_use += size
            callback()

    def forget(self, callback: Callable[[], None]) -> None:
        self._waiting = deque(entry for entry in self._waiting if entry[1] != callback)
