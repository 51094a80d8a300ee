"""TimestampConverter: converts times between strings, numbers, dates, times and timestamps."""

import dataclasses
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from strom.connect.api import Field, PoisonRecord, Schema, Type
from strom.connect.api.schema import DATE_NAME, NO_DEFAULT, TIME_NAME, TIMESTAMP_NAME
from strom.connect.logical_values import (
    DAY_MS,
    date_to_days,
    days_to_date,
    has_default,
    millis_to_time,
    millis_to_timestamp,
    time_to_millis,
    timestamp_to_millis,
)
from strom.connect.setting_forms import choice, string
from strom.connect.transforms.contract import (
    NullSettings,
    Part,
    PartTransform,
    problem_of,
    with_fields,
)
from strom.connect.transforms.date_patterns import DatePattern

_LONG_MAX: Final = 2**63 - 1
_PER_SECOND: Final = {
    "seconds": 1,
    "milliseconds": 1_000,
    "microseconds": 1_000_000,
    "nanoseconds": 1_000_000_000,
}
_NAMED: Final = {"Date": DATE_NAME, "Time": TIME_NAME, "Timestamp": TIMESTAMP_NAME}


@dataclass(frozen=True, kw_only=True)
class TimestampConverterSettings(NullSettings):
    """Which times to convert, and to what."""

    field: str = string("field", "The field with the time; empty for the whole key or value.", "")
    target: str = string(
        "target.type",
        "The type to convert to.",
        required=True,
        choices=("string", "unix", "Date", "Time", "Timestamp"),
    )
    format: str = string(
        "format", "The pattern of strings, in the syntax of Java's SimpleDateFormat.", ""
    )
    precision: str = choice(
        "unix.precision",
        "The unit since the epoch of the target type unix, or of numbers in the input.",
        tuple(_PER_SECOND),
        "milliseconds",
    )

    def validate(self) -> dict[str, str]:
        if self.target == "string" and not self.format.strip():
            return {"format": "The target type string needs a format, such as yyyy-MM-dd."}
        return problem_of("format", lambda: DatePattern(self.format))


class TimestampConverter(PartTransform):
    """Converts the time in a field, or the whole key or value, to another type."""

    settings_class = TimestampConverterSettings

    def __init__(self, settings: TimestampConverterSettings, part: Part) -> None:
        super().__init__(settings, part)
        self._pattern = DatePattern(settings.format) if settings.format.strip() else None

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        name = self.settings.field
        if schema is None:
            if value is None or not name:
                return None, self._converted(None, value)
            given = self.map_value(value)
            return None, {**given, name: self._converted(None, given.get(name))}
        if not name:
            _check_time(schema)
            return self._target_schema(schema.optional), self._converted(schema, value)
        updated = self._derived(schema)
        if value is None:
            return updated, None
        return updated, self._convert_field(schema, self.struct_value(value))

    def _convert_field(self, schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
        values = self.field_values(given, schema.fields)
        field = schema.field(self.settings.field)
        if field is not None:
            _check_time(field.schema)
            values[field.name] = self._converted(field.schema, values[field.name])
        return values

    def derive(self, schema: Schema) -> Schema:
        fields = [
            Field(field.name, self._target_schema(field.schema.optional))
            if field.name == self.settings.field
            else field
            for field in self.struct_fields(schema)
        ]
        default = self._convert_field(schema, schema.default) if has_default(schema) else NO_DEFAULT
        changed = with_fields(schema, fields)
        return dataclasses.replace(changed, optional=schema.optional, default=default)

    def _target_schema(self, optional: bool) -> Schema:
        target = self.settings.target
        if target == "string":
            return Schema(Type.STRING, optional)
        if target == "unix":
            return Schema(Type.INT64, optional)
        kind = Type.INT64 if target == "Timestamp" else Type.INT32
        return Schema(kind, optional, name=_NAMED[target], version=1)

    def _converted(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        return self._from_millis(self._to_millis(schema, value))

    def _to_millis(self, schema: Schema | None, value: Any) -> int:
        if isinstance(value, str):
            return self._read_text(value)
        if isinstance(value, dt.datetime):
            return timestamp_to_millis(value)
        if isinstance(value, dt.date):
            return date_to_days(value) * DAY_MS
        if isinstance(value, dt.time):
            return time_to_millis(value)
        if type(value) is int and (schema is None or schema.name not in _NAMED.values()):
            return _scaled(value, 1_000, _PER_SECOND[self.settings.precision])
        raise PoisonRecord(f"Cannot convert {type(value).__name__} to a time.")

    def _read_text(self, text: str) -> int:
        if self._pattern is None:
            raise PoisonRecord("TimestampConverter needs a format to parse strings.")
        try:
            return self._pattern.parse(text)
        except ValueError as error:
            raise PoisonRecord(str(error)) from None

    def _from_millis(self, millis: int) -> Any:
        match self.settings.target:
            case "string":
                return self._pattern.format(millis) if self._pattern is not None else ""
            case "unix":
                return _scaled(millis, _PER_SECOND[self.settings.precision], 1_000)
            case "Date":
                return days_to_date(millis // DAY_MS)
            case "Time":
                return millis_to_time(millis % DAY_MS)
            case _:
                return millis_to_timestamp(millis)


def _check_time(schema: Schema) -> None:
    known = schema.name in _NAMED.values() or schema.type in (Type.STRING, Type.INT64)
    if not known:
        raise PoisonRecord(f"Cannot convert {schema.type.value} to a time.")


def _scaled(number: int, times: int, per: int) -> int:
    """`number` in another unit, truncated towards zero and saturated at a long, as in Java."""
    scaled = abs(number) * times // per
    return min(scaled, _LONG_MAX) if number >= 0 else max(-scaled, -_LONG_MAX - 1)
