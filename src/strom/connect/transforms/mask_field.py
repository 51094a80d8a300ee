"""MaskField: replaces values by zeros, empty strings, or a replacement."""

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from strom.connect.api import Kind, PoisonRecord, Schema, Type, setting
from strom.connect.converters.java_text import wrapped
from strom.connect.converters.json_values import as_single
from strom.connect.logical_values import (
    INTEGER_BITS,
    UTC_EPOCH,
    decimal_scale,
    unscaled_to_decimal,
)
from strom.connect.setting_forms import string
from strom.connect.transforms.contract import NullSettings, Part, PartTransform


@dataclass(frozen=True, kw_only=True)
class MaskFieldSettings(NullSettings):
    """Which fields to mask, and with what."""

    fields: tuple[str, ...] = setting("fields", Kind.LIST, "The fields to mask.", (), required=True)
    replacement: str | None = string(
        "replacement", "The replacement value, for numbers and strings only."
    )


class MaskField(PartTransform):
    """Replaces the values of fields by 0, false, an empty string or list, or the replacement."""

    settings_class = MaskFieldSettings

    def __init__(self, settings: MaskFieldSettings, part: Part) -> None:
        super().__init__(settings, part)
        self._fields = frozenset(settings.fields)

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        """The value with masked fields; the schema does not change."""
        if schema is None:
            given = self.map_value(value)
            hidden = {name: self._masked(None, given.get(name)) for name in self.settings.fields}
            return None, {**given, **hidden}
        given = self.struct_value(value)
        masked = self.field_values(given, self.struct_fields(schema))
        for field in schema.fields:
            if field.name in self._fields:
                masked[field.name] = self._masked(field.schema, masked[field.name])
        return schema, masked

    def _masked(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        if self.settings.replacement is None:
            return _empty(schema, value)
        try:
            return _replacement(schema, value, self.settings.replacement)
        except InvalidOperation:
            raise PoisonRecord(
                f"The replacement {self.settings.replacement} is not a number, but the field is."
            ) from None


def _empty(schema: Schema | None, value: Any) -> Any:
    if isinstance(value, Decimal):
        return unscaled_to_decimal(0, 0 if schema is None else decimal_scale(schema))
    if isinstance(value, dt.datetime):
        return UTC_EPOCH
    if isinstance(value, dt.date):
        return UTC_EPOCH.date()
    if isinstance(value, dt.time):
        return dt.time()
    if schema is not None and schema.type is Type.STRUCT:
        raise PoisonRecord("Cannot mask a struct; mask its fields.")
    if isinstance(value, bool | int | float | str | list | dict):
        return type(value)()
    raise PoisonRecord(f"Cannot mask {type(value).__name__}.")


def _replacement(schema: Schema | None, value: Any, text: str) -> Any:
    if isinstance(value, str):
        return text
    if isinstance(value, Decimal):
        return Decimal(text)
    if isinstance(value, float):
        number = float(Decimal(text))
        return as_single(number) if schema is not None and schema.type is Type.FLOAT32 else number
    if isinstance(value, int) and not isinstance(value, bool):
        return wrapped(int(Decimal(text)), 64 if schema is None else INTEGER_BITS[schema.type])
    raise PoisonRecord(f"Cannot mask {type(value).__name__} with a string.")
