"""How `strom consume` prints a record: its value, JSON, or the user's template."""

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Message

Formatter = Callable[["Message"], bytes]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_TOKEN = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)


def shown(data: bytes | None, *, terminal: bool) -> bytes:
    """Printable bytes: invalid UTF-8 becomes \\xNN, as do control codes on a terminal.

    A record must not be able to move the cursor or change the title of the reader's terminal.
    """
    if data is None:
        return b""
    text = data.decode("utf-8", "backslashreplace")
    if terminal:
        text = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    return text.encode()


def value_formatter(*, terminal: bool) -> Formatter:
    """The value alone, one per line."""
    return lambda message: shown(message.value(), terminal=terminal) + b"\n"


def format_json(message: "Message") -> bytes:
    """The whole record as one JSON line; `strom produce --format json` reads it back."""
    fields: dict[str, Any] = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": _timestamp(message),
        **_json_field("key", message.key()),
        **_json_field("value", message.value()),
        "headers": [
            {"key": name, **_json_field("value", value)} for name, value in _headers(message)
        ],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def template_formatter(template: str, *, terminal: bool) -> Formatter:
    """Fill in a template such as '%t %p %o %k %v\\n'; ValueError for an unknown % field."""
    parts: list[bytes | Formatter] = []
    position = 0
    for token in _TOKEN.finditer(template):
        parts.append(template[position : token.start()].encode())
        parts.append(_part(token, terminal=terminal))
        position = token.end()
    parts.append(template[position:].encode())

    def fill(message: "Message") -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(message) for part in parts)

    return fill


FIELDS = {
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "k": "key",
    "v": "value",
    "h": "headers",
    "T": "timestamp in ms",
    "K": "length of the key",
    "V": "length of the value",
    "%": "a percent sign",
}


def _part(token: re.Match[str], *, terminal: bool) -> bytes | Formatter:
    if token[2] is not None:
        escape = token[2]
        if escape[0] == "x" and len(escape) > 1:
            return bytes.fromhex(escape[1:])
        return _ESCAPES.get(escape, f"\\{escape}").encode()
    field = token[1]
    if field not in FIELDS:
        known = ", ".join(f"%{name} {text}" for name, text in FIELDS.items())
        raise ValueError(f"%{field} is not a field of a record. Fields: {known}.")
    getters: dict[str, bytes | Formatter] = {
        "t": lambda message: str(message.topic()).encode(),
        "p": lambda message: b"%d" % message.partition(),
        "o": lambda message: b"%d" % message.offset(),
        "k": lambda message: shown(message.key(), terminal=terminal),
        "v": lambda message: shown(message.value(), terminal=terminal),
        "h": lambda message: _headers_text(message, terminal=terminal),
        "T": lambda message: b"%d" % (_timestamp(message) or -1),
        "K": lambda message: b"%d" % len(message.key() or b""),
        "V": lambda message: b"%d" % len(message.value() or b""),
        "%": b"%",
    }
    return getters[field]


def _headers_text(message: "Message", *, terminal: bool) -> bytes:
    return b",".join(
        shown(name.encode(), terminal=terminal) + b"=" + shown(value, terminal=terminal)
        for name, value in _headers(message)
    )


def _headers(message: "Message") -> list[tuple[str, bytes | None]]:
    return message.headers() or []


def _timestamp(message: "Message") -> int | None:
    kind, milliseconds = message.timestamp()
    return milliseconds if kind else None


def _json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
