"""SQLite's declared types as Connect schemas.

A column of SQLite accepts any value, regardless of its declared type. So values are converted to the
schema of the declared type, and an error names the column of one that cannot be.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final, NamedTuple

from strom.connect.api import ConnectError, Schema, Type
from strom.connect.api.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    DATE_NAME,
    DECIMAL,
    FLOAT64,
    INT64,
    SCALE,
    STRING,
    TIME,
    TIME_NAME,
    TIMESTAMP,
    TIMESTAMP_NAME,
    decimal,
)
from strom.connect.connectors.databases.plain_values import (
    json_text,
    to_boolean,
    to_date,
    to_float,
    to_time,
    to_timestamp,
    to_whole,
)
from strom.connect.connectors.databases.time_zones import in_zone


class SqliteMapping(NamedTuple):
    """The schema of one declared type, and its parser."""

    schema: Schema
    parse: Callable[[Any], Any]


_SCALED: Final = re.compile(r"\(\s*\d+\s*,\s*(\d+)\s*\)")
_EXACT: Final = re.compile(r"DECIMAL_TEXT\(\s*(\d+)\s*\)")
_NEW: Final = {
    Type.INT8: "INTEGER",
    Type.INT16: "INTEGER",
    Type.INT32: "INTEGER",
    Type.INT64: "INTEGER",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "REAL",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "TEXT",
    Type.BYTES: "BLOB",
    Type.ARRAY: "TEXT",
    Type.MAP: "TEXT",
    Type.STRUCT: "TEXT",
}
_NEW_BY_NAME: Final = {DATE_NAME: "DATE", TIME_NAME: "TIME", TIMESTAMP_NAME: "TIMESTAMP"}


def column_type(schema: Schema) -> str:
    """The type of a new column for such values.

    Decimals are stored as text, under a type whose name contains TEXT: SQLite would convert numbers to
    floating point.
    """
    if schema.name == DECIMAL:
        return f"DECIMAL_TEXT({schema.parameter(SCALE) or 0})"
    return _NEW_BY_NAME.get(schema.name or "") or _NEW[schema.type]


def mapped(declared: str, zone: tzinfo = UTC) -> SqliteMapping:
    """The mapping of a declared type, by SQLite's affinity rules, with dates in addition.

    `zone` applies to times without one.
    """
    name = declared.upper()
    exact, scaled = _EXACT.search(name), _SCALED.search(name)
    if exact:
        return _decimal(int(exact[1]))
    for word, of in _BY_WORD:
        if word in name:
            is_time = of.schema is TIMESTAMP
            return SqliteMapping(TIMESTAMP, partial(to_timestamp, zone=zone)) if is_time else of
    if scaled:
        return _decimal(int(scaled[1]))
    if any(word in name for word in ("REAL", "FLOA", "DOUB", "NUM", "DEC")):
        return SqliteMapping(FLOAT64, to_float)
    return SqliteMapping(STRING, _to_string)


_UNROUNDED: Final = Context(prec=100_000)
"""Exact arithmetic: Python's default context rounds decimals to 28 digits."""


def _decimal(scale: int) -> SqliteMapping:
    unit = Decimal(1).scaleb(-scale)

    def parse(value: Any) -> Decimal:
        number = Decimal(str(value))
        if not number.is_finite():
            raise ValueError(value)
        return number.quantize(unit, context=_UNROUNDED)

    return SqliteMapping(decimal(scale), parse)


def _to_string(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _to_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


_BY_WORD: Final = (
    ("BOOL", SqliteMapping(BOOLEAN, to_boolean)),
    ("TIMESTAMP", SqliteMapping(TIMESTAMP, to_timestamp)),
    ("DATETIME", SqliteMapping(TIMESTAMP, to_timestamp)),
    ("DATE", SqliteMapping(DATE, to_date)),
    ("TIME", SqliteMapping(TIME, to_time)),
    ("INT", SqliteMapping(INT64, to_whole)),
    ("CHAR", SqliteMapping(STRING, _to_string)),
    ("CLOB", SqliteMapping(STRING, _to_string)),
    ("TEXT", SqliteMapping(STRING, _to_string)),
    ("BLOB", SqliteMapping(BYTES, _to_bytes)),
)


def checked(parse: Callable[[Any], Any], column: str, declared: str) -> Callable[[Any], Any]:
    """Parse, and name the column of an invalid value."""

    def run(value: Any) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError, KeyError, OverflowError, ArithmeticError):
            raise ConnectError(
                f"Column {column} is declared {declared}, but contains an invalid "
                f"{type(value).__name__}: {str(value)[:80]}"
            ) from None

    return run


def stored(value: Any, zone: tzinfo = UTC) -> Any:
    """A record's value as SQLite stores it: numbers, text and bytes. Times have their UTC offset."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        return in_zone(to_timestamp(value), zone).isoformat(" ", "microseconds")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return json_text(value) if isinstance(value, list | dict) else value


def needs_storing(schema: Schema | None) -> bool:
    """Whether values of this schema need `stored`."""
    if schema is None or schema.name in {DATE_NAME, TIME_NAME, TIMESTAMP_NAME, DECIMAL}:
        return True
    return schema.type in {Type.ARRAY, Type.MAP, Type.STRUCT, Type.BOOLEAN}
