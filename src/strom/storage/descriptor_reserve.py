"""Spare descriptors for the log when the process has used up all others.

Connections take descriptors in bursts, faster than any limit on them is enforced. Opening a log file
then releases a spare, so that the retry succeeds; closing a file refills the reserve.
"""

import threading
from collections.abc import Callable
from contextlib import suppress


class DescriptorReserve:
    """Spare descriptors, held open until they are needed. Thread-safe."""

    def __init__(
        self, count: int, open_one: Callable[[], int], close_one: Callable[[int], None]
    ) -> None:
        self._count = count
        self._open_one = open_one
        self._close_one = close_one
        # Reentrant: the garbage collector may close a file, and so refill, while this lock is held.
        self._lock = threading.RLock()
        self._spares: list[int] = []
        self.refill()

    def __len__(self) -> int:
        return len(self._spares)

    def release_one(self) -> bool:
        """Close a spare, so that a file can be opened; False if none is left."""
        with self._lock:
            if not self._spares:
                return False
            self._close_one(self._spares.pop())
            return True

    def refill(self) -> None:
        """Open as many of the missing spares as the process can have now."""
        if len(self._spares) == self._count:
            return
        with self._lock, suppress(OSError):
            while len(self._spares) < self._count:
                self._spares.append(self._open_one())

    def __del__(self) -> None:
        for spare in self._spares:
            self._close_one(spare)
