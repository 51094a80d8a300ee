"""The properties of messages in AMQP's encoding: what queues need of them, and how to change them.

Properties stay encoded as received, because they are delivered and stored that way.
"""

from collections.abc import Collection, Mapping
from typing import Any

from strom.model.tables import Table
from strom.queues.errors import precondition_failed
from strom.queues.message import Message
from strom.wire.amqp.content import (
    BasicProperties,
    decode_properties,
    encode_properties,
    join_properties,
    split_properties,
)
from strom.wire.amqp.table import EMPTY_TABLE, change_table

PERSISTENT = 2
_MAX_EXPIRATION_MS = 2**32 - 1


class EncodedProperties:
    """The properties of one message, or of many with equal properties."""

    __slots__ = (
        "expiration",
        "expiration_ms",
        "headers",
        "persistent",
        "priority",
        "raw",
        "user_id",
    )

    def __init__(self, raw: bytes) -> None:
        """Raise AmqpError for malformed properties, QueueError for an invalid expiration."""
        found = decode_properties(raw)
        self.raw = raw
        self.persistent = found.delivery_mode == PERSISTENT
        self.priority = found.priority or 0
        self.expiration = found.expiration
        self.expiration_ms = _milliseconds(found.expiration)
        self.headers: Table | None = found.headers
        self.user_id = found.user_id

    def changed(
        self,
        headers: Mapping[str, Any],
        *,
        without: Collection[str] = (),
        keep_expiration: bool = True,
    ) -> "EncodedProperties":
        """The properties with some headers set or removed; all others keep their bytes."""
        fields = split_properties(self.raw)
        table = fields.get("headers", EMPTY_TABLE)
        fields["headers"] = change_table(table, headers, without=without)
        if not keep_expiration:
            fields.pop("expiration", None)
        return read_properties(join_properties(fields))


_KNOWN: dict[bytes, EncodedProperties] = {}
"""Most messages of a publisher have equal properties."""
_KNOWN_BYTES = 128
_KNOWN_COUNT = 1024


def read_properties(raw: bytes) -> EncodedProperties:
    """Decode properties; raise AmqpError or QueueError if they are invalid."""
    properties = _KNOWN.get(raw)
    if properties is None:
        properties = EncodedProperties(raw)
        if len(raw) <= _KNOWN_BYTES:
            if len(_KNOWN) >= _KNOWN_COUNT:
                _KNOWN.clear()
            _KNOWN[raw] = properties
    return properties


def make_message(
    exchange: str, routing_key: str, properties: bytes, body: bytes, timestamp_ms: int
) -> Message:
    """Create a message; raise AmqpError or QueueError if its properties are invalid."""
    # The cache is looked up here as well: this is called for every message.
    parsed = _KNOWN.get(properties) or read_properties(properties)
    return Message(exchange, routing_key, parsed, body, timestamp_ms)


def make_properties(headers: Mapping[str, Any], *, timestamp_ms: int) -> bytes:
    """Encode the properties of a message from a topic: persistent, with the record's headers."""
    return encode_properties(
        BasicProperties(
            headers=dict(headers) or None,
            delivery_mode=PERSISTENT,
            timestamp=max(0, timestamp_ms) // 1000,
        )
    )


def _milliseconds(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > _MAX_EXPIRATION_MS:
        raise precondition_failed(f"invalid expiration '{text}': it must be milliseconds")
    return int(text)
