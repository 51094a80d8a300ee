"""Messages as Kafka records: the body is the value, the routing key is the key.

The exchange and the raw properties are record headers, so that any Kafka tool can read a queue's log.
A message for many queues is encoded once. Positions may have gaps: messages that were removed before
the log was written are not in it.
"""

from collections.abc import Sequence

from strom.broker.queues.message_properties import make_message
from strom.model.errors import CorruptData
from strom.queues.errors import QueueError
from strom.queues.message import Message
from strom.wire.amqp.protocol import AmqpError
from strom.wire.kafka.batch import MAGIC, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader
from strom.wire.kafka.records import Record, assemble

EXCHANGE = "amqp.exchange"
PROPERTIES = "amqp.properties"
_EXCHANGE_KEY = bytes((len(EXCHANGE) << 1,)) + EXCHANGE.encode()
_PROPERTIES_KEY = bytes((len(PROPERTIES) << 1,)) + PROPERTIES.encode()
_TWO_HEADERS = b"\x04"
_NO_PROPERTIES = b"\0\0"


def build_message_batch(messages: Sequence[tuple[int, Message]], base_offset: int) -> bytearray:
    """Encode messages with their positions as a batch to append at `base_offset`."""
    out = bytearray()
    base_timestamp = messages[0][1].timestamp_ms
    latest = base_timestamp
    for position, message in messages:
        record = message.record
        if record is None:
            record = message.record = _tail(message)
        timestamp = message.timestamp_ms
        if timestamp > latest:
            latest = timestamp
        head = b"\0" + _zigzag(timestamp - base_timestamp) + _zigzag(position - base_offset)
        out += _zigzag(len(head) + len(record))
        out += head
        out += record
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=messages[-1][0] - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=latest,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        record_count=len(messages),
    )
    return assemble(header, out, 0)


def _tail(message: Message) -> bytes:
    """The bytes of a record from its key on: the same in every log."""
    key = message.routing_key.encode("utf-8", "surrogateescape")
    exchange = message.exchange.encode("utf-8", "surrogateescape")
    return b"".join(
        (
            _zigzag(len(key)),
            key,
            _zigzag(len(message.body)),
            message.body,
            _TWO_HEADERS,
            _EXCHANGE_KEY,
            _zigzag(len(exchange)),
            exchange,
            _PROPERTIES_KEY,
            _zigzag(len(message.properties)),
            message.properties,
        )
    )


def _zigzag(number: int) -> bytes:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    if number < 0x80:
        return bytes((number,))
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_message(record: Record) -> Message:
    """Decode a message; raise CorruptData if the record is not one."""
    headers = dict(record.headers)
    properties = headers.get(PROPERTIES) or _NO_PROPERTIES
    exchange = (headers.get(EXCHANGE) or b"").decode("utf-8", "surrogateescape")
    key = (record.key or b"").decode("utf-8", "surrogateescape")
    try:
        return make_message(exchange, key, properties, record.value or b"", record.timestamp)
    except (AmqpError, QueueError) as error:
        raise CorruptData(f"invalid message at offset {record.offset}: {error}") from None
