"""confirm: publisher confirms."""

from typing import Any

from strom.queues.errors import precondition_failed
from strom.server.amqp.channel import Channel
from strom.server.amqp.confirms import Confirms
from strom.wire.amqp.methods import confirm as methods


def select(channel: Channel, method: methods.Select) -> None:
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms(channel.out.flush_soon)
    if not method.no_wait:
        channel.send(methods.SelectOk())


HANDLERS: dict[type[Any], Any] = {methods.Select: select}
