"""Receipts: callbacks for a publisher that waits until its message is durable."""

from collections.abc import Callable
from typing import Protocol


class Receipt(Protocol):
    """Settled once by every queue or topic that has to make a message durable."""

    @property
    def is_patient(self) -> bool:
        """Whether to wait while the disk refuses writes, instead of failing at once."""
        ...

    def expect(self) -> None:
        """Expect one more call of `settle`."""
        ...

    def settle(self, *, durable: bool) -> None:
        """Report that one queue has made it durable, or has failed to."""
        ...


class BatchReceipt:
    """Calls `done` once, when many messages, or one in many queues, are durable or have failed.

    Its creator settles it too, after everything is published: `done` is not called before.
    """

    def __init__(self, done: Callable[[bool], None], *, is_patient: bool = False) -> None:
        self.done = done
        self.is_patient = is_patient
        self._waiting = 1
        self._failed = False

    def expect(self) -> None:
        self._waiting += 1

    def settle(self, *, durable: bool) -> None:
        self._waiting -= 1
        self._failed = self._failed or not durable
        if not self._waiting:
            self.done(not self._failed)
