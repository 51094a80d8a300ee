"""Converts values where the schema of a record and the type of a column differ.

ValueError and TypeError mean that a value cannot be converted.
"""

import json
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from strom.connect.connectors.databases.time_zones import from_wall_clock
from strom.connect.connectors.plain_json import to_plain
from strom.connect.logical_values import DAY_MS, UTC_EPOCH, time_to_millis


def to_whole(value: Any) -> int:
    """An integer; times become milliseconds and dates days since the epoch."""
    if isinstance(value, datetime):
        return (value - UTC_EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, date):
        return value.toordinal() - UTC_EPOCH.toordinal()
    if isinstance(value, time):
        return time_to_millis(value)
    whole = int(value)
    if isinstance(value, float | Decimal) and whole != value:
        raise ValueError(f"{value} is not an integer")
    return whole


def to_float(value: Any) -> float:
    return float(value)


def to_boolean(value: Any) -> bool:
    if isinstance(value, str):
        return {"true": True, "t": True, "false": False, "f": False}[value.lower()]
    return bool(value)


def to_timestamp(value: Any, zone: tzinfo = UTC) -> datetime:
    """A timestamp; numbers are milliseconds since the epoch, strings ISO 8601.

    `zone` applies to times without a zone.
    """
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, date):
        moment = datetime(value.year, value.month, value.day)  # noqa: DTZ001 (its zone below)
    elif isinstance(value, str):
        moment = datetime.fromisoformat(value)
    else:
        moment = UTC_EPOCH + timedelta(milliseconds=value)
    return from_wall_clock(moment, zone) if moment.tzinfo is None else moment


def to_date(value: Any) -> date:
    """A date; numbers are days since the epoch."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    if isinstance(value, str):
        return date.fromisoformat(value[:10])
    return UTC_EPOCH.date() + timedelta(days=value)


def to_time(value: Any) -> time:
    """A time of day; numbers are milliseconds since midnight."""
    if isinstance(value, time):
        return value
    if isinstance(value, str):
        return time.fromisoformat(value)
    return (UTC_EPOCH + timedelta(milliseconds=value % DAY_MS)).time()


def json_text(value: Any) -> str:
    """A structured value as JSON: decimals as strings, times as ISO 8601, bytes as base64."""
    return json.dumps(value, default=to_plain, ensure_ascii=False)
