"""Values ↔ text, as in headers and in literals of settings.

Parsing infers the narrowest type: `true`, `12` (int8), `0.5` (float32), `2019-08-23` (a date), `[1,2]`,
`{"a":1}`; anything else is a string. The rules are Kafka's, but no part of the text is dropped: text that
continues behind a value (`10:30`, `[1] and more`) is a string here, and only valid dates are dates.
"""

import base64
import datetime as dt
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from strom.connect.api import PoisonRecord, Schema, Type
from strom.connect.api.schema import (
    BOOLEAN,
    DATE,
    DATE_NAME,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIME_NAME,
    TIMESTAMP,
    TIMESTAMP_NAME,
    decimal,
)
from strom.connect.converters.java_text import double_text, float_text
from strom.connect.converters.json_values import as_single
from strom.connect.logical_values import DAY_MS, days_to_date, millis_to_time, millis_to_timestamp

_INT8, _INT16, _FLOAT32 = Schema(Type.INT8), Schema(Type.INT16), Schema(Type.FLOAT32)
_WIDENING: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_TOKEN: Final = re.compile(r'(?:\\.|[^:,{}\[\]"\\]|\\$)+|[:,{}\[\]"]', re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_TIME: Final = re.compile(r"\d\d:\d\d:\d\d\.\d\d\dZ")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ")


class ParsedValue(NamedTuple):
    """A parsed value, with its schema."""

    schema: Schema | None
    value: Any


class _NoStructure(Exception):
    """The text is not an array, map or other value."""


def text_of(schema: Schema | None, value: Any, *, embedded: bool = False) -> str:
    """The text of a value; `embedded` in an array or map, where strings are quoted."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return (
            float_text(value)
            if schema is not None and schema.type is Type.FLOAT32
            else double_text(value)
        )
    if isinstance(value, str):
        return f'"{_escaped(value)}"' if embedded else value
    if isinstance(value, bytes):
        encoded = base64.b64encode(value).decode("ascii")
        return f'"{encoded}"' if embedded else encoded
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, dt.date | dt.time):
        return _moment_text(value)
    if isinstance(value, list | tuple):
        inner = schema.value if schema is not None else None
        return "[" + ",".join(text_of(inner, item, embedded=True) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(_entries(schema, value)) + "}"
    raise PoisonRecord(f"A {type(value).__name__} cannot be written as text.")


def _entries(schema: Schema | None, value: Mapping[Any, Any]) -> list[str]:
    if schema is not None and schema.type is Type.STRUCT:
        triples: list[tuple[Schema | None, Schema | None, Any]] = [
            (None, field.schema, field.name) for field in schema.fields
        ]
    else:
        key, item = (schema.key, schema.value) if schema is not None else (None, None)
        triples = [(key, item, name) for name in value]
    return [
        f"{text_of(key, name, embedded=True)}:{text_of(item, value.get(name), embedded=True)}"
        for key, item, name in triples
    ]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _moment_text(value: dt.date | dt.time) -> str:
    if isinstance(value, dt.time):
        return value.isoformat("milliseconds").partition("+")[0] + "Z"
    if not isinstance(value, dt.datetime):
        return value.isoformat()
    utc = value.astimezone(dt.UTC) if value.tzinfo is not None else value
    # Kafka omits midnight; at the epoch it would omit the date.
    if utc.time() == dt.time() and utc.date() > dt.date(1970, 1, 1):
        return utc.date().isoformat()
    return utc.replace(tzinfo=None).isoformat("T", "milliseconds") + "Z"


def parse_text(text: str) -> ParsedValue:
    """The value that a text denotes."""
    if not text:
        return ParsedValue(STRING, text)
    reader = _Reader(_TOKEN.findall(text))
    try:
        found = reader.value()
        if not reader.at_end():
            return ParsedValue(STRING, text)
    except (_NoStructure, RecursionError):
        return ParsedValue(STRING, text)
    return found


class _Reader:
    """Parses tokens: single delimiters, and the text between them."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def at_end(self) -> bool:
        self._skip_blanks()
        return self._next >= len(self._tokens)

    def value(self, *, embedded: bool = False) -> ParsedValue:
        if self._take("["):
            return self._array()
        if self._take("{"):
            return self._map()
        if embedded and self._take('"'):
            return self._quoted()
        self._skip_blanks()
        if self._next >= len(self._tokens):
            raise _NoStructure
        moment = self._moment()
        if moment is not None:
            return moment
        token = self._tokens[self._next].strip()
        self._next += 1
        literal = _LITERALS.get(token)
        if literal is not None:
            return literal
        if not _NUMBER.fullmatch(token):
            raise _NoStructure
        return _number(token)

    def _skip_blanks(self) -> None:
        while self._next < len(self._tokens) and not self._tokens[self._next].strip():
            self._next += 1

    def _take(self, expected: str) -> bool:
        self._skip_blanks()
        found = self._next < len(self._tokens) and self._tokens[self._next].strip() == expected
        self._next += found
        return found

    def _quoted(self) -> ParsedValue:
        try:
            end = self._tokens.index('"', self._next)
        except ValueError:
            raise _NoStructure from None
        content = "".join(self._tokens[self._next : end])
        self._next = end + 1
        return _as_moment(content.replace("\\:", ":")) or ParsedValue(STRING, content)

    def _moment(self) -> ParsedValue | None:
        """A time contains colons, so it consists of five tokens."""
        for length in (5, 1):
            tokens = self._tokens[self._next : self._next + length]
            found = _as_moment("".join(tokens).strip().replace("\\:", ":"))
            if found is not None:
                self._next += length
                return found
        return None

    def _array(self) -> ParsedValue:
        items: list[ParsedValue] = []
        while not self._take("]"):
            items.append(self.value(embedded=True))
            if not self._take(","):
                if not self._take("]"):
                    raise _NoStructure
                break
        schema = _common_schema(items)
        return ParsedValue(
            Schema(Type.ARRAY, value=schema), [_aligned(schema, item) for item in items]
        )

    def _map(self) -> ParsedValue:
        keys: list[ParsedValue] = []
        values: list[ParsedValue] = []
        while not self._take("}"):
            key = self.value(embedded=True)
            if key.value is None or isinstance(key.value, list | dict) or not self._take(":"):
                raise _NoStructure
            keys.append(key)
            values.append(self.value(embedded=True))
            self._take(",")
        key_schema = _common_schema(keys)
        value_schema = _common_schema(values) if key_schema is not None else None
        pairs = zip(keys, values, strict=True)
        return ParsedValue(
            Schema(Type.MAP, key=key_schema, value=value_schema),
            {_aligned(key_schema, key): _aligned(value_schema, item) for key, item in pairs},
        )


_LITERALS: Final = {
    "null": ParsedValue(None, None),
    "true": ParsedValue(BOOLEAN, True),
    "false": ParsedValue(BOOLEAN, False),
}


def _number(token: str) -> ParsedValue:
    exact = Decimal(token)
    if exact == exact.to_integral_value():
        whole = int(exact)
        for schema, bits in ((_INT8, 7), (_INT16, 15), (INT32, 31), (INT64, 63)):
            if -(1 << bits) <= whole < 1 << bits:
                return ParsedValue(schema, whole)
    exponent = exact.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) else 0
    if scale != 0:
        single = as_single(float(exact))
        if math.isfinite(single):
            return ParsedValue(_FLOAT32, single)
        if math.isfinite(float(exact)):
            return ParsedValue(FLOAT64, float(exact))
    return ParsedValue(decimal(scale), exact)


