"""Methods to bytes and back: round trips, other codecs, and bytes that mean nothing."""

import inspect
from typing import Any

import pamqp.commands
import pika.spec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.wire.amqp.codec import encode_method, method_frame
from strom.wire.amqp.methods import METHODS, basic, connection, decode_method, exchange, queue
from strom.wire.amqp.protocol import AmqpError, ReplyCode
from strom.wire.amqp.schema import Kind, method_name
from tests.wire.amqp import foreign, values

ALL = list(METHODS.values())
REFUSALS = {ReplyCode.FRAME_ERROR, ReplyCode.SYNTAX_ERROR, ReplyCode.NOT_IMPLEMENTED}


@pytest.mark.parametrize("cls", ALL, ids=method_name)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_method_is_read_as_it_was_written(cls, data):
    method = data.draw(values.methods(cls))
    assert decode_method(encode_method(method)) == method


@pytest.mark.parametrize("cls", ALL, ids=method_name)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_pika_writes_the_same_bytes(cls, data):
    method = data.draw(values.methods(cls, plain=True).filter(foreign.pika_agrees))
    assert encode_method(method) == foreign.encoded_by_pika(method)


@pytest.mark.parametrize("cls", [c for c in ALL if c.CLASS_ID != 30], ids=method_name)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_pamqp_writes_the_same_bytes(cls, data):
    method = data.draw(values.methods(cls, plain=True)) if cls.FIELDS else cls()
    assert encode_method(foreign.in_order(method)) == foreign.encoded_by_pamqp(method)


def test_every_method_of_pika_and_pamqp_is_there():
    assert set(METHODS) == set(pika.spec.methods)
    assert set(METHODS) > set(pamqp.commands.INDEX_MAPPING)


def test_the_same_methods_have_content_as_in_pika():
    assert {i for i, c in METHODS.items() if c.HAS_CONTENT} == {
        index for index in METHODS if pika.spec.has_content(index)
    }


@pytest.mark.parametrize("cls", ALL, ids=method_name)
def test_a_method_that_is_cut_anywhere_is_refused(cls):
    whole = encode_method(filled(cls))
    assert decode_method(whole) == filled(cls)
    for size in range(len(whole)):
        with pytest.raises(AmqpError) as refused:
            decode_method(whole[:size])
        assert refused.value.code in {ReplyCode.FRAME_ERROR, ReplyCode.SYNTAX_ERROR}


@pytest.mark.parametrize("cls", ALL, ids=method_name)
def test_bytes_after_a_method_are_refused(cls):
    with pytest.raises(AmqpError) as refused:
        decode_method(encode_method(filled(cls)) + b"\x00")
    assert refused.value.code is ReplyCode.SYNTAX_ERROR


@pytest.mark.parametrize("cls", [c for c in ALL if c.FIELDS], ids=method_name)
def test_a_flipped_bit_gives_another_method_or_an_error(cls):
    whole = encode_method(filled(cls))
    for place in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        try:
            decode_method(damaged)
        except AmqpError as error:
            assert error.code in REFUSALS  # noqa: PT017 - it may well be read


@given(index=st.sampled_from(sorted(METHODS)), arguments=st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_random_arguments_give_a_method_or_an_error(index, arguments):
    try:
        method = decode_method(index.to_bytes(4, "big") + arguments)
    except AmqpError as error:
        assert error.code in REFUSALS  # noqa: PT017 - it may well be read
        return
    # Not by equality: a number that is none is not equal to itself.
    assert repr(decode_method(encode_method(method))) == repr(method)


def test_an_unknown_method_is_not_implemented():
    with pytest.raises(AmqpError, match="unknown method 99 of class 60") as refused:
        decode_method(b"\x00\x3c\x00\x63")
    assert refused.value.code is ReplyCode.NOT_IMPLEMENTED


def test_a_name_that_is_not_utf_8_is_a_frame_error():
    with pytest.raises(AmqpError) as refused:
        decode_method(bytes.fromhex("0032000a 0000 02 c328 00 00000000"))
    assert refused.value.code is ReplyCode.FRAME_ERROR


def test_a_name_that_is_too_long_is_not_written():
    with pytest.raises(AmqpError) as refused:
        encode_method(queue.Declare(queue="ü" * 128))
    assert refused.value.code is ReplyCode.INTERNAL_ERROR


@pytest.mark.parametrize(
    "method",
    [
        basic.Ack(delivery_tag=-1),
        basic.Ack(delivery_tag=2**64),
        basic.Qos(prefetch_count="many"),  # type: ignore[arg-type]
        queue.Declare(queue=None),
        connection.Secure(challenge=None),
    ],
    ids=repr,
)
def test_a_value_that_does_not_fit_is_not_written(method):
    with pytest.raises(AmqpError) as refused:
        encode_method(method)
    assert refused.value.code is ReplyCode.INTERNAL_ERROR


# Worked out by hand from the grammar of the specification.
@pytest.mark.parametrize(
    ("method", "payload"),
    [
        (
            connection.Tune(channel_max=2047, frame_max=131072, heartbeat=60),
            "000a 001e 07ff 00020000 003c",
        ),
        (
            connection.StartOk({"product": "p"}, "PLAIN", b"\x00guest\x00guest", "en_US"),
            "000a 000b 0000000e 07 70726f64756374 53 00000001 70 05 504c41494e"
            "0000000c 006775657374 006775657374 05 656e5f5553",
        ),
        (
            exchange.Declare(0, "logs", "topic", False, True, True, False, True),
            "0028 000a 0000 04 6c6f6773 05 746f706963 16 00000000",
        ),
        (
            queue.Declare(queue="q", passive=True, auto_delete=True, no_wait=True),
            "0032 000a 0000 01 71 19 00000000",
        ),
        (basic.Publish(0, "", "q", mandatory=True), "003c 0028 0000 00 01 71 01"),
        (basic.Deliver("c", 1, True, "x", "k"), "003c 003c 01 63 0000000000000001 01 01 78 01 6b"),
        (basic.Nack(7, False, True), "003c 0078 0000000000000007 02"),
    ],
    ids=repr,
)
def test_the_bytes_of_the_specification(method, payload):
    assert encode_method(method) == bytes.fromhex(payload)
    assert decode_method(bytes.fromhex(payload)) == method


def test_a_frame_is_a_payload_between_head_and_end():
    assert method_frame(3, queue.PurgeOk(2)).hex(" ", -4) == "01000300 00000800 32001f00 000002ce"


def filled(cls: Any) -> Any:
    """An instance in which no argument is empty."""
    some = {
        Kind.BIT: True,
        Kind.SHORTSTR: "text",
        Kind.LONGSTR: b"bytes",
        Kind.TABLE: {"a": [1, "b"]},
    }
    return cls(*(some.get(field.kind, 5) for field in cls.FIELDS))


def test_pikas_arguments_are_in_our_order():
    # What makes the comparison by position above a fair one.
    for cls in ALL:
        theirs = list(inspect.signature(pika.spec.methods[cls.INDEX]).parameters)
        ours = [field.name for field in cls.FIELDS]
        same = {"global_": "global_qos", "no_wait": "nowait"}
        assert [same.get(name, name) for name in ours] == theirs
