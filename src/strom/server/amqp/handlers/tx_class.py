"""tx: transactions on a channel."""

from typing import Any

from strom.queues.errors import precondition_failed
from strom.server.amqp.channel import Channel
from strom.server.amqp.transaction import Transaction
from strom.wire.amqp.methods import tx as methods
from strom.wire.amqp.protocol import AmqpError, ReplyCode


def select(channel: Channel, method: methods.Select) -> None:
    """Start a transaction; after every commit and rollback the next one starts implicitly."""
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.send(methods.SelectOk())


def _running(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise precondition_failed("channel is not transactional")
    return channel.transaction


async def commit(channel: Channel, method: methods.Commit) -> None:
    """Apply the transaction atomically; respond when it is durable."""
    if not await _running(channel).commit(channel):
        raise AmqpError(
            ReplyCode.RESOURCE_ERROR, "the disk refused the transaction, which was not applied"
        )
    channel.send(methods.CommitOk())


def rollback(channel: Channel, method: methods.Rollback) -> None:
    """Forget all of it."""
    _running(channel).rollback(channel)
    channel.send(methods.RollbackOk())


HANDLERS: dict[type[Any], Any] = {
    methods.Select: select,
    methods.Commit: commit,
    methods.Rollback: rollback,
}
