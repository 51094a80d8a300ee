"""Timestamps finer than milliseconds, which Connect's logical type does not support."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from strom.connect.api import Schema
from strom.connect.api.schema import INT64, STRING, TIMESTAMP_NAME
from strom.connect.connectors.databases.dialect import Column
from strom.connect.connectors.databases.postgres_types import optional
from strom.connect.logical_values import UTC_EPOCH

LOGICAL: Final = "connect_logical"


def _micros(moment: datetime) -> int:
    return (moment - UTC_EPOCH) // timedelta(microseconds=1)


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


_FORMS: Final[dict[str, tuple[Schema, Callable[[datetime], Any]]]] = {
    "micros_long": (INT64, _micros),
    "micros_string": (STRING, lambda moment: str(_micros(moment))),
    "micros_iso_datetime_string": (STRING, _iso),
}
CHOICES: Final = (LOGICAL, *_FORMS)


def with_granularity(column: Column, granularity: str) -> Column:
    """The column with its times in this form; other columns are unchanged."""
    if granularity == LOGICAL or column.schema.name != TIMESTAMP_NAME:
        return column
    schema, write = _FORMS[granularity]
    parse = column.parse
    return column._replace(
        schema=optional(schema) if column.schema.optional else schema,
        parse=write if parse is None else lambda value: write(parse(value)),
    )
