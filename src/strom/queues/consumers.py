"""The consumers of a queue: which of them accept a message now, and which is next."""

import heapq
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Protocol

from strom.queues.definitions import Arguments
from strom.queues.errors import access_refused

if TYPE_CHECKING:
    from strom.queues.message import Message
    from strom.queues.queue import Queue


class Outlet(Protocol):
    """The channel that a consumer's messages are sent on."""

    takes: bool
    """Whether it accepts messages: open, flow active, prefetch not reached, its client reading."""

    def deliver(
        self, consumer: "Consumer", position: int, message: "Message", redelivered: bool
    ) -> None:
        """Send a message; unless the consumer is no_ack, remember its position until the ack."""
        ...

    def consumer_cancelled(self, consumer: "Consumer") -> None:
        """The consumer's queue was deleted."""
        ...


@dataclass(slots=True, eq=False)
class Consumer:
    """A subscription to one queue (basic.consume)."""

    queue: "Queue"
    outlet: Outlet
    tag: str
    _: KW_ONLY
    no_ack: bool = False
    exclusive: bool = False
    limit: int = 0
    """Its prefetch count: the limit of unacknowledged messages; 0 for none."""
    arguments: Arguments = field(default_factory=dict)
    priority: int = field(init=False)
    unacked: int = field(init=False, default=0)
    served: int = field(init=False, default=0)
    """Sequence number of its last turn, or of its registration; 0 if it was removed."""
    parked: bool = field(init=False, default=False)
    """Whether it did not accept a message and is skipped until `Consumers.wake`."""

    def __post_init__(self) -> None:
        priority = self.arguments.get("x-priority", 0)
        self.priority = priority if isinstance(priority, int) else 0

    @property
    def can_take(self) -> bool:
        """Whether it takes one more."""
        return self.outlet.takes and (self.no_ack or not self.limit or self.unacked < self.limit)


class Consumers:
    """All consumers of one queue: by priority, and round-robin within a priority.

    The next one is the consumer served longest ago that accepts a message. A consumer that does not is
    parked, so that thousands of them are not checked again for every message.
    """

    def __init__(self, *, single_active: bool) -> None:
        self._single_active = single_active
        self._by_arrival: dict[Consumer, None] = {}
        self._only: Consumer | None = None
        """The consumer that gets everything: the only one, or the single active one."""
        self._turns: list[tuple[int, int, Consumer]] = []
        """A heap by negated priority and last turn; removed consumers stay in it until popped."""
        self._events = 0

    def __len__(self) -> int:
        return len(self._by_arrival)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(tuple(self._by_arrival))

    def add(self, consumer: Consumer) -> None:
        """Register a consumer; ACCESS_REFUSED if it or a present one is exclusive."""
        only = self._only
        if self._by_arrival and (consumer.exclusive or (only is not None and only.exclusive)):
            raise access_refused(f"queue '{consumer.queue.name}' is in exclusive use")
        self._by_arrival[consumer] = None
        consumer.parked = False
        self._queue_up(consumer)
        self._note_only()

    def remove(self, consumer: Consumer) -> None:
        del self._by_arrival[consumer]
        consumer.served = 0
        self._note_only()
        if len(self._turns) > 2 * len(self._by_arrival) + 16:
            self._turns = [turn for turn in self._turns if turn[1] == turn[2].served]
            heapq.heapify(self._turns)

    def wake(self, consumer: Consumer) -> None:
        """Consider a parked consumer again."""
        if consumer.parked:
            consumer.parked = False
            if consumer.served:
                heapq.heappush(self._turns, (-consumer.priority, consumer.served, consumer))

    def next(self) -> Consumer | None:
        """The next consumer that accepts a message now, or None."""
        only = self._only
        if only is not None:
            return only if only.can_take else None
        turns = self._turns
        while turns:
            _, served, consumer = heapq.heappop(turns)
            if served != consumer.served:
                continue  # it was removed
            if consumer.can_take:
                self._queue_up(consumer)
                return consumer
            consumer.parked = True
        return None

    def _queue_up(self, consumer: Consumer) -> None:
        """Put it behind all others of its priority."""
        self._events += 1
        consumer.served = self._events
        heapq.heappush(self._turns, (-consumer.priority, consumer.served, consumer))

    def _note_only(self) -> None:
        alone = self._single_active or len(self._by_arrival) == 1
        self._only = next(iter(self._by_arrival), None) if alone else None
