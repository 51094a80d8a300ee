"""PostgreSQL's types as shapes of records, from the text form that the server writes.

Reading everything as text makes one table serve plain queries, snapshots and the change stream alike:
all three get the same text for the same value. It needs `TimeZone=UTC`, `DateStyle=ISO`,
`bytea_output=hex` and `IntervalStyle=iso_8601`.
"""

import math
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple

from strom.connect.api import ConnectError, Schema, Type
from strom.connect.api.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    FLOAT64,
    INT32,
    INT64,
    SCALE,
    STRING,
    TIME,
    TIMESTAMP,
    array,
)
from strom.connect.connectors.databases.time_zones import from_wall_clock

JSON_NAME: Final = "io.debezium.data.Json"
UUID_NAME: Final = "io.debezium.data.Uuid"
XML_NAME: Final = "io.debezium.data.Xml"
PRECISION: Final = "connect.decimal.precision"
SESSION: Final[Mapping[str, str]] = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "bytea_output": "hex",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "3",
}
"""What a session must have set for its texts to be those of this module."""

_SINGLE: Final = struct.Struct("f")
Parse = Callable[[str], Any]


class Mapped(NamedTuple):
    """How the values of one type travel; `parse` is None where the text is the value."""

    schema: Schema
    parse: Parse | None


class _Builtin(NamedTuple):
    oid: int
    array_oid: int
    schema: Schema
    parse: Parse | None


def _parse_boolean(text: str) -> bool:
    return text in {"t", "true"}


def _parse_bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def _parse_single(text: str) -> float:
    """The number of single precision that is meant: the text has just as many digits as tell it."""
    number: float = _SINGLE.unpack(_SINGLE.pack(float(text)))[0]
    return number


def _parse_padded(text: str) -> str:
    """The blanks that fill char(n) up mean nothing, and not every way to read it shows them."""
    return text.rstrip(" ")


def parse_date(text: str) -> date:
    """A date; what Python's calendar cannot hold becomes the nearest date it can."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return date.min if _is_early(text) else date.max


def parse_timestamp(text: str, zone: tzinfo = UTC) -> datetime:
    """A time, of `zone` if it names none; out of the calendar's range: the nearest."""
    try:
        moment = datetime.fromisoformat(text)
        return from_wall_clock(moment, zone) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        limit = datetime.min if _is_early(text) else datetime.max  # noqa: DTZ901
        return limit.replace(tzinfo=UTC)


def _parse_time(text: str) -> time:
    return time.max if text.startswith("24:") else time.fromisoformat(text)


def _parse_vector(text: str) -> list[int]:
    """The numbers of an int2vector or oidvector, which are arrays with a text form of their own."""
    return [int(number) for number in text.split()]


def _is_early(text: str) -> bool:
    return text.startswith(("-", "0001-")) or text.endswith("BC")


BOX: Final = 603
"""The one type of PostgreSQL itself whose arrays have another delimiter than a comma."""
_NAMED_STRING: Final = {
    name: Schema(Type.STRING, name=name, version=1) for name in (JSON_NAME, UUID_NAME, XML_NAME)
}
_BUILTIN: Final = (
    _Builtin(16, 1000, BOOLEAN, _parse_boolean),
    _Builtin(17, 1001, BYTES, _parse_bytes),
    _Builtin(18, 1002, STRING, None),  # "char"
    _Builtin(19, 1003, STRING, None),  # name
    _Builtin(20, 1016, INT64, int),
    _Builtin(21, 1005, Schema(Type.INT16), int),
    _Builtin(22, 1006, array(Schema(Type.INT16)), _parse_vector),  # int2vector
    _Builtin(23, 1007, INT32, int),
    _Builtin(25, 1009, STRING, None),
    _Builtin(26, 1028, INT64, int),  # oid
    _Builtin(30, 1013, array(INT64), _parse_vector),  # oidvector
    _Builtin(114, 199, _NAMED_STRING[JSON_NAME], None),
    _Builtin(142, 143, _NAMED_STRING[XML_NAME], None),
    _Builtin(BOX, 1020, STRING, None),
    _Builtin(700, 1021, Schema(Type.FLOAT32), _parse_single),
    _Builtin(701, 1022, FLOAT64, float),
    _Builtin(1042, 1014, STRING, _parse_padded),
    _Builtin(1043, 1015, STRING, None),
    _Builtin(1082, 1182, DATE, parse_date),
    _Builtin(1083, 1183, TIME, _parse_time),
    _Builtin(1114, 1115, TIMESTAMP, parse_timestamp),
    _Builtin(1184, 1185, TIMESTAMP, parse_timestamp),
    _Builtin(2950, 2951, _NAMED_STRING[UUID_NAME], None),
    _Builtin(3802, 3807, _NAMED_STRING[JSON_NAME], None),
)
_BY_OID: Final = {one.oid: Mapped(one.schema, one.parse) for one in _BUILTIN}
_ITEM_OF: Final = {one.array_oid: one.oid for one in _BUILTIN}
NUMERIC: Final = 1700
WALL_CLOCK: Final = 1114
"""timestamp without time zone"""
_NUMERIC_ARRAY: Final = 1231
_ITEM_OF[_NUMERIC_ARRAY] = NUMERIC
_TEXT: Final = Mapped(STRING, None)


