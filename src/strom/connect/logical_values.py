"""The four logical types: Python values ↔ the plain values that represent them.

A decimal is its unscaled value as big-endian bytes, a date the days and a timestamp the milliseconds
since the epoch, a time the milliseconds since midnight.
"""

import datetime as dt
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

from strom.connect.api import PoisonRecord, Schema, Type
from strom.connect.api.schema import (
    DATE_NAME,
    DECIMAL,
    NO_DEFAULT,
    SCALE,
    TIME_NAME,
    TIMESTAMP_NAME,
)

INTEGER_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
UTC_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
DAY_MS: Final = 24 * 60 * 60 * 1000
_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_ONE_MS: Final = dt.timedelta(milliseconds=1)
_EXACT: Final = Context(prec=100_000)
"""Exact arithmetic: Python's default context rounds decimals to 28 digits."""

Encoder = Callable[[Any], Any]


def has_default(schema: Schema) -> bool:
    """Whether a missing value is replaced by a default other than None."""
    return schema.default is not NO_DEFAULT and schema.default is not None


def map_schemas(schema: Schema) -> tuple[Schema, Schema]:
    """The schemas of a map's keys and values."""
    if schema.key is None or schema.value is None:
        raise PoisonRecord("A map's keys and values need a schema.")
    return schema.key, schema.value


def decimal_scale(schema: Schema) -> int:
    """The scale of a decimal's schema."""
    text = schema.parameter(SCALE)
    if text is None:
        raise PoisonRecord("A decimal's schema needs the parameter scale.")
    try:
        return int(text)
    except ValueError:
        raise PoisonRecord(f"A decimal's scale must be an integer, not {text}.") from None


def unscaled_to_decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def decimal_to_unscaled(value: Any, scale: int) -> int:
    """The unscaled value of a decimal at this scale."""
    if type(value) is not Decimal:
        raise PoisonRecord(f"Expected a decimal, not {type(value).__name__}.")
    exponent = value.as_tuple().exponent
    if -exponent != scale if isinstance(exponent, int) else True:
        raise PoisonRecord(f"{value} exceeds the scale of {scale} of its schema.")
    return int(value.scaleb(scale, _EXACT))


def unscaled_bytes(unscaled: int) -> bytes:
    """The shortest big-endian two's complement representation."""
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


def millis_to_timestamp(millis: int) -> dt.datetime:
    try:
        return UTC_EPOCH + dt.timedelta(milliseconds=millis)
    except OverflowError:
        raise PoisonRecord(f"Timestamp {millis} ms is outside the years 1 to 9999.") from None


def timestamp_to_millis(value: Any) -> int:
    """Milliseconds since the epoch; a datetime without a time zone counts as UTC."""
    if not isinstance(value, dt.datetime):
        raise PoisonRecord(f"Expected a timestamp, not {type(value).__name__}.")
    if value.tzinfo is None:
        value = value.replace(tzinfo=dt.UTC)
    since: dt.timedelta = value - UTC_EPOCH
    return since // _ONE_MS


def days_to_date(days: int) -> dt.date:
    try:
        return dt.date.fromordinal(days + _EPOCH_DAY)
    except (ValueError, OverflowError):
        raise PoisonRecord(f"Date of day {days} is outside the years 1 to 9999.") from None


def date_to_days(value: Any) -> int:
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        raise PoisonRecord(f"Expected a date, not {type(value).__name__}.")
    return value.toordinal() - _EPOCH_DAY


def millis_to_time(millis: int) -> dt.time:
    if not 0 <= millis < DAY_MS:
        raise PoisonRecord(f"Time {millis} ms is outside a day.")
    return (UTC_EPOCH + dt.timedelta(milliseconds=millis)).time()


def time_to_millis(value: Any) -> int:
    if not isinstance(value, dt.time):
        raise PoisonRecord(f"Expected a time, not {type(value).__name__}.")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


_ENCODERS: Final[dict[str, Encoder]] = {
    DATE_NAME: date_to_days,
    TIME_NAME: time_to_millis,
    TIMESTAMP_NAME: timestamp_to_millis,
}
_DECODERS: Final[dict[str, Encoder]] = {
    DATE_NAME: days_to_date,
    TIME_NAME: millis_to_time,
    TIMESTAMP_NAME: millis_to_timestamp,
}


def encoder(schema: Schema) -> Encoder | None:
    """Converts values of a logical type to plain ones; None for all other schemas."""
    if schema.name == DECIMAL:
        scale = decimal_scale(schema)
        return lambda value: unscaled_bytes(decimal_to_unscaled(value, scale))
    return None if schema.name is None else _ENCODERS.get(schema.name)


def decoder(schema: Schema) -> Encoder | None:
    """Converts plain values to those of a logical type; None for all other schemas."""
    if schema.name == DECIMAL:
        scale = decimal_scale(schema)
        return lambda data: unscaled_to_decimal(int.from_bytes(data, "big", signed=True), scale)
    return None if schema.name is None else _DECODERS.get(schema.name)