def _as_moment(text: str) -> ParsedValue | None:
    try:
        if _DATE.fullmatch(text):
            return ParsedValue(DATE, dt.date.fromisoformat(text))
        if _TIME.fullmatch(text):
            return ParsedValue(TIME, dt.time.fromisoformat(text[:-1]))
        if _TIMESTAMP.fullmatch(text):
            return ParsedValue(TIMESTAMP, dt.datetime.fromisoformat(text))
    except ValueError:
        pass  # an invalid date such as 31 February is a string
    return None


def _common_schema(items: list[ParsedValue]) -> Schema | None:
    common: Schema | None = None
    for schema in (item.schema for item in items if item.schema is not None):
        if common is None:
            common = schema
        elif common.type is schema.type:
            if common.name and schema.name and common.name != schema.name:
                return None  # a date and a time
            common = schema
        elif common.type in _WIDENING and schema.type in _WIDENING:
            wider = _WIDENING.index(schema.type) > _WIDENING.index(common.type)
            common = schema if wider else common
        else:
            return None
    return common


def _aligned(schema: Schema | None, item: ParsedValue) -> Any:
    if schema is None:
        return item.value
    if item.value is None:
        raise _NoStructure
    if isinstance(item.value, dt.date | dt.time) and schema.name is None:
        raise _NoStructure
    if type(item.value) is not int:
        return item.value
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return float(item.value)
    as_moment = _WHOLE_AS.get(schema.name)
    return item.value if as_moment is None else as_moment(item.value)


_WHOLE_AS: Final[dict[str | None, Any]] = {
    DATE_NAME: days_to_date,
    TIME_NAME: lambda millis: millis_to_time(millis % DAY_MS),
    TIMESTAMP_NAME: millis_to_timestamp,
}
