"""Contents: properties, and bodies in frames."""

from datetime import UTC, datetime
from typing import Any

import pamqp.commands
import pika
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.wire.amqp.content import (
    NO_PROPERTIES,
    BasicProperties,
    ContentAssembly,
    ContentHeader,
    decode_header,
    decode_properties,
    encode_header,
    encode_properties,
    join_properties,
    split_properties,
    write_content,
)
from strom.wire.amqp.frames import Frame, FrameReader
from strom.wire.amqp.protocol import MAX_BODY_BYTES, AmqpError, ReplyCode
from strom.wire.amqp.table import change_table
from tests.wire.amqp import values

FULL = BasicProperties(
    "text/plain", "utf-8", {"a": [1]}, 2, 9, "corr", "reply", "1000", "id", 7, "t", "u", "app", "c"
)


# Properties


@given(values.properties)
@settings(deadline=None)
def test_properties_are_read_as_they_were_written(properties):
    raw = encode_properties(properties)
    assert decode_properties(raw) == properties
    assert join_properties(split_properties(raw)) == raw


def test_many_properties_are_read_like_few():
    long = FULL._replace(message_id="m" * 255, reply_to="r" * 255)
    assert decode_properties(encode_properties(long)) == long


@given(values.properties)
@settings(deadline=None)
def test_pamqp_writes_the_same_bytes(properties):
    # It leaves out texts that are empty, and times after 2106 are milliseconds to it.
    plain = properties._replace(
        headers={"b": "text", "c": [None, True]} if properties.headers else None,
        timestamp=None if properties.timestamp is None else properties.timestamp % 2**32,
    )
    plain = BasicProperties._make(None if value == "" else value for value in plain)
    theirs = pamqp.commands.Basic.Properties()
    for name, value in zip(theirs.__slots__, plain, strict=True):
        setattr(theirs, name, value)
    if plain.timestamp is not None:
        theirs.timestamp = datetime.fromtimestamp(plain.timestamp, UTC)
    assert encode_properties(plain) == theirs.marshal()


@given(values.properties)
@settings(deadline=None)
def test_pikas_properties_are_read(properties):
    plain = properties._replace(headers={"b": "text", "n": 5} if properties.headers else None)
    theirs = pika.BasicProperties(**plain._asdict())
    assert decode_properties(b"".join(theirs.encode())) == plain


def test_properties_that_are_cut_anywhere_are_refused():
    raw = encode_properties(FULL)
    for size in range(len(raw)):
        for read in (decode_properties, split_properties):
            with pytest.raises(AmqpError) as refused:
                read(raw[:size])
            assert refused.value.code is ReplyCode.SYNTAX_ERROR


@pytest.mark.parametrize(
    "raw", [NO_PROPERTIES + b"\x00", b"\x00\x01", b"\x00\x02", b"\x00\x01\x00\x00"]
)
def test_more_than_is_known_is_refused(raw):
    for read in (decode_properties, split_properties):
        with pytest.raises(AmqpError) as refused:
            read(raw)
        assert refused.value.code is ReplyCode.SYNTAX_ERROR


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_random_bytes_give_properties_or_an_error(raw):
    try:
        properties = decode_properties(raw)
    except AmqpError as error:
        assert error.code is ReplyCode.SYNTAX_ERROR  # noqa: PT017 - they may well be read
        return
    # Not by equality: a number that is none is not equal to itself.
    assert repr(decode_properties(encode_properties(properties))) == repr(properties)


def test_a_property_is_changed_and_the_others_kept_byte_for_byte():
    raw = join_properties(
        {"headers": b"\x00\x00\x00\x04\x01nb\x05", "expiration": b"\x0510000", "user_id": b"\x01u"}
    )
    fields = split_properties(raw)
    del fields["expiration"]
    fields["headers"] = change_table(fields["headers"], {"x-first": True})
    changed = join_properties(fields)
    assert changed.startswith(b"\x20\x10\x00\x00\x00\x0e\x01nb\x05")
    assert decode_properties(changed) == BasicProperties(
        headers={"n": 5, "x-first": True}, user_id="u"
    )


@pytest.mark.parametrize(
    "properties",
    [
        BasicProperties(delivery_mode=256),
        BasicProperties(timestamp=-1),
        BasicProperties(app_id="a" * 256),
        BasicProperties(app_id=5),  # type: ignore[arg-type]
    ],
)
def test_a_property_that_does_not_fit_is_not_written(properties):
    with pytest.raises(AmqpError) as refused:
        encode_properties(properties)
    assert refused.value.code is ReplyCode.INTERNAL_ERROR


def test_the_bytes_of_the_specification():
    raw = bytes.fromhex("9000 0a 746578742f706c61696e 02")
    assert encode_properties(BasicProperties("text/plain", delivery_mode=2)) == raw
    header = bytes.fromhex("003c 0000 0000000000000005") + raw
    assert encode_header(ContentHeader(5, raw)) == header
    assert decode_header(header) == (5, raw)


# Bodies


def frames_of(channel, properties, body, frame_max) -> list[Frame]:
    out: list[Any] = []
    write_content(out, channel, properties, body, frame_max)
    data = memoryview(b"".join(out))
    reader = FrameReader(max(frame_max, len(data)))
    frames, position = [], 0
    while position < len(data):
        frame = reader.read(data, position, len(data))
        assert isinstance(frame, Frame)
        frames.append(frame)
        position = frame.end
    return frames


