"""What a queue must know of a message's properties, and passing them on with changes."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from strom.queues.refusals import precondition_failed
from strom.wire.amqp.content import (
    BasicProperties,
    decode_properties,
    encode_properties,
    join_properties,
    split_properties,
)
from strom.wire.amqp.table import EMPTY_TABLE, Table, change_table

PERSISTENT = 2
_MAX_EXPIRATION_MS = 2**32 - 1


class Facts(NamedTuple):
    """What a queue must know."""

    persistent: bool = False
    priority: int = 0
    expiration_ms: int | None = None
    headers: Table | None = None
    user_id: str | None = None


def read_facts(raw: bytes) -> Facts:
    """Look; PRECONDITION_FAILED for an expiration that is no time."""
    known = _KNOWN.get(raw)
    if known is not None:
        return known
    properties = decode_properties(raw)
    facts = Facts(
        properties.delivery_mode == PERSISTENT,
        properties.priority or 0,
        _expiration(properties.expiration),
        properties.headers,
        properties.user_id,
    )
    if len(raw) <= _KNOWN_BYTES:
        if len(_KNOWN) >= _KNOWN_COUNT:
            _KNOWN.clear()
        _KNOWN[raw] = facts
    return facts


_KNOWN: dict[bytes, Facts] = {}
"""Most messages of a publisher have the very same properties."""
_KNOWN_BYTES = 128
_KNOWN_COUNT = 1024


def _expiration(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > _MAX_EXPIRATION_MS:
        raise precondition_failed(f"invalid expiration '{text}': it must be milliseconds")
    return int(text)


def change_properties(
    raw: bytes,
    headers: Mapping[str, Any],
    *,
    without: Collection[str] = (),
    keep_expiration: bool = True,
) -> bytes:
    """The properties with some headers set or left out, all others as they are."""
    fields = split_properties(raw)
    fields["headers"] = change_table(fields.get("headers", EMPTY_TABLE), headers, without=without)
    if not keep_expiration:
        fields.pop("expiration", None)
    return join_properties(fields)


def make_properties(headers: Mapping[str, Any], *, timestamp_ms: int) -> bytes:
    """Properties of a message that comes from a topic: persistent, with the record's headers."""
    return encode_properties(
        BasicProperties(
            headers=dict(headers) or None,
            delivery_mode=PERSISTENT,
            timestamp=max(0, timestamp_ms) // 1000,
        )
    )
