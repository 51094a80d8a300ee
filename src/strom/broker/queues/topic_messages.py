"""Records of a topic as messages: the key is the routing key, headers are headers, the value is the body.

A Kafka record may hold what a message cannot. A key or header name that is too long is truncated, bytes
that are not UTF-8 are replaced; a value or headers that exceed AMQP's limits are refused.
"""

import re
from collections.abc import Iterator

from strom.broker.queues.message_properties import make_message, make_properties
from strom.queues.delays import DELAY
from strom.queues.errors import precondition_failed
from strom.queues.message import Message
from strom.wire.amqp.protocol import FRAME_MAX_DEFAULT
from strom.wire.amqp.table import MAX_SHORT_STRING
from strom.wire.kafka.records import Record

MAX_PROPERTIES_BYTES = FRAME_MAX_DEFAULT - 16 * 1024
"""Headers are sent in one frame; the rest is for what dead-lettering adds."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")


def message_from_record(exchange: str, record: Record, now_ms: int, *, max_body: int) -> Message:
    """Convert a record to a message; QueueError with the reason if it is impossible."""
    body = record.value or b""
    if len(body) > max_body:
        raise precondition_failed(
            f"a value of {len(body)} bytes exceeds the limit of {max_body} bytes "
            "(amqp.max.message.bytes)"
        )
    properties = make_properties(dict(_headers(record)), timestamp_ms=record.timestamp)
    if len(properties) > MAX_PROPERTIES_BYTES:
        raise precondition_failed(
            f"headers of {len(properties)} bytes exceed the limit of {MAX_PROPERTIES_BYTES} bytes"
        )
    return make_message(exchange, _short(record.key or b""), properties, body, now_ms)


def _headers(record: Record) -> Iterator[tuple[str, object]]:
    """Headers as AMQP values: strings where they are UTF-8, and `x-delay` as a number."""
    for key, raw in record.headers:
        name = _short(key.encode("utf-8", "surrogateescape"))
        value: object = raw
        if raw is not None:
            try:
                value = raw.decode()
            except UnicodeDecodeError:
                value = raw
        if name == DELAY and isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            value = int(value)
        yield name, value


def _short(data: bytes) -> str:
    """Text of at most 255 bytes, the limit of AMQP's short strings."""
    text = data.decode("utf-8", "replace")
    encoded = text.encode()
    if len(encoded) <= MAX_SHORT_STRING:
        return text
    return encoded[:MAX_SHORT_STRING].decode("utf-8", "ignore")
