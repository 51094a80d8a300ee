"""A transaction on a channel: what is published and settled waits for the commit."""

import asyncio
from typing import TYPE_CHECKING

from strom.queues.message import Message

if TYPE_CHECKING:
    from strom.server.amqp.channel import Channel, Unacked


class CommitReceipt:
    """Counts the queues that must make a transaction's messages safe."""

    is_patient = False

    def __init__(self) -> None:
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting = 1
        self._failed = False

    def expect(self) -> None:
        """One more."""
        self._waiting += 1

    def settle(self, *, safe: bool) -> None:
        """One less."""
        self._waiting -= 1
        self._failed = self._failed or not safe
        if not self._waiting and not self.done.done():
            self.done.set_result(not self._failed)


class Transaction:
    """What waits."""

    def __init__(self) -> None:
        self.published: list[tuple[Message, bool]] = []
        self.settled: list[tuple[list[Unacked], bool | None]] = []

    def commit(self, channel: "Channel") -> CommitReceipt:
        """Do all of it; the receipt is done when it is safe."""
        receipt = CommitReceipt()
        published, self.published = self.published, []
        settled, self.settled = self.settled, []
        for message, mandatory in published:
            routed = channel.queues.publish(channel.vhost, message, receipt)
            if mandatory and not routed:
                channel.send_back(message)
        for messages, requeue in settled:
            channel.settle(messages, requeue)
        receipt.settle(safe=True)
        return receipt

    def rollback(self, channel: "Channel") -> None:
        """Forget all of it: what was settled is unacknowledged again."""
        self.published.clear()
        settled, self.settled = self.settled, []
        channel.restore([one for messages, _ in settled for one in messages])
