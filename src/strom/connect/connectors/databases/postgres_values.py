"""Converts record values for PostgreSQL: the types of new columns, and what existing ones accept."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from functools import partial
from typing import Any, Final

from strom.connect.api import Schema, Type
from strom.connect.api.schema import DATE_NAME, DECIMAL, SCALE, TIME_NAME, TIMESTAMP_NAME
from strom.connect.connectors.databases.dialect import as_it_is
from strom.connect.connectors.databases.plain_values import (
    json_text,
    to_boolean,
    to_date,
    to_float,
    to_time,
    to_timestamp,
    to_whole,
)
from strom.connect.connectors.databases.postgres_types import JSON_NAME, PRECISION, UUID_NAME
from strom.connect.connectors.databases.time_zones import to_wall_clock

_MOST_PRECISE: Final = 1000
_NEW: Final = {
    Type.INT8: "smallint",
    Type.INT16: "smallint",
    Type.INT32: "integer",
    Type.INT64: "bigint",
    Type.FLOAT32: "real",
    Type.FLOAT64: "double precision",
    Type.BOOLEAN: "boolean",
    Type.STRING: "text",
    Type.BYTES: "bytea",
    Type.MAP: "jsonb",
    Type.STRUCT: "jsonb",
}
_NEW_BY_NAME: Final = {
    DATE_NAME: "date",
    TIME_NAME: "time",
    TIMESTAMP_NAME: "timestamp with time zone",
    UUID_NAME: "uuid",
    JSON_NAME: "jsonb",
}
WALL_CLOCK_NAME: Final = "timestamp without time zone"
_WHOLE: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})


def column_type(schema: Schema) -> str:
    """The type of a new column for such values."""
    if schema.name == DECIMAL:
        precision = schema.parameter(PRECISION)
        if precision is None or int(precision) > _MOST_PRECISE:
            return "numeric"
        return f"numeric({precision}, {schema.parameter(SCALE) or 0})"
    if schema.name in _NEW_BY_NAME:
        return _NEW_BY_NAME[schema.name]
    if schema.type is Type.ARRAY:
        items = schema.value
        plain = items is not None and items.type not in {Type.ARRAY, Type.MAP, Type.STRUCT}
        return f"{column_type(items)}[]" if plain and items is not None else "jsonb"
    return _NEW[schema.type]


def _base(type_name: str) -> str:
    """The type's name without its modifier: `timestamp(3) with time zone`."""
    start = type_name.find("(")
    return type_name if start < 0 else type_name[:start] + type_name[type_name.find(")") + 1 :]


def is_wall_clock(type_name: str) -> bool:
    """Whether it is a timestamp without time zone, under either name."""
    return _base(type_name) in {WALL_CLOCK_NAME, "timestamp"}


def is_copied_as_text(type_name: str) -> bool:
    """Whether values are sent as text, which the server casts."""
    return _base(type_name) not in _CONVERTERS


def converter(
    type_name: str, schema: Schema | None, zone: tzinfo = UTC
) -> Callable[[Any], Any] | None:
    """The conversion of values of this schema for a column of this type; None: no conversion.

    `zone` applies to columns without a time zone.
    """
    base = _base(type_name)
    if base == WALL_CLOCK_NAME:
        return partial(_to_wall_clock, zone=zone)
    if base == f"{WALL_CLOCK_NAME}[]":
        return partial(_to_wall_clocks, zone=zone)
    if base == "box[]":
        return partial(_to_text_form, delimiter=";")
    if base in {"int2vector", "oidvector"}:
        return _to_vector
    if base not in _CONVERTERS:
        return _to_text_form
    fits, convert = _CONVERTERS[base]
    return None if schema is not None and fits(schema) else convert


