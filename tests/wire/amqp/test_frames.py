"""Frames out of bytes: whole, in pieces, damaged, and the short cuts for the frequent ones."""

import struct
from collections.abc import Iterator
from typing import Any

import pamqp.body
import pamqp.commands
import pamqp.frame
import pamqp.header
import pika
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.wire.amqp import frames
from strom.wire.amqp.codec import encode_method, method_frame
from strom.wire.amqp.content import (
    BasicProperties,
    Content,
    ContentAssembly,
    encode_properties,
    write_content,
)
from strom.wire.amqp.delivering import ack_frame
from strom.wire.amqp.frames import (
    MAX_KNOWN_PUBLISHES,
    Acknowledgement,
    Frame,
    FrameReader,
    Publication,
)
from strom.wire.amqp.methods import METHODS, basic, decode_method, queue
from strom.wire.amqp.protocol import FRAME_MIN_SIZE, HEARTBEAT, AmqpError, ReplyCode
from tests.wire.amqp import values

SOME = encode_properties(BasicProperties("text/plain", delivery_mode=2))
FRAME_MAX = 4096


def frame(kind: int, channel: int, payload: bytes, mark: int = 0xCE) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes((mark,))


def published(channel: int, method: basic.Publish, properties: bytes, body: bytes) -> bytes:
    out: list[Any] = [method_frame(channel, method)]
    write_content(out, channel, properties, body, FRAME_MAX)
    return b"".join(out)


def items_of(data: bytes, reader: FrameReader | None = None) -> Iterator[Any]:
    """Each item, read when the one before has been dealt with."""
    reader = reader or FrameReader(FRAME_MAX)
    view, position = memoryview(data), 0
    while (item := reader.read(view, position, len(view))) is not None:
        assert item.end > position
        yield item
        position = item.end


def read_all(data: bytes, reader: FrameReader | None = None) -> tuple[list[Any], int]:
    """Every item, and how far the bytes were read."""
    items = list(items_of(data, reader))
    return items, items[-1].end if items else 0


class PlainReader(FrameReader):
    """Reads frame by frame, without the short cuts."""

    def read(self, buffer, position, filled):
        return self._frame(buffer, position, filled)


def meaning(data: bytes, reader: FrameReader | None = None) -> list[Any]:
    """What the frames say, however they are read; one assembly per channel, as a server has."""
    assemblies: dict[int, ContentAssembly[Any]] = {}
    said: list[Any] = []
    for item in items_of(data, reader):
        assembly = assemblies.setdefault(item.channel, ContentAssembly())
        said += said_by(item, assembly)
    return said


def outcome(data: bytes, reader: FrameReader) -> Any:
    try:
        return meaning(data, reader)
    except AmqpError as error:
        return error.code


def said_by(item, assembly: ContentAssembly[Any]) -> list[Any]:
    if isinstance(item, Publication):
        assembly.expect_method()
        return [(item.channel, Content(item.method, item.properties, item.body))]
    if isinstance(item, Acknowledgement):
        assembly.expect_method()
        return [(item.channel, basic.Ack(item.delivery_tag, item.multiple))]
    if item.type == 8:
        return [(item.channel, "heartbeat")]
    if item.type == 1:
        method = decode_method(item.payload)
        if not method.HAS_CONTENT:
            assembly.expect_method()
            return [(item.channel, method)]
        assembly.begin(method)
        return []
    done = assembly.add_header(item.payload) if item.type == 2 else assembly.add_body(item.payload)
    return [] if done is None else [(item.channel, done)]


@given(
    channel=st.integers(0, 65535),
    method=values.methods(basic.Publish),
    properties=values.properties.map(encode_properties),
    body=st.binary(max_size=200),
)
@settings(deadline=None)
def test_a_publish_with_all_of_its_content_is_read_at_once(channel, method, properties, body):
    data = published(channel, method, properties, body)
    items, end = read_all(data)
    assert items == [Publication(channel, method, properties, body, len(data))]
    assert end == len(data)


def test_a_publish_is_read_alike_at_once_and_frame_by_frame():
    data = published(2, basic.Publish(0, "x", "k", True), SOME, b"body")
    assert [type(item) for item in read_all(data)[0]] == [Publication]
    # A frame of another channel in between is allowed, and makes it unusual.
    first = 7 + struct.unpack(">I", data[3:7])[0] + 1
    mixed = data[:first] + ack_frame(1, 5) + data[first:]
    assert [type(item) for item in read_all(mixed)[0]] == [Frame, Acknowledgement, Frame, Frame]
    assert meaning(mixed) == [(1, basic.Ack(5)), *meaning(data)]


