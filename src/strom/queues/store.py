"""Where a queue keeps its messages, and how a message leaves only after its copy is durable."""

from typing import Protocol

from strom.queues.acknowledged import Range
from strom.queues.message import Message
from strom.queues.receipts import CountedReceipt, Receipt


class MessageUnavailable(Exception):
    """A message exists but cannot be read now: out of file descriptors or memory."""


class Store(Protocol):
    """The messages of a queue by position."""

    is_damaged: bool
    """Whether its log accepts no more writes."""

    def add(self, message: Message, receipt: Receipt | None) -> int:
        """Add a message and return its position.

        The receipt is settled once the message is on disk, or at once if it needs no disk.
        """
        ...

    def get(self, position: int) -> Message | None:
        """Return the message, or None if that position has none; raise MessageUnavailable for now."""
        ...

    def mark_leaving(self, position: int) -> None:
        """The message is no longer delivered, but its copy elsewhere is not durable yet."""
        ...

    def remove(self, position: int) -> None: ...

    def remove_range(self, span: Range) -> None: ...

    def mark_delivered(self, position: int) -> None:
        """A consumer has it: after a restart it is delivered as redelivered."""
        ...

    def mark_returned(self, position: int, count: int) -> None:
        """A consumer returned it; `count` is the number of its returns so far."""
        ...


class PendingRemoval(CountedReceipt):
    """Removes a message only once its copy elsewhere is durable.

    Otherwise a power cut could lose the copy while the removal of the original is already on disk.
    After a failure the message stays, and a restart delivers it again.
    """

    is_patient = True

    def __init__(self, store: Store, position: int) -> None:
        super().__init__()
        self._store = store
        self._position = position
        store.mark_leaving(position)

    def message(self) -> Message | None:
        """Read the message again from the store; None if it cannot be read now."""
        try:
            message = self._store.get(self._position)
        except MessageUnavailable:
            return None
        self._store.mark_leaving(self._position)
        return message

    def _settled(self, durable: bool) -> None:
        if durable:
            self._store.remove(self._position)
