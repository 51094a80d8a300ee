"""Messages as Kafka records, and back."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strom.queues.message import Message
from strom.queues.message_records import build_message_batch, read_message
from strom.wire.amqp.content import BasicProperties, encode_properties
from strom.wire.kafka.batch import has_valid_checksum, read_header
from strom.wire.kafka.records import read_records


def _encoded(fields: dict[str, Any]) -> bytes:
    return encode_properties(BasicProperties(**fields))


TEXTS = st.text(max_size=60)
MESSAGES = st.builds(
    Message,
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
