"""Frames from received bytes, with hand-written fast paths for the most frequent ones.

The reader gets a buffer with the range that is filled, and returns one item at a time:

- `Publication`: a basic.publish with its content, if all three frames are in the buffer;
- `Acknowledgement`: a basic.ack;
- `Frame`: any other frame, also a publish whose content is incomplete.

A body frame that is larger than the buffer is read in parts, if the caller asks for them.

The caller must still check that the channel is open and, for the first two, that the channel is not in
the middle of another content (`ContentAssembly.expect_method`).
"""

import struct
from typing import NamedTuple

from strom.wire.amqp.codec import decode_arguments
from strom.wire.amqp.methods.basic import Ack, Publish
from strom.wire.amqp.protocol import (
    BASIC_CLASS,
    BODY_FRAME,
    FRAME_END,
    FRAME_HEAD_BYTES,
    FRAME_MIN_SIZE,
    FRAME_OVERHEAD,
    HEADER_FRAME,
    HEARTBEAT_FRAME,
    METHOD_FRAME,
    AmqpError,
    ReplyCode,
)

MAX_KNOWN_PUBLISHES = 4096
"""How many distinct publish methods are cached, for all connections; most producers use few."""
MAX_KNOWN_PUBLISH_BYTES = 256

_FRAME_TYPES = frozenset({METHOD_FRAME, HEADER_FRAME, BODY_FRAME, HEARTBEAT_FRAME})
_PUBLISH_INDEX = Publish.INDEX
_ACK_INDEX = Ack.INDEX
_ACK_BYTES = 13
_known_publishes: dict[bytes, Publish] = {}
"""Of all readers: a cache of each would cost every connection hundreds of kilobytes."""

_HEAD = struct.Struct(">BHI")
_METHOD_HEAD = struct.Struct(">BHII")
_ACK_ARGUMENTS = struct.Struct(">QBB")
# With the end mark of the method frame before it.
_END_AND_HEADER = struct.Struct(">BBHIHHQ")


class Frame(NamedTuple):
    """A frame of any type, or a part of a body; the payload is valid until the buffer is reused."""

    type: int
    channel: int
    payload: memoryview
    end: int
    """The position after it."""


class Publication(NamedTuple):
    """A published message, copied out of the buffer; the properties are not validated yet."""

    channel: int
    method: Publish
    properties: bytes
    body: bytes
    end: int


class Acknowledgement(NamedTuple):
    channel: int
    delivery_tag: int
    multiple: bool
    end: int


