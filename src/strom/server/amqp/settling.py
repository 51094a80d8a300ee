"""Acknowledging, requeueing and rejecting messages, possibly very many, in slices."""

import asyncio
from itertools import islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING

from strom.broker.queues.slices import SLICE
from strom.queues.queue import EXPIRY_SLICE, Queue

if TYPE_CHECKING:
    from strom.server.amqp.channel import Channel, Unacked

REJECT_SLICE = EXPIRY_SLICE
"""A slice of messages that may become dead letters, each of which is read and published again."""


class Settling:
    """Settles messages up to a delivery tag: acknowledged (None), requeued (True) or rejected (False).

    They are taken out of `unacked` slice by slice, in the order of their delivery.
    """

    def __init__(
        self,
        channel: "Channel",
        unacked: "dict[int, Unacked]",
        last_tag: int,
        requeue: bool | None,
    ) -> None:
        self.successor: Settling | None = None
        """What settles the rest of `unacked`, if the channel is closed before this is done."""
        self.done: asyncio.Future[None] = channel.queues.loop.create_future()
        self._channel = channel
        self._unacked = unacked
        self._last_tag = last_tag
        self._requeue = requeue
        first_tag = next(iter(unacked), last_tag + 1)
        most = max(0, min(len(unacked), last_tag + 1 - first_tag))
        self._requeued: dict[Queue, None] = {}
        """Queues that pause until all of their messages are requeued."""
        if requeue:
            affected = islice(unacked.values(), most)
            self._requeued = dict.fromkeys(map(attrgetter("queue"), affected))
        for queue in self._requeued:  # now: the first slice may run after other jobs
            queue.begin_requeue()
        gives_up = requeue is False or any(each.rules.may_drop_returned for each in self._requeued)
        self._slice = REJECT_SLICE if gives_up else SLICE
        self.slices = most / self._slice
        """The maximum number of slices."""

    def step(self) -> bool:
        """Settle one slice; True if there may be more."""
        if self.done.done():
            return self.successor is not None and self.successor.step()
        part = self._take()
        touched = self._settle(part)
        has_more = next(iter(self._unacked), self._last_tag + 1) <= self._last_tag
        if not has_more:
            for queue in self._requeued:
                queue.end_requeue()
            self.done.set_result(None)
        if not self._channel.takes:
            self._channel.update()
        self._channel.serve(touched if has_more else {**self._requeued, **touched})
        return has_more or self.successor is not None

    async def ended(self) -> None:
        """Return when all is settled."""
        await self.done

    def _take(self) -> "list[Unacked]":
        due = takewhile(lambda tag: tag <= self._last_tag, self._unacked)
        return [self._unacked.pop(tag) for tag in list(islice(due, self._slice))]

    def _settle(self, messages: "list[Unacked]") -> dict[Queue, list[int]]:
        touched: dict[Queue, list[int]] = {}
        for _, queue, position, consumer in messages:
            touched.setdefault(queue, []).append(position)
            if consumer is not None:
                consumer.unacked -= 1
                if consumer.parked:
                    queue.consumers.wake(consumer)
        for queue, positions in touched.items():
            if queue.deleted:
                continue
            if self._requeue:
                queue.requeue(positions)
            else:
                settle = queue.acknowledge if self._requeue is None else queue.reject
                for position in positions:
                    settle(position)
        return touched
