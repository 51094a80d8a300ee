"""channel: flow and close; the connection handles open."""

from typing import Any

from strom.server.amqp.channel import Channel
from strom.wire.amqp.methods import channel as methods
from strom.wire.amqp.protocol import AmqpError, ReplyCode


def open_again(channel: Channel, method: methods.Open) -> None:
    """Raise CHANNEL_ERROR: the channel is open already."""
    raise AmqpError(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen")


def flow(channel: Channel, method: methods.Flow) -> None:
    """Pause or resume deliveries. RabbitMQ refuses to pause; the specification allows it."""
    channel.flow_active = method.active
    channel.send(methods.FlowOk(method.active))
    channel.update()


def close(channel: Channel, method: methods.Close) -> None:

    channel.leave()
    del channel.session.channels[channel.number]
    channel.send(methods.CloseOk())


HANDLERS: dict[type[Any], Any] = {
    methods.Open: open_again,
    methods.Flow: flow,
    methods.Close: close,
}