@given(
    body=st.binary(max_size=600),
    frame_max=st.sampled_from([0, 9, 30, 100, 4096]),
    properties=values.properties.map(encode_properties),
)
@settings(deadline=None)
def test_a_body_is_split_and_put_together_again(body, frame_max, properties):
    frames = frames_of(7, properties, body, frame_max)
    assert all(frame.channel == 7 for frame in frames)
    if frame_max:
        assert all(len(frame.payload) + 8 <= frame_max for frame in frames[1:])
    assembly: ContentAssembly[str] = ContentAssembly()
    assembly.begin("method")
    done = assembly.add_header(frames[0].payload)
    for frame in frames[1:]:
        assert done is None
        done = assembly.add_body(frame.payload)
    assert done == ("method", properties, body)
    assert assembly.is_idle
    assert not assembly.body_size


def begun(size: int) -> ContentAssembly[str]:
    assembly: ContentAssembly[str] = ContentAssembly()
    assembly.begin("method")
    assert assembly.add_header(encode_header(ContentHeader(size, NO_PROPERTIES))) is None
    return assembly


def code_of(work) -> ReplyCode:
    with pytest.raises(AmqpError) as refused:
        work()
    return refused.value.code


@pytest.mark.parametrize(
    "pieces", [[b"123456"], [b"12345", b"6"], [b"1", b"23456"], [b"", b"1" * 9]]
)
def test_a_body_may_not_be_longer_than_announced(pieces):
    def add_all():
        assembly = begun(5)
        for piece in pieces:
            if assembly.add_body(piece) is not None:
                assembly.add_body(b"more")

    assert code_of(add_all) in {ReplyCode.FRAME_ERROR, ReplyCode.UNEXPECTED_FRAME}


def test_an_overlong_body_is_a_frame_error_and_one_after_the_end_is_unexpected():
    assert code_of(lambda: begun(5).add_body(b"123456")) is ReplyCode.FRAME_ERROR
    complete = begun(1)
    assert complete.add_body(b"1") == ("method", NO_PROPERTIES, b"1")
    assert code_of(lambda: complete.add_body(b"2")) is ReplyCode.UNEXPECTED_FRAME


def test_frames_out_of_order_are_unexpected():
    header = encode_header(ContentHeader(5, NO_PROPERTIES))
    idle: ContentAssembly[str] = ContentAssembly()
    waiting: ContentAssembly[str] = ContentAssembly()
    waiting.begin("method")
    for work in (
        lambda: idle.add_header(header),
        lambda: idle.add_body(b"1"),
        lambda: waiting.begin("another"),
        lambda: waiting.expect_method(),
        lambda: waiting.add_body(b"1"),
        lambda: begun(5).add_header(header),
        lambda: begun(5).begin("another"),
    ):
        assert code_of(work) is ReplyCode.UNEXPECTED_FRAME
    idle.expect_method()


def test_an_abandoned_content_leaves_nothing():
    assembly = begun(5)
    assembly.add_body(b"123")
    assert assembly.body_size == 5
    assembly.abandon()
    assert assembly.is_idle
    assert not assembly.body_size
    assembly.begin("next")
    assembly.add_header(encode_header(ContentHeader(3, NO_PROPERTIES)))
    assert assembly.add_body(b"abc") == ("next", NO_PROPERTIES, b"abc")


@pytest.mark.parametrize("size", [2**64 - 1, 2**63, MAX_BODY_BYTES + 1])
def test_no_body_is_larger_than_the_protocol_allows(size):
    assert code_of(lambda: begun(size)) is ReplyCode.FRAME_ERROR


def test_a_body_larger_than_the_setting_ends_only_the_channel():
    assembly: ContentAssembly[str] = ContentAssembly(max_body=10)
    assembly.begin("method")
    header = encode_header(ContentHeader(11, NO_PROPERTIES))
    code = code_of(lambda: assembly.add_header(header))
    assert code is ReplyCode.PRECONDITION_FAILED
    assert code.closes.name == "CHANNEL"


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ("003c 0000 0000000000000005", ReplyCode.FRAME_ERROR),
        ("", ReplyCode.FRAME_ERROR),
        ("0032 0000 0000000000000005 0000", ReplyCode.UNEXPECTED_FRAME),
        ("003c 0001 0000000000000005 0000", ReplyCode.UNEXPECTED_FRAME),
    ],
)
def test_a_header_that_is_none_is_refused(payload, code):
    assert code_of(lambda: decode_header(bytes.fromhex(payload))) is code


def test_bodies_of_single_bytes_take_no_more_memory_than_the_body():
    assembly = begun(100_000)
    for _ in range(99_999):
        assembly.add_body(b"x")
        assembly.add_body(b"")
    assert len(assembly._body) == 99_999
    assert assembly.add_body(b"x").body == b"x" * 100_000


def test_pikas_content_is_read():
    properties = pika.BasicProperties(content_type="a/b", delivery_mode=2, headers={"n": 1})
    body = b"hello"
    header = pika.frame.Header(3, len(body), properties).marshal()
    data = memoryview(header + pika.frame.Body(3, body).marshal())
    reader = FrameReader()
    first = reader.read(data, 0, len(data))
    assert isinstance(first, Frame)
    second = reader.read(data, first.end, len(data))
    assert isinstance(second, Frame)
    assembly: ContentAssembly[str] = ContentAssembly()
    assembly.begin("method")
    assert assembly.add_header(first.payload) is None
    content = assembly.add_body(second.payload)
    assert content.body == body
    assert decode_properties(content.properties) == BasicProperties(
        content_type="a/b", delivery_mode=2, headers={"n": 1}
    )
