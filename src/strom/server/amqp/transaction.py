"""A transaction on a channel: publishes and acks that wait for the commit.

A commit is atomic: the messages are durable, invisible to consumers, before anything is applied. Until
then the settled messages belong to the channel: if the commit fails or the channel is closed, they are
requeued like all unacknowledged messages.
"""

import asyncio
from typing import TYPE_CHECKING

from strom.broker.queues.staging import StagedMessages
from strom.queues.message import Message

if TYPE_CHECKING:
    from strom.server.amqp.channel import Channel, Unacked


class Transaction:
    def __init__(self) -> None:
        self.published: list[tuple[Message, bool]] = []
        self.settled: list[tuple[list[Unacked], bool | None]] = []
        self._committing: tuple[StagedMessages, asyncio.Future[bool]] | None = None

    def commit(self, channel: "Channel") -> "asyncio.Future[bool]":
        """Apply the transaction; False if the disk refused it. QueueError if it is invalid."""
        messages = [message for message, _ in self.published]
        staged = StagedMessages(channel.queues, channel.vhost, messages)
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._committing = staged, done

        def finish(durable: bool) -> None:
            self._committing = None
            if durable:
                self._apply(channel, staged)
            else:
                staged.withdraw()
            if not done.done():  # the handler that awaits it may have been cancelled
                done.set_result(durable)

        staged.write(finish)
        return done

    def _apply(self, channel: "Channel", staged: StagedMessages) -> None:
        published, self.published = self.published, []
        settled, self.settled = self.settled, []
        for (message, mandatory), routed in zip(published, staged.release(), strict=True):
            if mandatory and not routed:
                channel.publisher.return_message(message)
        for messages, requeue in settled:
            channel.settle(messages, requeue)

    def rollback(self, channel: "Channel") -> None:
        """Discard the transaction: settled messages are unacknowledged again.

        If the channel is closed during a commit, that is not applied either.
        """
        if self._committing is not None:
            staged, done = self._committing
            self._committing = None
            staged.withdraw()
            if not done.done():
                done.set_result(False)
        self.published.clear()
        settled, self.settled = self.settled, []
        channel.restore([one for messages, _ in settled for one in messages])
