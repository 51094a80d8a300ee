"""channel, confirm and tx: the state of a channel. Its opening is in `protocol_state.py`."""

from typing import Any

from strom.queues.errors import precondition_failed
from strom.server.amqp.channel import Channel
from strom.server.amqp.confirms import Confirms
from strom.server.amqp.transaction import Transaction
from strom.wire.amqp.methods import channel as methods
from strom.wire.amqp.methods import confirm, tx
from strom.wire.amqp.protocol import AmqpError, ReplyCode


def open_again(channel: Channel, method: methods.Open) -> None:
    """Raise CHANNEL_ERROR: the channel is open already."""
    raise AmqpError(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen")


def flow(channel: Channel, method: methods.Flow) -> None:
    """NOT_IMPLEMENTED if it asks for a pause, as in RabbitMQ: clients limit deliveries by basic.qos."""
    if not method.active:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "active=false")
    channel.send(methods.FlowOk(active=True))


def close(channel: Channel, method: methods.Close) -> None:
    channel.leave()
    del channel.session.channels[channel.number]
    channel.send(methods.CloseOk())


def select_confirms(channel: Channel, method: confirm.Select) -> None:
    if channel.publisher.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    if channel.publisher.confirms is None:
        channel.publisher.confirms = Confirms(channel.out.flush_soon)
    channel.respond(method, confirm.SelectOk())


def select_transactions(channel: Channel, method: tx.Select) -> None:
    """Start a transaction; after every commit and rollback the next one starts implicitly."""
    if channel.publisher.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.publisher.transaction is None:
        channel.publisher.transaction = Transaction()
    channel.send(tx.SelectOk())


def _running(channel: Channel) -> Transaction:
    if channel.publisher.transaction is None:
        raise precondition_failed("channel is not transactional")
    return channel.publisher.transaction


async def commit(channel: Channel, method: tx.Commit) -> None:
    """Apply the transaction atomically; respond when it is durable."""
    if not await _running(channel).commit(channel):
        raise AmqpError(
            ReplyCode.RESOURCE_ERROR, "the disk refused the transaction, which was not applied"
        )
    channel.send(tx.CommitOk())


def rollback(channel: Channel, method: tx.Rollback) -> None:
    """Forget all of it."""
    _running(channel).rollback(channel)
    channel.send(tx.RollbackOk())


HANDLERS: dict[type[Any], Any] = {
    methods.Open: open_again,
    methods.Flow: flow,
    methods.Close: close,
    confirm.Select: select_confirms,
    tx.Select: select_transactions,
    tx.Commit: commit,
    tx.Rollback: rollback,
}
