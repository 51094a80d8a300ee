"""SQLite's declared types as shapes of records.

A column of SQLite holds any value, whatever its type says. So values are made to fit the shape that
the type promises, and what does not fit is told, with the column's name.
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
    to_date,
    to_float,
    to_time,
    to_timestamp,
    to_whole,
)
from strom.connect.connectors.databases.time_zones import in_zone


class Mapped(NamedTuple):
    """How the values of one declared type travel."""

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

    Decimals are kept as text, under a type whose name has TEXT in it: as numbers, SQLite would make
    floating ones of them.
    """
    if schema.name == DECIMAL:
        return f"DECIMAL_TEXT({schema.parameter(SCALE) or 0})"
    return _NEW_BY_NAME.get(schema.name or "") or _NEW[schema.type]


def mapped(declared: str, zone: tzinfo = UTC) -> Mapped:
    """How values of a column with this type travel; by SQLite's own rules, and dates beyond them.

    `zone` is that of times which do not say theirs.
    """
    name = declared.upper()
    exact, scaled = _EXACT.search(name), _SCALED.search(name)
    if exact:
        return _decimal(int(exact[1]))
    for word, of in _BY_WORD:
        if word in name:
            is_time = of.schema is TIMESTAMP
            return Mapped(TIMESTAMP, partial(to_timestamp, zone=zone)) if is_time else of
    if scaled:
        return _decimal(int(scaled[1]))
    if any(word in name for word in ("REAL", "FLOA", "DOUB", "NUM", "DEC")):
        return Mapped(FLOAT64, to_float)
    return Mapped(STRING, _to_string)


_UNROUNDED: Final = Context(prec=100_000)
"""Python's default context rounds decimals to 28 digits."""


def _decimal(scale: int) -> Mapped:
    unit = Decimal(1).scaleb(-scale)

    def parse(value: Any) -> Decimal:
        number = Decimal(str(value))
        if not number.is_finite():
            raise ValueError(value)
        return number.quantize(unit, context=_UNROUNDED)

    return Mapped(decimal(scale), parse)


def _to_string(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _to_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _to_boolean(value: Any) -> bool:
    if isinstance(value, str):
        return {"true": True, "false": False, "t": True, "f": False}[value.lower()]
    return bool(value)


_BY_WORD: Final = (
    ("BOOL", Mapped(BOOLEAN, _to_boolean)),
    ("TIMESTAMP", Mapped(TIMESTAMP, to_timestamp)),
    ("DATETIME", Mapped(TIMESTAMP, to_timestamp)),
    ("DATE", Mapped(DATE, to_date)),
    ("TIME", Mapped(TIME, to_time)),
    ("INT", Mapped(INT64, to_whole)),
    ("CHAR", Mapped(STRING, _to_string)),
    ("CLOB", Mapped(STRING, _to_string)),
    ("TEXT", Mapped(STRING, _to_string)),
    ("BLOB", Mapped(BYTES, _to_bytes)),
)


def checked(parse: Callable[[Any], Any], column: str, declared: str) -> Callable[[Any], Any]:
    """Parse, and name the column where a value is none of its type."""

    def run(value: Any) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError, KeyError, OverflowError, ArithmeticError):
            raise ConnectError(
                f"Column {column} is declared {declared}, but holds a "
                f"{type(value).__name__} that is none: {str(value)[:80]}"
            ) from None

    return run


def stored(value: Any, zone: tzinfo = UTC) -> Any:
    """A record's value as SQLite keeps it: numbers, text and bytes. Times say their zone's offset."""
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
    """Whether values of this shape have to go through `stored`."""
    if schema is None or schema.name in {DATE_NAME, TIME_NAME, TIMESTAMP_NAME, DECIMAL}:
        return True
    return schema.type in {Type.ARRAY, Type.MAP, Type.STRUCT, Type.BOOLEAN}
