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


class CountedReceipt:
    """Calls `_settled` once: when everything that is expected is durable or has failed.

    Its creator settles it too, after everything is published: `_settled` is not called before.
    """

    __slots__ = ("_failed", "_waiting")
    is_patient = False

    def __init__(self) -> None:
        self._waiting = 1
        self._failed = False

    def expect(self) -> None:
        self._waiting += 1

    def settle(self, *, durable: bool) -> None:
        self._waiting -= 1
        if not durable:
            self._failed = True
        if not self._waiting:
            self._settled(not self._failed)

    def _settled(self, durable: bool) -> None:
        raise NotImplementedError


class BatchReceipt(CountedReceipt):
    """Calls `done` once, when many messages, or one in many queues, are durable or have failed."""

    def __init__(self, done: Callable[[bool], None], *, is_patient: bool = False) -> None:
        super().__init__()
        self.done = done
        self.is_patient = is_patient

    def _settled(self, durable: bool) -> None:
        self.done(durable)
