"""Who waits until a message is durable."""

from collections.abc import Callable
from typing import Protocol


class Receipt(Protocol):
    """Is settled once by every place that has to make a message durable."""

    @property
    def is_patient(self) -> bool:
        """Whether to wait for a disk that refuses writes now, rather than to be refused."""
        ...

    def expect(self) -> None:
        """One more queue has to make it durable."""
        ...

    def settle(self, *, safe: bool) -> None:
        """One queue has, or never will."""
        ...


class BatchReceipt:
    """Waits for many messages, or one in many queues, and reports once whether all are durable.

    Its creator settles it too, after everything is handed over: nothing is reported before.
    """

    def __init__(self, done: Callable[[bool], None], *, is_patient: bool = False) -> None:
        self.done = done
        self.is_patient = is_patient
        self._waiting = 1
        self._failed = False

    def expect(self) -> None:
        """One more queue has to make one durable."""
        self._waiting += 1

    def settle(self, *, safe: bool) -> None:
        """One has, or never will."""
        self._waiting -= 1
        self._failed = self._failed or not safe
        if not self._waiting:
            self.done(not self._failed)