def test_a_body_in_several_frames_is_read_frame_by_frame():
    body = bytes(range(256)) * 40
    data = published(2, basic.Publish(0, "x", "k"), SOME, body)
    assert [type(item) for item in read_all(data)[0]] == [Frame] * 5
    assert meaning(data) == [(2, Content(basic.Publish(0, "x", "k"), SOME, body))]


USUAL = {
    "method_channel": 1,
    "header_channel": 1,
    "body_channel": 1,
    "header_type": 2,
    "body_type": 3,
    "class_id": 60,
    "weight": 0,
    "announced": 4,
    "properties": SOME,
    "body": b"body",
    "routing_key": "k",
}


def publication(**unusual: Any) -> bytes:
    """A publish with its content, of which anything may be wrong."""
    parts = {**USUAL, **unusual}
    header = struct.pack(">HHQ", parts["class_id"], parts["weight"], parts["announced"])
    method = basic.Publish(0, "x", parts["routing_key"])
    return b"".join(
        (
            frame(1, parts["method_channel"], encode_method(method)),
            frame(parts["header_type"], parts["header_channel"], header + parts["properties"]),
            frame(parts["body_type"], parts["body_channel"], parts["body"]),
        )
    )


@pytest.mark.parametrize(
    ("unusual", "code"),
    [
        ({"method_channel": 2}, ReplyCode.UNEXPECTED_FRAME),
        ({"header_channel": 2}, ReplyCode.UNEXPECTED_FRAME),
        ({"body_channel": 2}, ReplyCode.UNEXPECTED_FRAME),
        ({"header_type": 3}, ReplyCode.UNEXPECTED_FRAME),
        ({"body_type": 2}, ReplyCode.UNEXPECTED_FRAME),
        ({"class_id": 50}, ReplyCode.UNEXPECTED_FRAME),
        ({"weight": 1}, ReplyCode.UNEXPECTED_FRAME),
        ({"announced": 0}, ReplyCode.UNEXPECTED_FRAME),
        ({"announced": 3}, ReplyCode.FRAME_ERROR),
        ({"announced": 2**63}, ReplyCode.FRAME_ERROR),
        ({"properties": b""}, ReplyCode.FRAME_ERROR),
        ({"properties": b"x"}, ReplyCode.FRAME_ERROR),
        ({"properties": bytes(FRAME_MAX)}, ReplyCode.FRAME_ERROR),
        ({"body": bytes(FRAME_MAX + 1), "announced": FRAME_MAX + 1}, ReplyCode.FRAME_ERROR),
    ],
    ids=str,
)
def test_a_publish_with_something_wrong_is_refused_as_frame_by_frame(unusual, code):
    assert outcome(publication(**unusual), PlainReader(FRAME_MAX)) is code
    assert outcome(publication(**unusual), FrameReader(FRAME_MAX)) is code


def test_a_publish_method_that_is_too_large_is_refused():
    data = publication(routing_key="k" * 200)
    assert outcome(data, FrameReader(100)) is ReplyCode.FRAME_ERROR
    assert len(outcome(data, FrameReader(FRAME_MAX))) == 1


def test_more_of_a_body_may_be_announced_than_has_come():
    data = publication(announced=5)
    assert outcome(data, FrameReader(FRAME_MAX)) == []
    (said,) = outcome(data + frame(3, 1, b"!"), FrameReader(FRAME_MAX))
    assert said[1].body == b"body!"


@given(tag=st.integers(0, 2**64 - 1), channel=st.integers(0, 65535), multiple=st.booleans())
def test_an_acknowledgement_is_read_at_once(tag, channel, multiple):
    data = method_frame(channel, basic.Ack(tag, multiple))
    assert data == ack_frame(channel, tag, multiple)
    assert read_all(data)[0] == [Acknowledgement(channel, tag, multiple, 21)]


STREAM = b"".join(
    (
        HEARTBEAT,
        published(1, basic.Publish(0, "x", "k"), SOME, b"hello"),
        method_frame(1, queue.Declare(queue="q", arguments={"x-max-length": 5})),
        ack_frame(1, 9, multiple=True),
        published(2, basic.Publish(0, "", "q"), SOME, b""),
        published(3, basic.Publish(0, "x", "k"), SOME, b"b" * 5000),
        HEARTBEAT,
    )
)


