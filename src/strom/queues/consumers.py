"""The consumers of a queue: who may take a message now, and whose turn it is."""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from strom.queues.definitions import Arguments
from strom.queues.refusals import access_refused

if TYPE_CHECKING:
    from strom.queues.message import Message
    from strom.queues.queue import Queue


class Outlet(Protocol):
    """Where a consumer's messages go: a channel."""

    takes: bool
    """Whether it takes messages now: open, not paused, its limit not reached, its client reading."""

    def deliver(
        self, consumer: "Consumer", position: int, message: "Message", redelivered: bool
    ) -> None:
        """Send a message. If the consumer acknowledges, the outlet remembers the position."""
        ...

    def consumer_cancelled(self, consumer: "Consumer") -> None:
        """The queue is gone."""
        ...


class Consumer:
    """Someone who takes messages of one queue."""

    __slots__ = (
        "arguments",
        "exclusive",
        "limit",
        "no_ack",
        "outlet",
        "priority",
        "queue",
        "tag",
        "unacked",
    )

    def __init__(
        self,
        queue: "Queue",
        outlet: Outlet,
        tag: str,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        limit: int = 0,
        arguments: Arguments | None = None,
    ) -> None:
        self.queue = queue
        self.outlet = outlet
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.limit = limit
        """How many messages it may have unacknowledged; 0 for any number."""
        self.arguments = arguments or {}
        priority = self.arguments.get("x-priority", 0)
        self.priority = priority if isinstance(priority, int) else 0
        self.unacked = 0

    @property
    def can_take(self) -> bool:
        """Whether it takes one more."""
        return self.outlet.takes and (self.no_ack or not self.limit or self.unacked < self.limit)


class Consumers:
    """All of one queue, in turn; those of higher priority first."""

    def __init__(self, *, single_active: bool) -> None:
        self._single_active = single_active
        self._levels: list[deque[Consumer]] = []
        self._by_arrival: dict[Consumer, None] = {}

    def __len__(self) -> int:
        return len(self._by_arrival)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(tuple(self._by_arrival))

    def add(self, consumer: Consumer) -> None:
        """One more; refused if someone wants to be the only one."""
        exclusive = consumer.exclusive and self._by_arrival
        if exclusive or any(other.exclusive for other in self._by_arrival):
            raise access_refused(f"queue '{consumer.queue.name}' is in exclusive use")
        self._by_arrival[consumer] = None
        self._arrange()

    def remove(self, consumer: Consumer) -> None:
        """One less."""
        del self._by_arrival[consumer]
        self._arrange()

    def _arrange(self) -> None:
        consumers = list(self._by_arrival)
        if self._single_active:
            consumers = consumers[:1]
        levels: dict[int, deque[Consumer]] = {}
        for consumer in consumers:
            levels.setdefault(consumer.priority, deque()).append(consumer)
        self._levels = [levels[priority] for priority in sorted(levels, reverse=True)]

    def next(self) -> Consumer | None:
        """Whose turn it is, of those who take a message now."""
        for level in self._levels:
            if len(level) == 1:
                if level[0].can_take:
                    return level[0]
                continue
            for _ in range(len(level)):
                consumer = level[0]
                level.rotate(-1)
                if consumer.can_take:
                    return consumer
        return None
