"""The content of a method: a header frame with the properties, then the body in frames.

The properties stay encoded, so that a message is delivered without encoding them again;
`decode_properties` decodes them on demand.
"""

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from strom.model.tables import Table
from strom.wire.amqp.protocol import (
    BASIC_CLASS,
    BODY_FRAME,
    FRAME_END,
    FRAME_OVERHEAD,
    HEADER_FRAME,
    MAX_BODY_BYTES,
    AmqpError,
    ReplyCode,
)
from strom.wire.amqp.table import Buffer, decode_table, encode_table, short_string

NO_PROPERTIES = b"\x00\x00"
HEADER_FIXED_BYTES = 12
"""Class, weight and body size; the properties follow."""
CACHED_PROPERTIES_BYTES = 128

_HEADER = struct.Struct(">HHQ")
_HEADER_FRAME = struct.Struct(">BHIHHQ")
_BODY_FRAME = struct.Struct(">BHI")
_UINT16 = struct.Struct(">H")
_UINT64 = struct.Struct(">Q")
_END = bytes((FRAME_END,))

M = TypeVar("M")


class BasicProperties(NamedTuple):
    """The properties of a message; None if absent. The headers are cached and must not be modified."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    """Seconds since 1970."""
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


_KINDS = {"headers": "table", "delivery_mode": "octet", "priority": "octet", "timestamp": "uint64"}
_FLAGS = {name: 1 << 15 - place for place, name in enumerate(BasicProperties._fields)}
_KNOWN_FLAGS = sum(_FLAGS.values())


@lru_cache(maxsize=256)
def _layout(flags: int) -> tuple[tuple[int, str, str], ...]:
    """The properties that are present: index, name and type of each."""
    return tuple(
        (place, name, _KINDS.get(name, "shortstr"))
        for place, name in enumerate(BasicProperties._fields)
        if flags & _FLAGS[name]
    )


def decode_properties(raw: bytes) -> BasicProperties:
    """Decode the properties; cached, because those of one producer are mostly the same."""
    if len(raw) <= CACHED_PROPERTIES_BYTES:
        return _decode_cached(raw)
    return _decode_properties(raw)


def _decode_properties(raw: bytes) -> BasicProperties:
    values: list[Any] = [None] * len(BasicProperties._fields)
    for place, _, value, _ in _decode_fields(raw):
        values[place] = value
    return BasicProperties._make(values)


def _decode_fields(raw: bytes) -> Iterator[tuple[int, str, Any, bytes]]:
    """The properties that are present: index, name, value and encoded bytes of each."""
    position = 2
    try:
        for place, name, kind in _layout(_flags(raw)):
            start = position
            value, position = _decode_property(raw, start, kind)
            yield place, name, value, raw[start:position]
    except (IndexError, struct.error):
        raise _malformed("truncated") from None
    if position != len(raw):
        raise _malformed(f"{position} bytes in a payload of {len(raw)}")


_decode_cached = lru_cache(maxsize=1024)(_decode_properties)


def _flags(raw: bytes) -> int:
    (flags,) = _UINT16.unpack_from(raw)
    if flags & ~_KNOWN_FLAGS:
        raise _malformed("unknown property flags")
    return int(flags)


def _decode_property(raw: bytes, position: int, kind: str) -> tuple[Any, int]:
    if kind == "shortstr":
        # A truncated slice is detected at the end: the position then exceeds the payload.
        start = position + 1
        end = start + raw[position]
        return raw[start:end].decode("utf-8", "surrogateescape"), end
    if kind == "octet":
        return raw[position], position + 1
    if kind == "table":
        return decode_table(raw, position)
    return _UINT64.unpack_from(raw, position)[0], position + 8


def _malformed(what: str) -> AmqpError:
    return AmqpError(ReplyCode.SYNTAX_ERROR, f"malformed properties: {what}")


def encode_properties(properties: BasicProperties) -> bytes:
    """The bytes of the properties, preceded by the flags of those that are present."""
    fields = {
        name: _encode_property(value, _KINDS.get(name, "shortstr"))
        for name, value in zip(BasicProperties._fields, properties, strict=True)
        if value is not None
    }
    return join_properties(fields)


def _encode_property(value: Any, kind: str) -> bytes:
    try:
        if kind == "shortstr":
            return short_string(value)
        if kind == "octet":
            return bytes((value,))
        if kind == "table":
            return encode_table(value)
        return _UINT64.pack(value)
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        text = f"property cannot be encoded: {error}"
        raise AmqpError(ReplyCode.INTERNAL_ERROR, text) from error


def split_properties(raw: bytes) -> dict[str, bytes]:
    """The encoded bytes of each property, to change some and keep the others byte for byte."""
    return {name: encoded for _, name, _, encoded in _decode_fields(raw)}


def join_properties(fields: Mapping[str, bytes]) -> bytes:
    """The inverse of `split_properties`."""
    flags = sum(_FLAGS[name] for name in fields)
    values = [fields[name] for name in BasicProperties._fields if name in fields]
    return b"".join((_UINT16.pack(flags), *values))


class ContentHeader(NamedTuple):
    """A content header: the size of the body, and the encoded properties."""

    body_size: int
    properties: bytes


def decode_header(payload: Buffer) -> ContentHeader:
    """Decode the payload of a header frame; the properties stay encoded."""
    if len(payload) < HEADER_FIXED_BYTES + 2:
        raise AmqpError(ReplyCode.FRAME_ERROR, f"truncated content header of {len(payload)} bytes")
    class_id, weight, body_size = _HEADER.unpack_from(payload)
    if class_id != BASIC_CLASS or weight:
        text = f"content header for class {class_id} with weight {weight}"
        raise AmqpError(ReplyCode.UNEXPECTED_FRAME, text)
    return ContentHeader(body_size, bytes(payload[HEADER_FIXED_BYTES:]))


def encode_header(header: ContentHeader) -> bytes:
    """The payload of a header frame."""
    return _HEADER.pack(BASIC_CLASS, 0, header.body_size) + header.properties


def write_content(
    out: list[Buffer], channel: int, properties: bytes, body: Buffer, frame_max: int
) -> None:
    """Append the frames of a content; the body is not copied. A `frame_max` of 0 means no limit."""
    size = len(body)
    header_size = HEADER_FIXED_BYTES + len(properties)
    head = _HEADER_FRAME.pack(HEADER_FRAME, channel, header_size, BASIC_CLASS, 0, size)
    out += (head, properties, _END)
    if not size:
        return
    room = frame_max - FRAME_OVERHEAD if frame_max else size
    if size <= room:
        out += (_BODY_FRAME.pack(BODY_FRAME, channel, size), body, _END)
        return
    view = memoryview(body)
    for start in range(0, size, room):
        piece = view[start : start + room]
        out += (_BODY_FRAME.pack(BODY_FRAME, channel, len(piece)), piece, _END)


class Content(NamedTuple, Generic[M]):
    """A method together with all of its content."""

    method: M
    properties: bytes
    body: bytes


class ContentAssembly(Generic[M]):
    """Assembles the contents of one channel from frames, and holds only what has arrived.

    The body must not exceed the size in its header, and the frames must arrive in order.
    """

    __slots__ = ("_body", "_header", "_max_body", "_method")

    def __init__(self, max_body: int = MAX_BODY_BYTES) -> None:
        self._max_body = min(max_body, MAX_BODY_BYTES)
        self._method: M | None = None
        self._header: ContentHeader | None = None
        self._body = bytearray()

    @property
    def is_idle(self) -> bool:
        """Whether the next frame must be a method."""
        return self._method is None

    @property
    def body_size(self) -> int:
        """The size of the body that is being received; 0 if there is none."""
        return 0 if self._header is None else self._header.body_size

    def begin(self, method: M) -> None:
        """Handle a method with content; its header comes next."""
        self.expect_method()
        self._method = method

    def expect_method(self) -> None:
        """Reject a method in the middle of a content."""
        if self._method is not None:
            raise AmqpError(
                ReplyCode.UNEXPECTED_FRAME, f"unexpected method, expected {self._expected}"
            )

    def abandon(self) -> None:
        """Discard an incomplete content: the channel is being closed."""
        self._method = self._header = None
        self._body = bytearray()

    def add_header(self, payload: Buffer) -> Content[M] | None:
        """Handle a header frame; returns the content if it has no body."""
        method = self._method
        if method is None or self._header is not None:
            text = f"unexpected content header, expected {self._expected}"
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, text)
        header = decode_header(payload)
        if header.body_size > MAX_BODY_BYTES:
            text = (
                f"message of {header.body_size} bytes exceeds the limit of {MAX_BODY_BYTES} bytes"
            )
            raise AmqpError(ReplyCode.FRAME_ERROR, text)
        if header.body_size > self._max_body:
            text = f"message size {header.body_size} is larger than the limit of {self._max_body}"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, text)
        self._header = header
        return None if header.body_size else self._finish(method, header, b"")

    def add_body(self, payload: Buffer) -> Content[M] | None:
        """Handle a body frame; returns the content if it is complete."""
        method, header = self._method, self._header
        if method is None or header is None:
            text = f"unexpected content body, expected {self._expected}"
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, text)
        held = len(self._body) + len(payload)
        if held > header.body_size:
            text = (
                f"body of {held} bytes exceeds the {header.body_size} bytes of its content header"
            )
            raise AmqpError(ReplyCode.FRAME_ERROR, text)
        if held == len(payload) == header.body_size:
            return self._finish(method, header, bytes(payload))
        self._body += payload
        if held < header.body_size:
            return None
        return self._finish(method, header, bytes(self._body))

    @property
    def _expected(self) -> str:
        if self._method is None:
            return "a method"
        return "a content header" if self._header is None else "a content body"

    def _finish(self, method: M, header: ContentHeader, body: bytes) -> Content[M]:
        self.abandon()
        return Content(method, header.properties, body)