def test_bytes_in_any_two_pieces_say_the_same():
    expected = meaning(STREAM)
    assert len(expected) == 7
    for cut in range(len(STREAM)):
        items, end = read_all(STREAM[:cut])
        assert end <= cut
        reader = FrameReader(FRAME_MAX)
        rest, _ = read_all(STREAM[end:], reader)
        assemblies: dict[int, ContentAssembly[Any]] = {}
        said: list[Any] = []
        for item in [*items, *rest]:
            said += said_by(item, assemblies.setdefault(item.channel, ContentAssembly()))
        assert said == expected


def meaning_in(capacity: int, data: bytes) -> list[Any]:
    """What the frames say when they are received into a buffer of so many bytes."""
    reader, assemblies = FrameReader(FRAME_MAX), dict[int, ContentAssembly[Any]]()
    said: list[Any] = []
    held = b""
    while data or held:
        count = capacity - len(held)
        held, data = held + data[:count], data[count:]
        view = memoryview(held)
        item = reader.read(view, 0, len(view))
        if item is None and len(view) == capacity:
            item = reader.read_part(view, 0, len(view))
        assert item is not None, f"no progress in {capacity} bytes"
        said += said_by(item, assemblies.setdefault(item.channel, ContentAssembly()))
        held = held[item.end :]
    return said


def test_a_body_that_is_larger_than_the_buffer_is_read_in_parts():
    expected = meaning(STREAM)
    for capacity in [*range(60, 300), 3999, *range(4000, 4010), 5007, 5008, 5009]:
        assert meaning_in(capacity, STREAM) == expected, capacity


@pytest.mark.parametrize("capacity", [60, 3000, 4095, 4096, 4097])
def test_a_body_in_parts_is_not_complete_before_its_end_mark(capacity):
    data = published(1, basic.Publish(0, "x", "k"), SOME, b"b" * 4000)
    with pytest.raises(AmqpError) as caught:
        meaning_in(capacity, data[:-1] + b"?")
    assert caught.value.code is ReplyCode.FRAME_ERROR


def test_only_bodies_are_read_in_parts():
    reader, data = FrameReader(FRAME_MAX), method_frame(1, queue.Declare(queue="q"))
    for size in range(len(data)):
        assert reader.read_part(memoryview(data), 0, size) is None


def test_stale_bytes_behind_the_received_ones_are_not_read():
    buffer = memoryview(STREAM)
    for filled in range(len(STREAM)):
        position, reader = 0, FrameReader(FRAME_MAX)
        while (item := reader.read(buffer, position, filled)) is not None:
            position = item.end
            assert position <= filled
        assert position + reader.wanted > filled, "a whole frame was there"


def test_the_bytes_wanted_are_those_of_the_whole_frame():
    data = method_frame(1, queue.Declare(queue="q"))
    reader = FrameReader(FRAME_MAX)
    assert reader.read(memoryview(data), 0, 6) is None
    assert reader.wanted == 7
    assert reader.read(memoryview(data), 0, 7) is None
    assert reader.wanted == len(data)
    assert reader.read(memoryview(data), 0, len(data)) is not None


def code_of(data: bytes, frame_max: int = FRAME_MAX) -> ReplyCode:
    with pytest.raises(AmqpError) as refused:
        read_all(data, FrameReader(frame_max))
    return refused.value.code


@pytest.mark.parametrize("kind", [0, 4, 5, 6, 7, 9, 65, 255])
def test_other_frame_types_are_a_frame_error(kind):
    assert code_of(frame(kind, 0, b"")) is ReplyCode.FRAME_ERROR


@pytest.mark.parametrize("mark", [0x00, 0xCD, 0xFF])
@pytest.mark.parametrize("place", range(4))
def test_a_frame_without_its_end_is_a_frame_error(mark, place):
    data = bytearray(published(1, basic.Publish(0, "x", "k"), SOME, b"body") + ack_frame(1, 1))
    ends, position = [], 0
    while position < len(data):
        position += 8 + struct.unpack_from(">I", data, position + 3)[0]
        ends.append(position - 1)
    data[ends[place]] = mark
    assert code_of(bytes(data)) is ReplyCode.FRAME_ERROR


def test_a_heartbeat_is_empty_and_for_the_connection():
    assert read_all(HEARTBEAT)[0][0].type == 8
    assert code_of(frame(8, 0, b"x")) is ReplyCode.FRAME_ERROR
    assert code_of(frame(8, 1, b"")) is ReplyCode.UNEXPECTED_FRAME


