"""exchange: declare, delete, bind, unbind."""

from collections.abc import Coroutine
from typing import Any, TypeAlias

from strom.queues.definitions import EXCHANGE, Binding, ExchangeDefinition
from strom.server.amqp.channel import Channel
from strom.wire.amqp.methods import exchange as methods

Work: TypeAlias = Coroutine[Any, Any, None] | None


async def declare(channel: Channel, method: methods.Declare) -> None:
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
    if not method.no_wait:
        channel.send(methods.DeclareOk())


async def delete(channel: Channel, method: methods.Delete) -> None:
    declarations = channel.declarations
    await declarations.delete_exchange(channel.vhost, method.exchange, if_unused=method.if_unused)
    if not method.no_wait:
        channel.send(methods.DeleteOk())


def _binding(channel: Channel, method: methods.Bind | methods.Unbind) -> Binding:
    return Binding(
        channel.vhost.name,
        method.source,
        EXCHANGE,
        method.destination,
        method.routing_key,
        method.arguments,
    )


async def bind(channel: Channel, method: methods.Bind) -> None:
    await channel.declarations.bind(channel.vhost, _binding(channel, method))
    if not method.no_wait:
        channel.send(methods.BindOk())


async def unbind(channel: Channel, method: methods.Unbind) -> None:
    await channel.declarations.unbind(channel.vhost, _binding(channel, method))
    if not method.no_wait:
        channel.send(methods.UnbindOk())


HANDLERS: dict[type[Any], Any] = {
    methods.Declare: declare,
    methods.Delete: delete,
    methods.Bind: bind,
    methods.Unbind: unbind,
}