def key_identity(type_name: str) -> Callable[[Any], Any] | None:
    """Maps values so that they are equal if a NOT NULL column of this type stores them as the same.

    Only for types with simple rules that are common as keys. `numeric`, for example, keeps trailing
    zeros but ignores them in comparisons, and rounds to its scale.
    """
    limited = _LIMITED_TEXT.fullmatch(type_name)
    return _without_excess_blanks(int(limited[1])) if limited else _IDENTITIES.get(type_name)


def _uuid_digits(text: str | None) -> str | None:
    return text and text.lower().replace("-", "")


def _without_excess_blanks(length: int) -> Callable[[str | None], str | None]:
    """Blanks beyond the length are truncated; the database rejects anything else there."""
    return lambda text: text and text[:length] + text[length:].rstrip(" ")


_LIMITED_TEXT: Final = re.compile(r"character varying\((\d+)\)")

_IDENTITIES: Final = {
    "smallint": as_it_is,
    "integer": as_it_is,
    "bigint": as_it_is,
    "text": as_it_is,
    "character varying": as_it_is,
    "uuid": _uuid_digits,
}


def _to_numeric(value: Any) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, bool | dict | list):
        return json_text(value)
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _to_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _to_wall_clock(value: Any, zone: tzinfo = UTC) -> datetime:
    return to_wall_clock(to_timestamp(value), zone)


def _to_wall_clocks(value: Any, zone: tzinfo) -> str:
    """The text representation of an array of such times; a string passes through."""

    def shown(item: Any) -> Any:
        if isinstance(item, list):
            return [shown(one) for one in item]
        return None if item is None else _to_wall_clock(item, zone)

    return _to_text_form(shown(value) if isinstance(value, list) else value)


def _to_json(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def _to_vector(value: Any) -> str:
    """The text representation of PostgreSQL's vectors, which have no braces."""
    return " ".join(map(str, value)) if isinstance(value, list) else _to_text(value)


def _to_text_form(value: Any, delimiter: str = ",") -> str:
    """The text representation of any value, including arrays."""
    if isinstance(value, list):
        return "{" + delimiter.join(_array_item(item, delimiter) for item in value) + "}"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return _to_text(value)


def _array_item(item: Any, delimiter: str) -> str:
    if item is None:
        return "NULL"
    if isinstance(item, list):
        return _to_text_form(item, delimiter)
    return '"' + _to_text_form(item).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unnamed(*types: Type) -> Callable[[Schema], bool]:
    return lambda schema: schema.type in types and schema.name not in {DECIMAL, *_NEW_BY_NAME}


def _named(name: str) -> Callable[[Schema], bool]:
    return lambda schema: schema.name == name


def _is_string(schema: Schema) -> bool:
    return schema.type is Type.STRING


_Fits = Callable[[Schema], bool]
_CONVERTERS: Final[dict[str, tuple[_Fits, Callable[[Any], Any]]]] = {
    "smallint": (_unnamed(*_WHOLE), to_whole),
    "integer": (_unnamed(*_WHOLE), to_whole),
    "bigint": (_unnamed(*_WHOLE), to_whole),
    "real": (_unnamed(Type.FLOAT32, Type.FLOAT64), to_float),
    "double precision": (_unnamed(Type.FLOAT32, Type.FLOAT64), to_float),
    "numeric": (_named(DECIMAL), _to_numeric),
    "boolean": (_unnamed(Type.BOOLEAN), to_boolean),
    "text": (_is_string, _to_text),
    "character varying": (_is_string, _to_text),
    "character": (_is_string, _to_text),
    "bytea": (_unnamed(Type.BYTES), _to_bytes),
    "date": (_named(DATE_NAME), to_date),
    "time without time zone": (_named(TIME_NAME), to_time),
    WALL_CLOCK_NAME: (lambda schema: False, _to_wall_clock),
    "timestamp with time zone": (_named(TIMESTAMP_NAME), to_timestamp),
    "uuid": (_is_string, _to_text),
    "json": (_is_string, _to_json),
    "jsonb": (_is_string, _to_json),
}
"""By column type: the schemas that it accepts unchanged, and the conversion of all others."""
