"""The ready messages of a queue with their size, and the limits of both."""

from typing import TypeAlias

from strom.queues.acknowledged import Range
from strom.queues.arguments import QueueRules
from strom.queues.message import Message
from strom.queues.ready import FifoReady, PriorityReady
from strom.queues.store import Store

TakenMessage: TypeAlias = tuple[int, Message, bool]
"""Position, message, and whether it is redelivered; a plain tuple, because one is made per delivery."""


class Backlog:
    def __init__(self, rules: QueueRules, store: Store) -> None:
        self.ready: FifoReady | PriorityReady = (
            PriorityReady(rules.max_priority) if rules.max_priority else FifoReady()
        )
        self.size = 0
        """Bytes of the bodies of ready messages."""
        self.redelivered_before = 0
        """Messages before this position may have been delivered before a restart."""
        self._rules = rules
        self._store = store

    def add(self, position: int, message: Message) -> None:
        """Add the newest message."""
        self.ready.push(position, message.priority)
        self.size += len(message.body)

    def put_back(self, position: int, size: int, priority: int) -> None:
        """Return a message with a body of `size` bytes to its old place."""
        self.ready.put_back(position, priority)
        self.size += size

    def take(self) -> TakenMessage | None:
        """Take the message at the head, of which there must be one.

        None if its position has no message any more. Raises MessageUnavailable if it cannot be read
        now: then it stays at the head.
        """
        position = self.ready.peek()
        assert position is not None  # noqa: S101 - callers check that one is ready
        message = self._store.get(position)
        popped = self.ready.pop()
        if message is None or popped is None:
            return None
        self.size -= len(message.body)
        return position, message, popped[1] or position < self.redelivered_before

    def clear(self) -> list[Range]:
        """Take all; the ranges may include positions that are removed already."""
        self.size = 0
        return list(self.ready.clear())

    def is_over(self, more: int = 0, more_bytes: int = 0) -> bool:
        """Whether so many more messages and bytes would exceed a limit."""
        rules = self._rules
        if rules.max_length is not None and len(self.ready) + more > rules.max_length:
            return True
        limit = rules.max_length_bytes
        return limit is not None and self.size + more_bytes > limit

    def expires_at(self, message: Message) -> int | None:
        """When a message expires; None if it does not."""
        limits = [
            limit
            for limit in (self._rules.message_ttl_ms, message.expiration_ms)
            if limit is not None
        ]
        return message.timestamp_ms + min(limits) if limits else None
