"""The messages of a transaction: durable in one log before any queue sees them.

So a commit is atomic: either nothing is applied and the client gets an error, or all of it is, even if a
queue, the disk or the process fails afterwards. The log is that of delayed messages. Once it is durable
the messages are published to their queues, and they are removed from it when they are durable there.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from strom.queues.destinations import Destinations, find_destinations
from strom.queues.errors import QueueError, precondition_failed
from strom.queues.message import Message
from strom.queues.queue import Queue
from strom.queues.receipts import BatchReceipt
from strom.queues.virtual_host import VirtualHost

if TYPE_CHECKING:
    from strom.broker.queues.hub import QueueBroker

log = logging.getLogger(__name__)


class StagedMessages:
    """The messages that one transaction publishes."""

    def __init__(
        self, queues: "QueueBroker", vhost: VirtualHost, messages: Sequence[Message]
    ) -> None:
        """Validate all messages; raise QueueError if the transaction cannot be applied."""
        self._queues = queues
        self._vhost = vhost
        self._messages = messages
        found = [find_destinations(vhost, message) for message in messages]
        _check_room(found)
        _check_topics(queues, found)
        self._must_stage = [_wants_disk(one) for one in found]
        self._positions: list[int | None] = [None] * len(messages)
        self._withdrawn = False

    def write(self, on_durable: Callable[[bool], None]) -> None:
        """Write the messages; call back with whether they are durable."""

        def done(durable: bool) -> None:
            if not self._withdrawn:
                on_durable(durable)

        receipt = BatchReceipt(done)
        for index, must_stage in enumerate(self._must_stage):
            if must_stage:
                store = self._queues.delayed_of(self._vhost.name).store
                self._positions[index] = store.add(self._messages[index], receipt)
        receipt.settle(durable=True)

    def release(self) -> list[bool]:
        """Publish all messages; return for each whether it is routable."""
        return [
            self._release(message, position)
            for message, position in zip(self._messages, self._positions, strict=True)
        ]

    def _release(self, message: Message, position: int | None) -> bool:
        if position is None:
            try:
                found = find_destinations(self._vhost, message)
            except QueueError as error:  # its exchange was deleted since the validation
                log.warning("Dropped a message of a transaction: %s", error)
                return False
            return self._queues.publish_to(found, None, is_committed=True)
        return self._queues.delayed_of(self._vhost.name).release(position, message)

    def withdraw(self) -> None:
        """Remove the messages: the transaction is not applied, and no queue has seen them."""
        self._withdrawn = True
        for position in self._positions:
            if position is not None:
                self._queues.delayed_of(self._vhost.name).store.remove(position)


def _check_room(found: Sequence[Destinations]) -> None:
    """Raise PRECONDITION_FAILED if a queue would exceed its limit and reject messages."""
    bodies: dict[Queue, list[int]] = {}
    for one in found:
        for queue in one.queues:
            bodies.setdefault(queue, []).append(len(one.message.body))
    for queue, sizes in bodies.items():
        if queue.refuses(len(sizes), sum(sizes)):
            raise precondition_failed(
                f"queue '{queue.name}' in vhost '{queue.definition.vhost}' is full and rejects "
                f"{len(sizes)} more: the transaction was not applied"
            )


def _check_topics(queues: "QueueBroker", found: Sequence[Destinations]) -> None:
    """Raise PRECONDITION_FAILED if an exchange's topic refuses a message."""
    for one in found:
        for exchange in one.feeding:
            reason = queues.bridges.refusal(exchange, one.message)
            if reason is not None:
                raise precondition_failed(
                    f"topic '{exchange.to_topic}' of exchange '{exchange.name}' refuses a message "
                    f"({reason}): the transaction was not applied"
                )


def _wants_disk(found: Destinations) -> bool:
    """Whether a publisher confirm of this message waits for the disk."""
    if found.is_delayed or found.feeding:
        return True
    return found.message.persistent and any(
        queue.definition.durable and not queue.definition.exclusive for queue in found.queues
    )