class TypeInfo(NamedTuple):
    """What the catalog says of a type: enough to find one that is known by its number."""

    oid: int
    base: int = 0
    """Of a domain: the type it is made of."""
    item: int = 0
    """Of an array: the type of its items."""
    delimiter: str = ","
    """Of an array: what stands between items."""
    dimensions: int = 0
    """Of an array: the dimensions that its column is declared with. 0: unknown, and not checked."""


def mapped(
    info: TypeInfo, modifier: int = -1, numeric_mapping: str = "none", zone: tzinfo = UTC
) -> Mapped:
    """How values of this type travel; `zone` is that of times without one.

    What has no better shape travels as PostgreSQL's text.
    """
    oid = info.base or info.oid
    if oid == NUMERIC:
        return _numeric(modifier, numeric_mapping)
    if oid == WALL_CLOCK and zone is not UTC:
        return Mapped(TIMESTAMP, partial(parse_timestamp, zone=zone))
    if oid in _BY_OID:
        return _BY_OID[oid]
    item = _ITEM_OF.get(oid, info.item)
    if item:
        of = mapped(TypeInfo(item), modifier, numeric_mapping, zone)
        delimiter = ";" if item == BOX else info.delimiter
        schema = array(optional(of.schema))
        for _ in range(info.dimensions - 1):
            schema = array(optional(schema))
        return Mapped(schema, lambda text: parse_array(text, of.parse, delimiter, info.dimensions))
    return _TEXT


def is_known(oid: int) -> bool:
    """Whether the type's number alone says everything."""
    return oid == NUMERIC or oid in _BY_OID or oid in _ITEM_OF


def optional(schema: Schema) -> Schema:
    """The same shape, or nothing."""
    if schema.optional:
        return schema
    values = {**vars(schema), "optional": True}
    return Schema(**values)


def _numeric(modifier: int, mapping: str) -> Mapped:
    """Exact, if it is declared how many digits there are after the point; else as text."""
    if modifier < 4:
        return Mapped(FLOAT64, _parse_double) if mapping.startswith("best_fit") else _TEXT
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if scale > 1023:  # a negative scale: 11 bits, signed
        precision, scale = precision + 2048 - scale, 0
    if scale == 0 and mapping != "none" and precision <= 18:
        return Mapped(INT32 if precision <= 9 else INT64, _parse_whole)
    if mapping.startswith("best_fit"):
        return Mapped(FLOAT64, _parse_double)
    parameters = ((SCALE, str(scale)), (PRECISION, str(precision)))
    return Mapped(
        Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters), _parse_decimal
    )


def _parse_decimal(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ConnectError(
            f"A numeric column holds {text}, which a decimal cannot say; numeric.mapping=best_fit (or "
            "decimal.handling.mode=double) reads such columns as doubles."
        )
    return number


def _parse_double(text: str) -> float:
    number = float(text)
    if math.isinf(number) and text.lstrip("-")[0].isdigit():
        raise ConnectError(
            f"A numeric column holds {text[:20]}…, which exceeds the largest double; numeric.mapping="
            "none (or decimal.handling.mode=precise) keeps such numbers."
        )
    return number


def _parse_whole(text: str) -> int:
    return int(_parse_decimal(text))


def parse_array(
    text: str, parse: Parse | None, delimiter: str = ",", dimensions: int = 0
) -> list[Any]:
    """An array's text as a list (of lists, if it has more dimensions).

    PostgreSQL lets any column hold arrays of any dimensions, but a record's shape is one for all
    rows: ConnectError if there are not as many as `dimensions` says, unless that is 0.
    """
    start = text.find("{")  # before it there may be bounds, as in [0:1]={1,2}
    if start < 0:
        raise ConnectError(f"PostgreSQL sent {text[:80]}, which is no array as it writes them.")
    found = len(text) - start - len(text[start:].lstrip("{"))
    if dimensions and found != dimensions and text[start:] != "{}":
        raise ConnectError(
            f"The value is an array of {_counted(found)}, but the type says "
            f"{_counted(dimensions)}. Declare the column with {'[]' * found} behind the type of its "
            "items, or read it as text by a query."
        )
    items, end = _parse_items(text, start + 1, parse, delimiter)
    if end != len(text):
        raise ConnectError("PostgreSQL sent an array that does not end where it should.")
    return items


def _counted(dimensions: int) -> str:
    return "1 dimension" if dimensions == 1 else f"{dimensions} dimensions"


def _parse_items(text: str, at: int, parse: Parse | None, delimiter: str) -> tuple[list[Any], int]:
    items: list[Any] = []
    while text[at] != "}":
        if text[at] == "{":
            item, at = _parse_items(text, at + 1, parse, delimiter)
            items.append(item)
        elif text[at] == '"':
            word, at = _parse_quoted(text, at + 1)
            items.append(parse(word) if parse else word)
        else:
            ends = (text.find(delimiter, at), text.find("}", at))
            end = min(position for position in ends if position > 0)
            word, at = text[at:end], end
            items.append(None if word == "NULL" else parse(word) if parse else word)
        if text[at] == delimiter:
            at += 1
    return items, at + 1


def _parse_quoted(text: str, at: int) -> tuple[str, int]:
    letters: list[str] = []
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
        letters.append(text[at])
        at += 1
    return "".join(letters), at + 1
