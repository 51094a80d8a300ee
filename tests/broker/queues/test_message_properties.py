"""Properties of messages: what queues know of them, and changing some of them."""

import pytest

from strom.broker.queues.message_properties import make_message, make_properties, read_properties
from strom.queues.dead_letters import dead_letter
from strom.queues.errors import QueueError, Reason
from strom.wire.amqp.content import BasicProperties, decode_properties, encode_properties
from strom.wire.amqp.protocol import AmqpError

DEAD_LETTER = (
    "b8000a746578742f706c61696e0000010b016e6c0000000000000001017453000000017807782d6465617468"
    "410000008e460000008905636f756e746c000000000000000106726561736f6e530000000765787069726564"
    "0571756575655300000001710474696d6554000000006553f1010865786368616e676553000000066f726465"
    "72730c726f7574696e672d6b657973410000000953000000046bc3a979136f726967696e616c2d6578706972"
    "6174696f6e5300000005363030303014782d66697273742d64656174682d726561736f6e5300000007657870"
    "6972656413782d66697273742d64656174682d717565756553000000017116782d66697273742d6465617468"
    "2d65786368616e676553000000066f72646572730205"
)
"""The properties of an expired message's dead letter, as strom 0.1.1 wrote them."""


def encoded(**fields):
    return encode_properties(BasicProperties(**fields))


def test_what_a_queue_must_know_is_read():
    raw = encoded(delivery_mode=2, priority=7, expiration="0100", headers={"a": 1}, user_id="me")
    found = read_properties(raw)
    assert (found.persistent, found.priority, found.user_id) == (True, 7, "me")
    assert (found.expiration, found.expiration_ms, found.headers) == ("0100", 100, {"a": 1})


def test_messages_with_the_same_properties_share_them():
    first, second = (make_message("", "q", encoded(priority=3), b"", 0) for _ in range(2))
    assert first.parsed is second.parsed


@pytest.mark.parametrize("expiration", ["", "-1", "1.5", "soon", "4294967296", "\u0661"])
def test_an_expiration_that_is_no_time_is_refused(expiration):
    with pytest.raises(QueueError) as refused:
        read_properties(encoded(expiration=expiration))
    assert refused.value.reason is Reason.PRECONDITION_FAILED


def test_bytes_that_are_no_properties_are_refused():
    with pytest.raises(AmqpError, match="malformed properties"):
        read_properties(b"\x80\x00")


def test_a_change_keeps_everything_else():
    raw = encoded(content_type="text/plain", headers={"a": 1, "b": 2, "c": 3}, expiration="60")
    changed = read_properties(raw).changed({"a": 9}, without=("b",), keep_expiration=False)
    assert decode_properties(changed.raw) == BasicProperties(
        content_type="text/plain", headers={"c": 3, "a": 9}
    )


def test_a_dead_letter_has_the_properties_that_the_released_version_wrote():
    raw = encoded(
        content_type="text/plain",
        headers={"n": 1, "t": "x"},
        delivery_mode=2,
        priority=5,
        expiration="60000",
    )
    message = make_message("orders", "k\xe9y", raw, b"body", 1700000000000)
    letter = dead_letter(
        message,
        queue="q",
        reason="expired",
        exchange="dlx",
        routing_key=None,
        now_ms=1700000001000,
    )
    assert letter.properties.hex() == DEAD_LETTER


def test_a_message_from_a_topic_is_persistent():
    found = read_properties(make_properties({"h": "v"}, timestamp_ms=1700))
    assert found.persistent
    assert found.headers == {"h": "v"}
    assert decode_properties(found.raw).timestamp == 1
