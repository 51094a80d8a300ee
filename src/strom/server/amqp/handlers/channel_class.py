"""channel: flow and close; opening is the connection's."""

from typing import Any

from strom.server.amqp.channel import Channel
from strom.wire.amqp.methods import channel as methods
from strom.wire.amqp.protocol import AmqpError, ReplyCode


def open_again(channel: Channel, method: methods.Open) -> None:
    """A channel is opened once."""
    raise AmqpError(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen")


def flow(channel: Channel, method: methods.Flow) -> None:
    """Stop deliveries, or let them go on. RabbitMQ refuses to stop; the specification allows it."""
    channel.flow_active = method.active
    channel.send(methods.FlowOk(method.active))
    channel.update()


def close(channel: Channel, method: methods.Close) -> None:
    """The client ends the channel."""
    channel.leave()
    del channel.session.channels[channel.number]
    channel.send(methods.CloseOk())


HANDLERS: dict[type[Any], Any] = {
    methods.Open: open_again,
    methods.Flow: flow,
    methods.Close: close,
}
