"""Values as text and back, as headers and literals in settings are written.

Reading guesses the narrowest type: `true`, `12` (int8), `0.5` (float32), `2019-08-23` (a date),
`[1,2]`, `{"a":1}`; what is none of these is a string. It follows Kafka's rules, but never drops a
part of the text: what is not read to its end (`10:30`, `[1] and more`) is a string here, and only
real dates are dates.
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


class Read(NamedTuple):
    """A value that was read, with its schema."""

    schema: Schema | None
    value: Any


class _NoStructure(Exception):
    """The text is no array, map or other value."""


def text_of(schema: Schema | None, value: Any, *, embedded: bool = False) -> str:
    """The text of a value; `embedded` in an array or map, where strings need quotes."""
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
    raise PoisonRecord(f"A {type(value).__name__} has no text form.")


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
    # Kafka leaves midnight out; of the first days, it would leave out the date.
    if utc.time() == dt.time() and utc.date() > dt.date(1970, 1, 1):
        return utc.date().isoformat()
    return utc.replace(tzinfo=None).isoformat("T", "milliseconds") + "Z"


def parse_text(text: str) -> Read:
    """The value that the text stands for."""
    if not text:
        return Read(STRING, text)
    reader = _Reader(_TOKEN.findall(text))
    try:
        found = reader.value()
        if not reader.at_end():
            return Read(STRING, text)
    except (_NoStructure, RecursionError):
        return Read(STRING, text)
    return found


class _Reader:
    """Reads values from tokens: single delimiters, and what stands between them."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def at_end(self) -> bool:
        self._skip_blanks()
        return self._next >= len(self._tokens)

    def value(self, *, embedded: bool = False) -> Read:
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

    def _quoted(self) -> Read:
        try:
            end = self._tokens.index('"', self._next)
        except ValueError:
            raise _NoStructure from None
        content = "".join(self._tokens[self._next : end])
        self._next = end + 1
        return _as_moment(content.replace("\\:", ":")) or Read(STRING, content)

    def _moment(self) -> Read | None:
        """A time holds colons, so it is spread over five tokens."""
        for length in (5, 1):
            tokens = self._tokens[self._next : self._next + length]
            found = _as_moment("".join(tokens).strip().replace("\\:", ":"))
            if found is not None:
                self._next += length
                return found
        return None

    def _array(self) -> Read:
        items: list[Read] = []
        while not self._take("]"):
            items.append(self.value(embedded=True))
            if not self._take(","):
                if not self._take("]"):
                    raise _NoStructure
                break
        schema = _common_schema(items)
        return Read(Schema(Type.ARRAY, value=schema), [_aligned(schema, item) for item in items])

    def _map(self) -> Read:
        keys: list[Read] = []
        values: list[Read] = []
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
        return Read(
            Schema(Type.MAP, key=key_schema, value=value_schema),
            {_aligned(key_schema, key): _aligned(value_schema, item) for key, item in pairs},
        )


_LITERALS: Final = {
    "null": Read(None, None),
    "true": Read(BOOLEAN, True),
    "false": Read(BOOLEAN, False),
}


def _number(token: str) -> Read:
    exact = Decimal(token)
    if exact == exact.to_integral_value():
        whole = int(exact)
        for schema, bits in ((_INT8, 7), (_INT16, 15), (INT32, 31), (INT64, 63)):
            if -(1 << bits) <= whole < 1 << bits:
                return Read(schema, whole)
    exponent = exact.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) else 0
    if scale != 0:
        single = as_single(float(exact))
        if math.isfinite(single):
            return Read(_FLOAT32, single)
        if math.isfinite(float(exact)):
            return Read(FLOAT64, float(exact))
    return Read(decimal(scale), exact)


def _as_moment(text: str) -> Read | None:
    try:
        if _DATE.fullmatch(text):
            return Read(DATE, dt.date.fromisoformat(text))
        if _TIME.fullmatch(text):
            return Read(TIME, dt.time.fromisoformat(text[:-1]))
        if _TIMESTAMP.fullmatch(text):
            return Read(TIMESTAMP, dt.datetime.fromisoformat(text))
    except ValueError:
        pass  # the 31st of February is a string
    return None


def _common_schema(items: list[Read]) -> Schema | None:
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


def _aligned(schema: Schema | None, item: Read) -> Any:
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
