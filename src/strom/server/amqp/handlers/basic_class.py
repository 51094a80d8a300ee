"""basic: publish, consume, get, acknowledge. The connection has fast paths for publish and ack."""

import asyncio
import secrets
from typing import Any

from strom.queues.queue import GetResult, Queue
from strom.server.amqp.channel import Channel, ChannelConsumer, Work
from strom.server.amqp.handlers.topology_class import usable
from strom.wire.amqp.delivering import DeliveryWriter
from strom.wire.amqp.methods import basic as methods
from strom.wire.amqp.protocol import AmqpError, ReplyCode


def qos(channel: Channel, method: methods.Qos) -> None:
    """Set the prefetch count of new consumers, or (`global`) of the whole channel, as RabbitMQ does."""
    if method.prefetch_size:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.channel_prefetch = method.prefetch_count
        channel.update()
    else:
        channel.prefetch = method.prefetch_count
    channel.send(methods.QosOk())


def consume(channel: Channel, method: methods.Consume) -> None:
    queue = usable(channel, method.queue)
    tag = method.consumer_tag or f"amq.ctag-{secrets.token_urlsafe(16)}"
    if tag in channel.consumers:
        raise AmqpError(ReplyCode.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
    consumer = ChannelConsumer(
        queue,
        channel,
        tag,
        no_ack=method.no_ack,
        exclusive=method.exclusive,
        limit=channel.prefetch,
        arguments=method.arguments,
    )
    consumer.writer = DeliveryWriter(channel.number, tag, channel.session.login.frame_max)
    queue.consumers.add(consumer)
    queue.had_consumers = True
    channel.consumers[tag] = consumer
    channel.respond(method, methods.ConsumeOk(tag))
    channel.declarations.touch(queue)
    channel.serve([queue])


def cancel(channel: Channel, method: methods.Cancel) -> None:
    """Cancel a consumer, if it exists."""
    consumer = channel.consumers.pop(method.consumer_tag, None)
    if consumer is not None:
        channel.remove_consumer(consumer)
    channel.respond(method, methods.CancelOk(method.consumer_tag))


def publish(channel: Channel, method: methods.Publish) -> None:
    """Start a message; its header and body frames follow."""
    channel.publisher.assembly.begin(method)


def get(channel: Channel, method: methods.Get) -> Work:
    queue = usable(channel, method.queue)
    channel.declarations.touch(queue)
    got = queue.get(channel.queues.clock.now_ms(), no_ack=method.no_ack)
    if got is None and queue.is_paused:
        return _get_after_pause(channel, method, queue)
    _send_got(channel, method, queue, got)
    return None


async def _get_after_pause(channel: Channel, method: methods.Get, queue: Queue) -> None:
    """Get a message once requeueing or expiring in slices is done."""
    got = None
    while got is None and queue.is_paused and not queue.deleted:
        await asyncio.sleep(0)
        if channel.left:
            return
        got = queue.get(channel.queues.clock.now_ms(), no_ack=method.no_ack)
    _send_got(channel, method, queue, got)


def _send_got(channel: Channel, method: methods.Get, queue: Queue, got: GetResult | None) -> None:
    if got is None:
        channel.send(methods.GetEmpty())
    else:
        channel.send_get_ok(queue, got, no_ack=method.no_ack)


def ack(channel: Channel, method: methods.Ack) -> Work:
    return channel.acknowledge(method.delivery_tag, method.multiple)


def nack(channel: Channel, method: methods.Nack) -> Work:
    return channel.refuse(method.delivery_tag, multiple=method.multiple, requeue=method.requeue)


def reject(channel: Channel, method: methods.Reject) -> Work:
    return channel.refuse(method.delivery_tag, multiple=False, requeue=method.requeue)


def recover(channel: Channel, method: methods.Recover | methods.RecoverAsync) -> Work:
    """Requeue all unacknowledged messages; as in RabbitMQ, any consumer may get them."""
    if not method.requeue:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "requeue=false")
    if isinstance(method, methods.Recover):
        channel.send(methods.RecoverOk())
    return channel.recover()


HANDLERS: dict[type[Any], Any] = {
    methods.Qos: qos,
    methods.Consume: consume,
    methods.Cancel: cancel,
    methods.Publish: publish,
    methods.Get: get,
    methods.Ack: ack,
    methods.Nack: nack,
    methods.Reject: reject,
    methods.Recover: recover,
    methods.RecoverAsync: recover,
}
