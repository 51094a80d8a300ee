"""Deliveries by hand are the same as from the declaration, and other codecs read them."""

from typing import Any

import pika.frame
import pika.spec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.wire.amqp.codec import method_frame
from strom.wire.amqp.content import BasicProperties, encode_properties, write_content
from strom.wire.amqp.delivering import MAX_KNOWN_ROUTES, DeliveryWriter
from strom.wire.amqp.frames import Frame, FrameReader
from strom.wire.amqp.methods import basic
from strom.wire.amqp.protocol import AmqpError
from tests.wire.amqp import values


@given(
    deliver=values.methods(basic.Deliver),
    channel=st.integers(0, 65535),
    properties=values.properties.map(encode_properties),
    body=st.binary(max_size=300),
    frame_max=st.sampled_from([0, 20, 4096]),
)
@settings(deadline=None)
def test_a_delivery_is_the_method_and_its_content(deliver, channel, properties, body, frame_max):
    expected: list[Any] = [method_frame(channel, deliver)]
    write_content(expected, channel, properties, body, frame_max)
    writer = DeliveryWriter(channel, deliver.consumer_tag, frame_max)
    route = (deliver.exchange, deliver.routing_key)
    for _ in range(2):  # The second time the route is known.
        out: list[Any] = []
        writer.write(out, deliver.delivery_tag, deliver.redelivered, *route, properties, body)
        assert b"".join(out) == b"".join(expected)


@pytest.mark.parametrize(("size", "bodies"), [(0, 0), (1, 1), (4088, 1), (4089, 2), (8177, 3)])
def test_a_body_is_split_when_it_does_not_fit_one_frame(size, bodies):
    out: list[Any] = []
    DeliveryWriter(1, "c", 4096).write(out, 1, False, "x", "k", b"\x00\x00", bytes(size))
    data, reader, position, types = memoryview(b"".join(out)), FrameReader(), 0, []
    while position < len(data):
        frame = reader.read(data, position, len(data))
        assert isinstance(frame, Frame)
        assert frame.end - position <= 4096
        types.append(frame.type)
        position = frame.end
    assert types == [1, 2, *[3] * bodies]


def test_a_body_is_passed_on_uncopied():
    body = b"b" * 100
    out: list[Any] = []
    DeliveryWriter(1, "c", 4096).write(out, 1, False, "x", "k", b"\x00\x00", body)
    assert any(piece is body for piece in out)


def test_pika_reads_deliveries():
    properties = encode_properties(BasicProperties(headers={"n": 2**40}, message_id="m"))
    out: list[Any] = []
    writer = DeliveryWriter(5, "tag", 4096)
    writer.write(out, 1, False, "x", "k1", properties, b"one")
    writer.write(out, 2, True, "x", "k2", properties, b"two")
    data, frames = b"".join(out), []
    while data:
        used, frame = pika.frame.decode_frame(data)
        frames.append(frame)
        data = data[used:]
    assert [type(frame).__name__ for frame in frames] == ["Method", "Header", "Body"] * 2
    second = frames[3].method
    assert isinstance(second, pika.spec.Basic.Deliver)
    assert (second.consumer_tag, second.delivery_tag, second.redelivered) == ("tag", 2, True)
    assert (second.exchange, second.routing_key) == ("x", "k2")
    assert frames[4].properties.headers == {"n": 2**40}
    assert frames[4].properties.message_id == "m"
    assert frames[5].fragment == b"two"


def test_a_writer_remembers_only_so_many_routes():
    writer = DeliveryWriter(1, "c", 4096)
    for number in range(MAX_KNOWN_ROUTES * 2 + 5):
        writer.write([], number, False, "x", f"k{number}", b"\x00\x00", b"body")
    assert len(writer._known) <= MAX_KNOWN_ROUTES


def test_names_that_are_too_long_are_not_written():
    with pytest.raises(AmqpError):
        DeliveryWriter(1, "c" * 256, 4096)
    with pytest.raises(AmqpError):
        DeliveryWriter(1, "c", 4096).write([], 1, False, "x", "k" * 256, b"\x00\x00", b"")
