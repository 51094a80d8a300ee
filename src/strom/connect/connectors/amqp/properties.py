"""Message properties ↔ record headers.

`content-type` becomes the header `amqp.content-type`; the headers of the message keep their names.
"""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

from strom.connect.api import Header, Schema
from strom.connect.api.schema import BOOLEAN, BYTES, FLOAT64, INT64, STRING
from strom.connect.connectors.plain_json import to_json

PREFIX = "amqp."
NAMES = (
    "content_type",
    "content_encoding",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "app_id",
    "user_id",
    "cluster_id",
)
_SCHEMAS: dict[type, Schema] = {
    str: STRING,
    int: INT64,
    bool: BOOLEAN,
    float: FLOAT64,
    bytes: BYTES,
}


def header_name(property_name: str) -> str:
    """The name of the record header for a property."""
    return PREFIX + property_name.replace("_", "-")


def to_headers(properties: Any, **more: Any) -> tuple[Header, ...]:
    """The record headers of a message; `more` describes its delivery."""
    facts = {name: getattr(properties, name) for name in NAMES} | more
    headers = [
        Header(header_name(name), value, _SCHEMAS.get(type(value)))
        for name, value in facts.items()
        if value is not None
    ]
    headers += [_header(name, value) for name, value in (properties.headers or {}).items()]
    return tuple(headers)


def _header(name: str, value: Any) -> Header:
    schema = _SCHEMAS.get(type(value))
    if schema is None and value is not None:
        return Header(name, to_json(value), STRING)
    return Header(name, value, schema)


def from_headers(headers: Iterable[Header]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The properties in a record's headers, and the headers of the message."""
    named = {header_name(name): name for name in NAMES}
    properties: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for header in headers:
        if header.key in named:
            properties[named[header.key]] = _property(named[header.key], header.value)
        elif not header.key.startswith(PREFIX):
            own[header.key] = _table_value(header.value)
    return {name: value for name, value in properties.items() if value is not None}, own


def _property(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "priority":
        try:
            return max(0, min(255, int(value)))
        except (TypeError, ValueError):
            return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _table_value(value: Any) -> Any:
    plain = str | int | float | bool | bytes | Decimal | datetime | None
    return value if isinstance(value, plain) else to_json(value)