@pytest.mark.parametrize("size", [FRAME_MIN_SIZE + 1, 2**31, 2**32 - 1])
def test_a_frame_that_is_too_large_is_refused_before_it_has_come(size):
    for kind in (1, 2, 3, 8):
        head = struct.pack(">BHI", kind, 1, size)
        assert code_of(head, FRAME_MIN_SIZE) is ReplyCode.FRAME_ERROR
        assert code_of(head + basic.Publish.INDEX.to_bytes(4, "big")) is ReplyCode.FRAME_ERROR
    assert read_all(frame(3, 1, bytes(FRAME_MIN_SIZE)), FrameReader())[0]


def test_a_publish_with_too_large_parts_is_left_to_the_frames():
    big = encode_properties(BasicProperties(headers={"k": "v" * 5000}))
    assert code_of(published(1, basic.Publish(0, "x", "k"), big, b"body")) is ReplyCode.FRAME_ERROR
    limited = FrameReader(FRAME_MAX, max_body=3)
    data = published(1, basic.Publish(0, "x", "k"), SOME, b"body")
    assert isinstance(read_all(data, limited)[0][0], Frame)


def test_a_malformed_publish_is_a_syntax_error():
    out: list[Any] = [frame(1, 1, basic.Publish.INDEX.to_bytes(4, "big") + b"\x00\x00\xff")]
    write_content(out, 1, SOME, b"body", FRAME_MAX)
    assert code_of(b"".join(out)) is ReplyCode.SYNTAX_ERROR


def test_all_readers_together_remember_only_so_many_publishes():
    reader = FrameReader(FRAME_MAX)
    for number in range(MAX_KNOWN_PUBLISHES * 2 + 5):
        data = published(1, basic.Publish(0, "x", f"k{number}"), SOME, b"")
        assert read_all(data, reader)[0][0].method.routing_key == f"k{number}"
    assert len(frames._known_publishes) <= MAX_KNOWN_PUBLISHES


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_flipped_bits_are_read_alike_with_and_without_short_cuts(data):
    damaged = bytearray(STREAM)
    for place in data.draw(st.lists(st.integers(0, len(STREAM) * 8 - 1), min_size=1, max_size=3)):
        damaged[place // 8] ^= 1 << place % 8
    expected = outcome(bytes(damaged), PlainReader(FRAME_MAX))
    assert outcome(bytes(damaged), FrameReader(FRAME_MAX)) == expected


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 1, 1, 2, 3, 8]),
            st.integers(0, 2),
            st.sampled_from([b"", *(i.to_bytes(4, "big") for i in METHODS), b"\x00\x3c\x00\x00"]),
            st.binary(max_size=40),
        ),
        max_size=6,
    )
)
@settings(max_examples=300, deadline=None)
def test_random_frames_are_read_alike_with_and_without_short_cuts(frames):
    data = b"".join(frame(kind, channel, start + rest) for kind, channel, start, rest in frames)
    expected = outcome(data, PlainReader(FRAME_MAX))
    assert repr(outcome(data, FrameReader(FRAME_MAX))) == repr(expected)


@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(data):
    try:
        read_all(data)
    except AmqpError as error:
        assert error.code is not ReplyCode.INTERNAL_ERROR  # noqa: PT017 - it may well be read


def test_what_pamqp_writes_is_read():
    properties = pamqp.commands.Basic.Properties(content_type="text/plain", delivery_mode=2)
    data = b"".join(
        (
            pamqp.frame.marshal(pamqp.commands.Basic.Publish(0, "x", "k"), 4),
            pamqp.frame.marshal(pamqp.header.ContentHeader(0, 4, properties), 4),
            pamqp.frame.marshal(pamqp.body.ContentBody(b"body"), 4),
        )
    )
    assert meaning(data) == [(4, Content(basic.Publish(0, "x", "k"), SOME, b"body"))]


def test_what_pika_writes_is_read():
    properties = pika.BasicProperties(content_type="text/plain", delivery_mode=2)
    data = b"".join(
        (
            pika.frame.Method(4, pika.spec.Basic.Publish(0, "x", "k", True)).marshal(),
            pika.frame.Header(4, 4, properties).marshal(),
            pika.frame.Body(4, b"body").marshal(),
            pika.frame.Heartbeat().marshal(),
        )
    )
    publish = basic.Publish(0, "x", "k", mandatory=True)
    assert meaning(data) == [(4, Content(publish, SOME, b"body")), (0, "heartbeat")]
