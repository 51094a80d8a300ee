"""queue: declare, bind, unbind, purge, delete."""

from typing import Any

from strom.queues.definitions import QUEUE, Binding, QueueDefinition
from strom.queues.errors import not_found
from strom.queues.queue import Queue
from strom.server.amqp.channel import Channel
from strom.wire.amqp.methods import queue as methods


def named(channel: Channel, name: str) -> str:
    """A queue's name; the empty name means the queue last declared on the channel."""
    if name:
        return name
    if not channel.last_queue:
        raise not_found("queue", "", channel.vhost.name)
    return channel.last_queue


def usable(channel: Channel, name: str) -> Queue:
    """The queue that a method names, if this connection may use it."""
    declarations = channel.declarations
    return declarations.usable(channel.vhost, named(channel, name), channel.session)


async def declare(channel: Channel, method: methods.Declare) -> None:
    name = method.queue
    if method.passive:
        name = named(channel, name)
    wanted = QueueDefinition(
        channel.vhost.name,
        name,
        method.durable,
        method.exclusive,
        method.auto_delete,
        method.arguments,
    )
    queue = await channel.declarations.declare_queue(
        channel.vhost, wanted, channel.session, passive=method.passive
    )
    channel.last_queue = queue.name
    if not method.no_wait:
        answer = methods.DeclareOk(queue.name, queue.waiting, len(queue.consumers))
        channel.send(answer)


def _binding(channel: Channel, method: methods.Bind | methods.Unbind) -> Binding:
    key = method.routing_key
    if not method.queue and not key:
        key = channel.last_queue
    return Binding(
        channel.vhost.name,
        method.exchange,
        QUEUE,
        usable(channel, method.queue).name,
        key,
        method.arguments,
    )


async def bind(channel: Channel, method: methods.Bind) -> None:
    await channel.declarations.bind(channel.vhost, _binding(channel, method))
    if not method.no_wait:
        channel.send(methods.BindOk())


async def unbind(channel: Channel, method: methods.Unbind) -> None:
    await channel.declarations.unbind(channel.vhost, _binding(channel, method))
    channel.send(methods.UnbindOk())


def purge(channel: Channel, method: methods.Purge) -> None:
    count = usable(channel, method.queue).purge()
    if not method.no_wait:
        channel.send(methods.PurgeOk(count))


async def delete(channel: Channel, method: methods.Delete) -> None:
    """Delete a queue; as in RabbitMQ, deleting one that does not exist is no error."""
    declarations = channel.declarations
    count = 0
    name = named(channel, method.queue)
    if name not in channel.vhost.queues:
        if not method.if_empty:
            await declarations.delete_damaged_queue(channel.vhost, name)
    else:
        count = await declarations.delete_queue(
            channel.vhost,
            usable(channel, method.queue),
            if_unused=method.if_unused,
            if_empty=method.if_empty,
        )
    if not method.no_wait:
        channel.send(methods.DeleteOk(count))


HANDLERS: dict[type[Any], Any] = {
    methods.Declare: declare,
    methods.Bind: bind,
    methods.Unbind: unbind,
    methods.Purge: purge,
    methods.Delete: delete,
}
