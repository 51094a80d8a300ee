"""A cache of a queue's messages: those to be delivered next, and the unacknowledged ones.

Each queue has a share of the memory; what exceeds it is read from the log again.
"""

from collections.abc import Iterator

from strom.queues.message import Message

OVERHEAD = 400
"""Approximate memory overhead of a message."""
MOST_IN_MEMORY = 16 * 1024 * 1024
LEAST_IN_MEMORY = 256 * 1024
ALL_IN_MEMORY = 128 * 1024 * 1024


class MemoryShare:
    """How many bytes of messages each queue keeps in memory."""

    def __init__(self) -> None:
        self.each = MOST_IN_MEMORY
        self.pressed: set[object] = set()
        """Stores of queues with consumers and a backlog."""

    def divide(self, queues: int) -> None:
        """Recompute the shares when the number of queues changes."""
        self.each = max(LEAST_IN_MEMORY, min(MOST_IN_MEMORY, ALL_IN_MEMORY // max(1, queues)))


class MessageCache:
    def __init__(self, memory: MemoryShare) -> None:
        self.size = 0
        """Bytes in memory."""
        self._memory = memory
        self._next: dict[int, Message] = {}
        """Ready messages: most of them are delivered soon."""
        self._lent: dict[int, Message] = {}
        """Unacknowledged messages: kept in case they are requeued."""

    def __len__(self) -> int:
        return len(self._next) + len(self._lent)

    def __iter__(self) -> Iterator[int]:
        yield from self._next
        yield from self._lent

    def __contains__(self, position: int) -> bool:
        return position in self._next or position in self._lent

    def get(self, position: int) -> Message | None:
        """The message at a position, if it is in memory."""
        return self._next.get(position) or self._lent.get(position)

    def add(self, position: int, message: Message, *, is_lent: bool) -> None:
        """Cache a message if there is room for it."""
        size = len(message.body) + OVERHEAD
        if self.size + size <= self._memory.each:
            (self._lent if is_lent else self._next)[position] = message
            self.size += size

    def add_read(self, messages: dict[int, Message]) -> None:
        """Cache messages that were just read: they are needed next, so others are evicted."""
        size = sum(len(message.body) + OVERHEAD for message in messages.values())
        if size > self._memory.each:
            return
        if self.size + size > self._memory.each:
            self.evict_lent()
        while self._next and self.size + size > self._memory.each:
            # The newest entries are mostly those needed last.
            _, message = self._next.popitem()
            self.size -= len(message.body) + OVERHEAD
        self._next.update(messages)
        self.size += size

    def lend(self, position: int) -> None:
        """A consumer has it."""
        message = self._next.pop(position, None)
        if message is not None:
            self._lent[position] = message

    def drop(self, position: int) -> None:
        message = self._next.pop(position, None) or self._lent.pop(position, None)
        if message is not None:
            self.size -= len(message.body) + OVERHEAD

    def evict_lent(self) -> None:
        """Evict unacknowledged messages: they are needed only if they are requeued."""
        for message in self._lent.values():
            self.size -= len(message.body) + OVERHEAD
        self._lent.clear()
