"""All methods, one module per class of the protocol."""

from strom.wire.amqp.codec import decode_arguments
from strom.wire.amqp.methods import (
    access,
    basic,
    channel,
    confirm,
    connection,
    exchange,
    queue,
    tx,
)
from strom.wire.amqp.protocol import AmqpError, ReplyCode
from strom.wire.amqp.schema import Method
from strom.wire.amqp.table import Buffer

METHODS: dict[int, type[Method]] = {
    method.INDEX: method
    for module in (connection, channel, access, exchange, queue, basic, confirm, tx)
    for method in vars(module).values()
    if isinstance(method, type) and issubclass(method, Method) and method.INDEX
}
"""By class and method id in one number, as on the wire."""


def decode_method(payload: Buffer) -> Method:
    if len(payload) < 4:
        raise AmqpError(ReplyCode.FRAME_ERROR, f"truncated method frame of {len(payload)} bytes")
    index = int.from_bytes(payload[:4], "big")
    cls = METHODS.get(index)
    if cls is None:
        text = f"unknown method {index & 0xFFFF} of class {index >> 16}"
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, text)
    return decode_arguments(cls, payload)
