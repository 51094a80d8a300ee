"""exchange and queue: declare, bind, unbind, purge, delete."""

from typing import Any

from strom.queues.definitions import EXCHANGE, QUEUE, Binding, ExchangeDefinition, QueueDefinition
from strom.queues.errors import not_found
from strom.queues.queue import Queue
from strom.server.amqp.channel import Channel
from strom.wire.amqp.methods import exchange, queue


def named(channel: Channel, name: str) -> str:
    """A queue's name; the empty name means the queue last declared on the channel."""
    if not name and not channel.last_queue:
        raise not_found("queue", "", channel.vhost.name)
    return name or channel.last_queue


def usable(channel: Channel, name: str) -> Queue:
    """The queue that a method names, if this connection may use it."""
    declarations = channel.declarations
    return declarations.usable(channel.vhost, named(channel, name), channel.session)


async def declare_exchange(channel: Channel, method: exchange.Declare) -> None:
    wanted = ExchangeDefinition(
        channel.vhost.name,
        method.exchange,
        method.type,
        method.durable,
        method.auto_delete,
        method.internal,
        method.arguments,
    )
    declarations = channel.declarations
    await declarations.declare_exchange(channel.vhost, wanted, passive=method.passive)
    channel.respond(method, exchange.DeclareOk())


async def declare_queue(channel: Channel, method: queue.Declare) -> None:
    wanted = QueueDefinition(
        channel.vhost.name,
        named(channel, method.queue) if method.passive else method.queue,
        method.durable,
        method.exclusive,
        method.auto_delete,
        method.arguments,
    )
    declared = await channel.declarations.declare_queue(
        channel.vhost, wanted, channel.session, passive=method.passive
    )
    channel.last_queue = declared.name
    response = queue.DeclareOk(declared.name, declared.waiting, len(declared.consumers))
    channel.respond(method, response)


def _binding(
    channel: Channel, method: exchange.Bind | exchange.Unbind | queue.Bind | queue.Unbind
) -> Binding:
    vhost, key = channel.vhost.name, method.routing_key
    if isinstance(method, exchange.Bind | exchange.Unbind):
        return Binding(vhost, method.source, EXCHANGE, method.destination, key, method.arguments)
    if not method.queue and not key:
        key = channel.last_queue
    name = usable(channel, method.queue).name
    return Binding(vhost, method.exchange, QUEUE, name, key, method.arguments)


async def bind(channel: Channel, method: exchange.Bind | queue.Bind) -> None:
    await channel.declarations.bind(channel.vhost, _binding(channel, method))
    is_queue = isinstance(method, queue.Bind)
    channel.respond(method, queue.BindOk() if is_queue else exchange.BindOk())


async def unbind(channel: Channel, method: exchange.Unbind | queue.Unbind) -> None:
    await channel.declarations.unbind(channel.vhost, _binding(channel, method))
    if isinstance(method, queue.Unbind):  # it has no `no_wait`
        channel.send(queue.UnbindOk())
    else:
        channel.respond(method, exchange.UnbindOk())


def purge(channel: Channel, method: queue.Purge) -> None:
    channel.respond(method, queue.PurgeOk(usable(channel, method.queue).purge()))


async def delete_exchange(channel: Channel, method: exchange.Delete) -> None:
    declarations = channel.declarations
    await declarations.delete_exchange(channel.vhost, method.exchange, if_unused=method.if_unused)
    channel.respond(method, exchange.DeleteOk())


async def delete_queue(channel: Channel, method: queue.Delete) -> None:
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
    channel.respond(method, queue.DeleteOk(count))


HANDLERS: dict[type[Any], Any] = {
    exchange.Declare: declare_exchange,
    exchange.Bind: bind,
    exchange.Unbind: unbind,
    exchange.Delete: delete_exchange,
    queue.Declare: declare_queue,
    queue.Bind: bind,
    queue.Unbind: unbind,
    queue.Purge: purge,
    queue.Delete: delete_queue,
}
