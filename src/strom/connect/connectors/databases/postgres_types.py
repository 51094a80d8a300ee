"""PostgreSQL's types as Connect schemas, parsed from the server's text representation.

Reading everything as text makes one mapping serve queries, snapshots and the change stream: all three get
the same text for the same value. It requires `TimeZone=UTC`, `DateStyle=ISO`,
`bytea_output=hex` and `IntervalStyle=iso_8601`.
"""

import dataclasses
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
"""The session settings that determine the text representation."""

_SINGLE: Final = struct.Struct("f")
Parse = Callable[[str], Any]


class PostgresMapping(NamedTuple):
    """The schema of one type, and its parser; `parse` is None if the text is the value."""

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
    """The single-precision number: the text has exactly as many digits as identify it."""
    number: float = _SINGLE.unpack(_SINGLE.pack(float(text)))[0]
    return number


def _parse_padded(text: str) -> str:
    """Strip the padding of char(n), which has no meaning and is not always present."""
    return text.rstrip(" ")


def parse_date(text: str) -> date:
    """A date; dates outside Python's range become the nearest one."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return date.min if _is_early(text) else date.max


def parse_timestamp(text: str, zone: tzinfo = UTC) -> datetime:
    """A timestamp, in `zone` if it has none; outside Python's range: the nearest one."""
    try:
        moment = datetime.fromisoformat(text)
        return from_wall_clock(moment, zone) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        limit = datetime.min if _is_early(text) else datetime.max  # noqa: DTZ901
        return limit.replace(tzinfo=UTC)


def _parse_time(text: str) -> time:
    return time.max if text.startswith("24:") else time.fromisoformat(text)


def _parse_vector(text: str) -> list[int]:
    """The numbers of an int2vector or oidvector, whose text representation differs from arrays."""
    return [int(number) for number in text.split()]


def _is_early(text: str) -> bool:
    return text.startswith(("-", "0001-")) or text.endswith("BC")


BOX: Final = 603
"""The only built-in type whose arrays have a delimiter other than a comma."""
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
_BY_OID: Final = {one.oid: PostgresMapping(one.schema, one.parse) for one in _BUILTIN}
_ITEM_OF: Final = {one.array_oid: one.oid for one in _BUILTIN}
NUMERIC: Final = 1700
WALL_CLOCK: Final = 1114
"""timestamp without time zone"""
_NUMERIC_ARRAY: Final = 1231
_ITEM_OF[_NUMERIC_ARRAY] = NUMERIC
_TEXT: Final = PostgresMapping(STRING, None)


class TypeInfo(NamedTuple):
    """A type in the catalog: enough to resolve it to a built-in one."""

    oid: int
    base: int = 0
    """For a domain: its base type."""
    item: int = 0
    """For an array: the type of its items."""
    delimiter: str = ","
    """For an array: the delimiter of its items."""
    dimensions: int = 0
    """For an array: the declared dimensions of its column. 0: unknown, and not checked."""


def mapped(
    info: TypeInfo, modifier: int = -1, numeric_mapping: str = "none", zone: tzinfo = UTC
) -> PostgresMapping:
    """The mapping of this type; `zone` applies to times without one.

    A type without an equivalent is mapped to PostgreSQL's text.
    """
    oid = info.base or info.oid
    if oid == NUMERIC:
        return _numeric(modifier, numeric_mapping)
    if oid == WALL_CLOCK and zone is not UTC:
        return PostgresMapping(TIMESTAMP, partial(parse_timestamp, zone=zone))
    if oid in _BY_OID:
        return _BY_OID[oid]
    item = _ITEM_OF.get(oid, info.item)
    if item:
        of = mapped(TypeInfo(item), modifier, numeric_mapping, zone)
        delimiter = ";" if item == BOX else info.delimiter
        schema = array(optional(of.schema))
        for _ in range(info.dimensions - 1):
            schema = array(optional(schema))
        return PostgresMapping(
            schema, lambda text: parse_array(text, of.parse, delimiter, info.dimensions)
        )
    return _TEXT


def is_known(oid: int) -> bool:
    """Whether the type's OID alone determines the mapping."""
    return oid == NUMERIC or oid in _BY_OID or oid in _ITEM_OF


def optional(schema: Schema) -> Schema:
    """The same schema, but optional."""
    return schema if schema.optional else dataclasses.replace(schema, optional=True)


def _numeric(modifier: int, mapping: str) -> PostgresMapping:
    """A decimal if the scale is declared; else a string."""
    if modifier < 4:
        return PostgresMapping(FLOAT64, _parse_double) if mapping.startswith("best_fit") else _TEXT
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    if scale > 1023:  # the scale is a signed number of 11 bits
        precision, scale = precision + 2048 - scale, 0
    if scale == 0 and mapping != "none" and precision <= 18:
        return PostgresMapping(INT32 if precision <= 9 else INT64, _parse_whole)
    if mapping.startswith("best_fit"):
        return PostgresMapping(FLOAT64, _parse_double)
    parameters = ((SCALE, str(scale)), (PRECISION, str(precision)))
    return PostgresMapping(
        Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters), _parse_decimal
    )


def _parse_decimal(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ConnectError(
            f"A numeric column contains {text}, which a decimal cannot represent; "
            "numeric.mapping=best_fit (or "
            "decimal.handling.mode=double) reads such columns as doubles."
        )
    return number


def _parse_double(text: str) -> float:
    number = float(text)
    if math.isinf(number) and text.lstrip("-")[0].isdigit():
        raise ConnectError(
            f"A numeric column contains {text[:20]}…, which exceeds the largest double; numeric.mapping="
            "none (or decimal.handling.mode=precise) keeps such numbers."
        )
    return number


def _parse_whole(text: str) -> int:
    return int(_parse_decimal(text))


def parse_array(
    text: str, parse: Parse | None, delimiter: str = ",", dimensions: int = 0
) -> list[Any]:
    """Parse an array to a list (of lists, if it has more dimensions).

    PostgreSQL accepts arrays of any dimensions in any column, but a record's schema is the same for all
    rows: ConnectError if the dimensions differ from `dimensions`, unless that is 0.
    """
    start = text.find("{")  # bounds may precede it, as in [0:1]={1,2}
    if start < 0:
        raise ConnectError(f"PostgreSQL sent {text[:80]}, which is not a valid array.")
    found = len(text) - start - len(text[start:].lstrip("{"))
    if dimensions and found != dimensions and text[start:] != "{}":
        raise ConnectError(
            f"The value is an array of {_counted(found)}, but the column is declared with "
            f"{_counted(dimensions)}. Declare the column with {'[]' * found} after the type of its "
            "items, or read it as text by a query."
        )
    items, end = _parse_items(text, start + 1, parse, delimiter)
    if end != len(text):
        raise ConnectError("PostgreSQL sent an array with trailing characters.")
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
