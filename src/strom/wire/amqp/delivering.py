"""Hand-written encoders of the most frequent frames of a server: deliveries and acknowledgements."""

import struct

from strom.wire.amqp.content import HEADER_FIXED_BYTES, write_content
from strom.wire.amqp.methods.basic import Ack, Deliver
from strom.wire.amqp.protocol import (
    BASIC_CLASS,
    BODY_FRAME,
    FRAME_END,
    FRAME_OVERHEAD,
    HEADER_FRAME,
    METHOD_FRAME,
)
from strom.wire.amqp.table import Buffer, short_string

MAX_KNOWN_ROUTES = 1024
"""For how many pairs of exchange and routing key a writer caches the bytes around the delivery tag."""

_END = bytes((FRAME_END,))
_ACK = struct.Struct(">BHIIQBB")
_METHOD_HEAD = struct.Struct(">BHII")
_TAG = struct.Struct(">Q?")
_HEADER_HEAD = struct.Struct(">BHIHHQ")
_END_AND_BODY = struct.Struct(">BBHI")


def ack_frame(channel: int, delivery_tag: int, multiple: bool = False) -> bytes:
    return _ACK.pack(METHOD_FRAME, channel, 13, Ack.INDEX, delivery_tag, multiple, FRAME_END)


class DeliveryWriter:
    __slots__ = ("_channel", "_frame_max", "_known", "_tag")

    def __init__(self, channel: int, consumer_tag: str, frame_max: int) -> None:
        self._channel = channel
        self._tag = short_string(consumer_tag)
        self._frame_max = frame_max
        self._known: dict[tuple[str, str], tuple[bytes, bytes]] = {}

    def write(
        self,
        out: list[Buffer],
        delivery_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        properties: bytes,
        body: Buffer,
    ) -> None:
        """Append the frames of one delivery; the body is not copied."""
        around = self._known.get((exchange, routing_key))
        if around is None:
            around = self._learn(exchange, routing_key)
        before, after = around
        size = len(body)
        channel = self._channel
        if not 0 < size <= self._frame_max - FRAME_OVERHEAD:
            out += (before, _TAG.pack(delivery_tag, redelivered), after)
            write_content(out, channel, properties, body, self._frame_max)
            return
        header_size = HEADER_FIXED_BYTES + len(properties)
        out += (
            before,
            _TAG.pack(delivery_tag, redelivered),
            after,
            _HEADER_HEAD.pack(HEADER_FRAME, channel, header_size, BASIC_CLASS, 0, size),
            properties,
            _END_AND_BODY.pack(FRAME_END, BODY_FRAME, channel, size),
            body,
            _END,
        )

    def _learn(self, exchange: str, routing_key: str) -> tuple[bytes, bytes]:
        """The bytes before and after the delivery tag for this route."""
        route = short_string(exchange) + short_string(routing_key)
        size = 4 + len(self._tag) + _TAG.size + len(route)
        head = _METHOD_HEAD.pack(METHOD_FRAME, self._channel, size, Deliver.INDEX)
        around = head + self._tag, route + _END
        if len(self._known) >= MAX_KNOWN_ROUTES:
            self._known.clear()
        self._known[exchange, routing_key] = around
        return around