class FrameReader:
    def __init__(self, frame_max: int = FRAME_MIN_SIZE, max_body: int | None = None) -> None:
        self.frame_max = frame_max
        """The negotiated frame_max; to be set after connection.tune-ok, never to 0."""
        self.max_body = max_body
        """A larger body goes to the content assembly, which rejects it."""
        self.wanted = FRAME_HEAD_BYTES
        """How many bytes `read` needs to continue, after it found no complete frame."""
        self._channel = 0
        self._rest = 0
        """Of the body frame of this channel, whose first part was read: how many bytes are to come."""

    def read(
        self, buffer: memoryview, position: int, filled: int
    ) -> Publication | Acknowledgement | Frame | None:
        """The next item at a position of a buffer that ends at `filled`; None if it is incomplete."""
        if self._rest:
            return self._last_part(buffer, position, filled)
        available = filled - position
        if available >= FRAME_HEAD_BYTES + 4:
            kind, channel, size, index = _METHOD_HEAD.unpack_from(buffer, position)
            if kind == METHOD_FRAME:
                if index == _PUBLISH_INDEX:
                    publication = self._publication(buffer, position, filled, channel, size)
                    if publication is not None:
                        return publication
                elif index == _ACK_INDEX and size == _ACK_BYTES and available >= 21:
                    tag, bits, mark = _ACK_ARGUMENTS.unpack_from(buffer, position + 11)
                    if mark == FRAME_END:
                        return Acknowledgement(channel, tag, bits & 1 == 1, position + 21)
        return self._frame(buffer, position, filled)

    def read_part(self, buffer: memoryview, position: int, filled: int) -> Frame | None:
        """What there is of a body frame that `read` found incomplete; None if it is no body frame.

        The last byte of the body is left for `read`: until the frame's end is there, the body must not
        be complete.
        """
        if not self._rest:
            if filled - position <= FRAME_HEAD_BYTES:
                return None
            kind, self._channel, size = _HEAD.unpack_from(buffer, position)
            if kind != BODY_FRAME:
                return None
            position += FRAME_HEAD_BYTES
            self._rest = size
        part = min(filled - position, self._rest - 1)
        self._rest -= part
        end = position + part
        return Frame(BODY_FRAME, self._channel, buffer[position:end], end) if part > 0 else None

    def _last_part(self, buffer: memoryview, position: int, filled: int) -> Frame | None:
        end = position + self._rest
        if end >= filled:
            self.wanted = self._rest + 1
            return None
        _check_end(buffer[end])
        self._rest = 0
        return Frame(BODY_FRAME, self._channel, buffer[position:end], end + 1)

    def _publication(
        self, buffer: memoryview, position: int, filled: int, channel: int, size: int
    ) -> Publication | None:
        """A publish followed by its header and a single body frame; None in any other case.

        Then the frames are read one by one, and an error is detected and reported there.
        """
        frame_max = self.frame_max
        method_end = position + 7 + size
        if size > frame_max or method_end + 20 > filled:
            return None
        mark, kind, header_channel, header_size, class_id, weight, body_size = (
            _END_AND_HEADER.unpack_from(buffer, method_end)
        )
        header_end = method_end + 8 + header_size
        if (
            mark != FRAME_END
            or kind != HEADER_FRAME
            or header_channel != channel
            or class_id != BASIC_CLASS
            or weight
            or not 14 <= header_size <= frame_max
            or header_end >= filled
            or buffer[header_end] != FRAME_END
            or (self.max_body is not None and body_size > self.max_body)
        ):
            return None
        properties = bytes(buffer[method_end + 20 : header_end])
        if not body_size:
            method = _decode_publish(buffer[position + 7 : method_end])
            return Publication(channel, method, properties, b"", header_end + 1)
        if header_end + 8 > filled:
            return None
        kind, body_channel, size = _HEAD.unpack_from(buffer, header_end + 1)
        body_start = header_end + 8
        body_end = body_start + size
        if (
            kind != BODY_FRAME
            or body_channel != channel
            or size != body_size
            or size > frame_max
            or body_end >= filled
            or buffer[body_end] != FRAME_END
        ):
            return None
        method = _decode_publish(buffer[position + 7 : method_end])
        body = bytes(buffer[body_start:body_end])
        return Publication(channel, method, properties, body, body_end + 1)

    def _frame(self, buffer: memoryview, position: int, filled: int) -> Frame | None:
        if filled - position < FRAME_HEAD_BYTES:
            self.wanted = FRAME_HEAD_BYTES
            return None
        kind, channel, size = _HEAD.unpack_from(buffer, position)
        if kind not in _FRAME_TYPES:
            raise AmqpError(ReplyCode.FRAME_ERROR, f"unknown frame type {kind}")
        # The specification counts the frame with its overhead; RabbitMQ counts the payload only, and
        # some clients rely on that.
        if size > self.frame_max:
            text = f"frame of {size} bytes exceeds frame_max {self.frame_max}"
            raise AmqpError(ReplyCode.FRAME_ERROR, text)
        start = position + FRAME_HEAD_BYTES
        end = start + size
        if end >= filled:
            self.wanted = size + FRAME_OVERHEAD
            return None
        _check_end(buffer[end])
        if kind == HEARTBEAT_FRAME:
            _check_heartbeat(channel, size)
        return Frame(kind, channel, buffer[start:end], end + 1)


def _decode_publish(payload: memoryview) -> Publish:
    """The method, mostly from the cache."""
    key = bytes(payload)
    known = _known_publishes.get(key)  # faster than an LRU cache
    if known is not None:
        return known
    method = decode_arguments(Publish, key)
    if len(key) <= MAX_KNOWN_PUBLISH_BYTES:
        if len(_known_publishes) >= MAX_KNOWN_PUBLISHES:
            _known_publishes.clear()
        _known_publishes[key] = method
    return method


def _check_end(mark: int) -> None:
    if mark != FRAME_END:
        raise AmqpError(
            ReplyCode.FRAME_ERROR, f"frame ends with {mark:#04x} instead of {FRAME_END:#04x}"
        )


def _check_heartbeat(channel: int, size: int) -> None:
    if size:
        raise AmqpError(ReplyCode.FRAME_ERROR, f"heartbeat with a payload of {size} bytes")
    if channel:
        raise AmqpError(ReplyCode.UNEXPECTED_FRAME, f"heartbeat on channel {channel}")
