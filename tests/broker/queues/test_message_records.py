"""Messages as Kafka records, and back."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strom.broker.queues.message_properties import make_message
from strom.broker.queues.message_records import build_message_batch, read_message
from strom.wire.amqp.content import BasicProperties, encode_properties
from strom.wire.kafka.batch import has_valid_checksum, read_header
from strom.wire.kafka.records import read_records


def _encoded(fields: dict[str, Any]) -> bytes:
    return encode_properties(BasicProperties(**fields))


TEXTS = st.text(max_size=60)
MESSAGES = st.builds(
    make_message,
    TEXTS,
    TEXTS,
    st.fixed_dictionaries(
        {
            "headers": st.none() | st.dictionaries(TEXTS, st.integers(-9, 9) | TEXTS, max_size=3),
            "delivery_mode": st.sampled_from([None, 1, 2]),
            "priority": st.none() | st.integers(0, 255),
            "correlation_id": st.none() | TEXTS,
        }
    ).map(_encoded),
    st.binary(max_size=300),
    st.integers(0, 2**41),
)


@given(st.lists(MESSAGES, min_size=1, max_size=8), st.integers(0, 2**40), st.data())
def test_a_batch_holds_messages_at_their_positions(messages, base, data):
    gaps = data.draw(st.lists(st.integers(1, 200), min_size=len(messages), max_size=len(messages)))
    position = base
    items = []
    for message, gap in zip(messages, gaps, strict=True):
        position += gap
        items.append((position, message))
    batch = build_message_batch(items, base)
    header = read_header(batch)
    assert has_valid_checksum(batch, 0, header)
    records = read_records(batch, 0, header)
    assert [record.offset for record in records] == [position for position, _ in items]
    for record, (_, message) in zip(records, items, strict=True):
        again = read_message(record)
        for name in ("exchange", "routing_key", "properties", "body", "timestamp_ms"):
            assert getattr(again, name) == getattr(message, name)


STORED = (
    "0000000000000007000000be0000000002dd3101550000000000020000018bcfe568000000018bcfe5687bff"
    "ffffffffffffffffffffffffff00000002c001000000086bc3a97908626f6479041a616d71702e6578636861"
    "6e67650c6f72646572731e616d71702e70726f7065727469657358b9000a746578742f706c61696e00000013"
    "016e6c0000000000000001017453000000017802050536303030305400f60104027100041a616d71702e6578"
    "6368616e6765001e616d71702e70726f70657274696573040000"
)
"""A batch as strom 0.1.1 wrote it: two messages, at positions 7 and 9."""


def test_what_the_released_version_stored_is_read_and_written_byte_for_byte():
    batch = bytes.fromhex(STORED)
    records = list(read_records(batch, 0, read_header(batch)))
    first, second = map(read_message, records)
    assert (first.exchange, first.routing_key, first.body) == ("orders", "k\xe9y", b"body")
    assert first.persistent
    assert (first.priority, first.expiration_ms, first.headers) == (5, 60000, {"n": 1, "t": "x"})
    assert (second.exchange, second.routing_key, second.body, second.headers) == (
        "",
        "q",
        b"",
        None,
    )
    assert build_message_batch([(7, first), (9, second)], 7) == batch
