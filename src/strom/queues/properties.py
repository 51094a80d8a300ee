"""Basic properties as raw bytes: what a queue must know of them, and passing them on with changes.

A message's properties are never decoded as a whole. Most messages of a publisher have the very same
properties, so what was found out is remembered by their bytes.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from strom.queues.refusals import precondition_failed
from strom.wire.amqp.protocol import AmqpError, ReplyCode
from strom.wire.amqp.table import EMPTY_TABLE, Table, change_table, decode_table, short_string

HEADERS = 0x2000
DELIVERY_MODE = 0x1000
PRIORITY = 0x0800
EXPIRATION = 0x0100
USER_ID = 0x0010
_LAST = 0x0004
_BYTES = {DELIVERY_MODE: 1, PRIORITY: 1, 0x0040: 8}
"""Fields of fixed size: the two above, and the timestamp. The headers are a table, all others texts."""
_PERSISTENT = 2
_REMEMBERED_BYTES = 256
_MAX_EXPIRATION_MS = 2**32 - 1


class Facts(NamedTuple):
    """What a queue must know."""

    persistent: bool
    priority: int
    expiration_ms: int | None
    headers_at: int
    """Where the table of headers begins; 0 if there is none."""
    user_id: str | None
    special: bool
    """Whether headers may ask for more: a delay, further routing keys."""


def read_facts(properties: bytes) -> Facts:
    """Look; PRECONDITION_FAILED for an expiration that is no time."""
    return _remembered(properties) if len(properties) <= _REMEMBERED_BYTES else _look(properties)


def _look(properties: bytes) -> Facts:
    persistent, priority, headers_at = False, 0, 0
    expiration_ms: int | None = None
    user_id: str | None = None
    for bit, start, end in fields(properties):
        if bit == DELIVERY_MODE:
            persistent = properties[start] == _PERSISTENT
        elif bit == PRIORITY:
            priority = properties[start]
        elif bit == HEADERS:
            headers_at = start
        elif bit == EXPIRATION:
            expiration_ms = _read_expiration(properties[start + 1 : end])
        elif bit == USER_ID:
            user_id = properties[start + 1 : end].decode("utf-8", "surrogateescape")
    special = headers_at > 0 and (b"\x07x-delay" in properties or b"CC" in properties)
    return Facts(persistent, priority, expiration_ms, headers_at, user_id, special)


_remembered = lru_cache(maxsize=1024)(_look)


def read_headers(properties: bytes) -> Table:
    """The table of headers."""
    at = read_facts(properties).headers_at
    return decode_table(properties, at)[0] if at else {}


def fields(properties: bytes) -> Iterator[tuple[int, int, int]]:
    """The properties that are there: flag, start and end."""
    try:
        flags = properties[0] << 8 | properties[1]
        at, bit = 2, 0x8000
        while bit >= _LAST:
            if flags & bit:
                size = _BYTES.get(bit)
                if size is None and bit == HEADERS:
                    size = 4 + int.from_bytes(properties[at : at + 4], "big")
                elif size is None:
                    size = 1 + properties[at]
                yield bit, at, at + size
                at += size
            bit >>= 1
    except IndexError:
        at = len(properties) + 1
    if at > len(properties):
        raise AmqpError(ReplyCode.SYNTAX_ERROR, "properties end too early")


def change_properties(
    properties: bytes,
    headers: Mapping[str, Any],
    *,
    without: Collection[str] = (),
    keep_expiration: bool = True,
) -> bytes:
    """The properties with some headers set or left out, all others as they are."""
    kept = {bit: properties[start:end] for bit, start, end in fields(properties)}
    kept[HEADERS] = change_table(kept.get(HEADERS, EMPTY_TABLE), headers, without=without)
    if not keep_expiration:
        kept.pop(EXPIRATION, None)
    return _join(kept)


def make_properties(*, persistent: bool, headers: Mapping[str, Any], key: str = "") -> bytes:
    """Properties of a message that comes from elsewhere."""
    kept = {HEADERS: change_table(EMPTY_TABLE, headers)}
    if persistent:
        kept[DELIVERY_MODE] = bytes((_PERSISTENT,))
    if key:
        kept[0x0080] = short_string(key)  # the message id
    return _join(kept)


def _join(kept: Mapping[int, bytes]) -> bytes:
    flags = sum(kept)
    return flags.to_bytes(2, "big") + b"".join(kept[bit] for bit in sorted(kept, reverse=True))


def _read_expiration(text: bytes) -> int:
    if not text.isdigit() or int(text) > _MAX_EXPIRATION_MS:
        shown = text.decode("utf-8", "replace")
        raise precondition_failed(f"invalid expiration '{shown}': it must be milliseconds")
    return int(text)
