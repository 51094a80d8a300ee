"""Parses records to produce from lines of text: plain, with keys and headers, or JSON."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from strom.model.errors import UserError

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class OutgoingRecord:
    """A record to produce; None for what the client or the broker chooses."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = field(default_factory=list)
    partition: int | None = None
    timestamp: int | None = None


LineReader = Callable[[bytes], OutgoingRecord]


@dataclass(frozen=True)
class LineFormat:
    """How to parse a line. The names and defaults are those of Kafka's console producer."""

    parse_key: bool = False
    parse_headers: bool = False
    ignore_error: bool = False
    key_separator: str = "\t"
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    null_marker: str | None = None

    def read(self, line: bytes) -> OutgoingRecord:
        """Parse a line without its line end; UserError if a separator is missing."""
        headers: Headers = []
        key = None
        rest = line
        if self.parse_headers:
            text, rest = self._split(rest, self.headers_delimiter, "headers delimiter")
            headers = [] if text is None else self._headers(text)
        if self.parse_key:
            key, rest = self._split(rest, self.key_separator, "key separator")
        return OutgoingRecord(value=self._or_null(rest), key=self._or_null(key), headers=headers)

    def _split(self, line: bytes, separator: str, name: str) -> tuple[bytes | None, bytes]:
        before, found, after = line.partition(separator.encode())
        if found:
            return before, after
        if self.ignore_error:
            return None, line
        shown = line[:60].decode("utf-8", "backslashreplace")
        raise UserError(f"No {name} {separator!r} found in {shown!r}.")

    def _headers(self, text: bytes) -> Headers:
        headers: Headers = []
        for item in text.split(self.headers_separator.encode()):
            name, value = self._split(item, self.headers_key_separator, "header key separator")
            # With ignore.error, Kafka treats an item without a separator as a name without a value.
            pair = (item, None) if name is None else (name, self._or_null(value))
            headers.append((pair[0].decode("utf-8", "replace"), pair[1]))
        return headers

    def _or_null(self, text: bytes | None) -> bytes | None:
        if self.null_marker is not None and text == self.null_marker.encode():
            return None
        return text


def read_json_line(line: bytes) -> OutgoingRecord:
    """Parse a JSON object in the form that `strom consume --json` prints."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise UserError(f"The line is not JSON: {error}.") from None
    if not isinstance(fields, dict) or not {"value", "value_base64"} & fields.keys():
        raise UserError('A JSON line must be an object with "value", as in {"key": 1, "value": 2}.')
    return OutgoingRecord(
        value=_bytes(fields, "value"),
        key=_bytes(fields, "key"),
        headers=_json_headers(fields.get("headers") or []),
        partition=_whole_number(fields, "partition"),
        timestamp=_whole_number(fields, "timestamp"),
    )


def _json_headers(headers: Any) -> Headers:
    if isinstance(headers, dict):
        headers = [{"key": name, "value": value} for name, value in headers.items()]
    try:
        return [(str(header["key"]), _bytes(header, "value")) for header in headers]
    except (TypeError, KeyError):
        raise UserError(
            '"headers" must be an object, or a list of {"key": …, "value": …}.'
        ) from None


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    """A field as bytes: text as it is, other JSON values as JSON, binary from base64."""
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (TypeError, ValueError):
            raise UserError(f'"{name}_base64" is not base64.') from None
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _whole_number(fields: dict[str, Any], name: str) -> int | None:
    number = fields.get(name)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise UserError(f'"{name}" must be a non-negative integer, not {number!r}.')
    return number
