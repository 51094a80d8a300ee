"""MaskField: hide values behind zeros, empty texts, or one of your own."""

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from strom.connect.api import Kind, PoisonRecord, Schema, Type, setting
from strom.connect.converters.json_values import as_single
from strom.connect.logical_values import UTC_EPOCH, decimal_scale, unscaled_to_decimal
from strom.connect.transforms.contract import (
    NullSettings,
    Part,
    PartTransform,
    field_value,
    map_value,
    struct_schema,
    struct_value,
)
from strom.connect.transforms.java_numbers import wrapped

_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


@dataclass(frozen=True, kw_only=True)
class MaskFieldSettings(NullSettings):
    """What to hide, and behind what."""

    fields: tuple[str, ...] = setting("fields", Kind.LIST, "The fields to mask.", (), required=True)
    replacement: str | None = setting(
        "replacement", Kind.STRING, "What to put in their place, for numbers and texts only."
    )


class MaskField(PartTransform):
    """Puts 0, false, an empty text or list, or the replacement, in place of fields' values."""

    settings_class = MaskFieldSettings

    def __init__(self, settings: MaskFieldSettings, part: Part) -> None:
        super().__init__(settings, part)
        self._fields = frozenset(settings.fields)

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        """The value with its fields masked; the schema is the same."""
        if schema is None:
            given = map_value(value, "MaskField")
            hidden = {name: self._masked(None, given.get(name)) for name in self.settings.fields}
            return None, {**given, **hidden}
        given = struct_value(value, "MaskField")
        replace_null = self.settings.replace_null
        masked = {}
        for field in struct_schema(schema, "MaskField").fields:
            found = field_value(given, field, replace_null)
            if field.name in self._fields:
                found = self._masked(field.schema, found)
            masked[field.name] = found
        return schema, masked

    def _masked(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        if self.settings.replacement is None:
            return _empty(schema, value)
        try:
            return _replacement(schema, value, self.settings.replacement)
        except InvalidOperation:
            raise PoisonRecord(f"{self.settings.replacement} is no number to mask one.") from None


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
        raise PoisonRecord("A struct cannot be masked; mask its fields.")
    if isinstance(value, bool | int | float | str | list | dict):
        return type(value)()
    raise PoisonRecord(f"A {type(value).__name__} cannot be masked.")


def _replacement(schema: Schema | None, value: Any, text: str) -> Any:
    if isinstance(value, str):
        return text
    if isinstance(value, Decimal):
        return Decimal(text)
    if isinstance(value, float):
        number = float(Decimal(text))
        return as_single(number) if schema is not None and schema.type is Type.FLOAT32 else number
    if isinstance(value, int) and not isinstance(value, bool):
        return wrapped(int(Decimal(text)), 64 if schema is None else _BITS[schema.type])
    raise PoisonRecord(f"A {type(value).__name__} cannot be masked with a text.")
