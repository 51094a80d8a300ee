"""The handlers of methods."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from strom.model.errors import StromError
from strom.server.amqp.channel import Channel, Work
from strom.server.amqp.handlers import basic_class, channel_class, topology_class
from strom.wire.amqp.methods import access
from strom.wire.amqp.protocol import AmqpError, ReplyCode
from strom.wire.amqp.schema import Method, method_name

Handler: TypeAlias = Callable[[Channel, Any], Work]


def _access(channel: Channel, method: access.Request) -> None:
    """Tickets were removed in AMQP 0-9-1; as in RabbitMQ, old clients still get one."""
    channel.send(access.RequestOk(1))


HANDLERS: dict[type[Method], Handler] = {
    access.Request: _access,
    **channel_class.HANDLERS,
    **topology_class.HANDLERS,
    **basic_class.HANDLERS,
}


def handle(channel: Channel, method: Method) -> Work:
    """Handle a method; the caller awaits what is returned."""
    handler = HANDLERS.get(type(method))
    if handler is None:
        raise AmqpError(ReplyCode.COMMAND_INVALID, f"{method_name(type(method))} was not expected")
    work = handler(channel, method)
    return None if work is None else _with_location(channel, method, work)


async def _with_location(channel: Channel, method: Method, work: Coroutine[Any, Any, None]) -> None:
    """Attach the channel and the method to an error."""
    try:
        await work
    except StromError as error:
        error.place = (channel.number, method)  # type: ignore[attr-defined]
        raise
