"""Cast: converts fields, or the whole key or value, to other types."""

import base64
import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from strom.connect.api import Field, Kind, PoisonRecord, Schema, Type, setting
from strom.connect.api.schema import DECIMAL
from strom.connect.converters.java_text import double_text, float_text
from strom.connect.converters.json_values import as_single
from strom.connect.converters.value_text import text_of
from strom.connect.logical_values import encoder, has_default
from strom.connect.schema_cache import SchemaCache
from strom.connect.transforms.contract import (
    NullSettings,
    Part,
    PartTransform,
    field_value,
    map_value,
    struct_schema,
    struct_value,
    with_fields,
)
from strom.connect.transforms.java_numbers import parse_point, parse_whole, whole_of

_TARGETS: Final = {
    "int8": Type.INT8,
    "int16": Type.INT16,
    "int32": Type.INT32,
    "int64": Type.INT64,
    "float32": Type.FLOAT32,
    "float64": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
}
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_NOT_CAST: Final = (Type.ARRAY, Type.MAP, Type.STRUCT)


@dataclass(frozen=True, kw_only=True)
class CastSettings(NullSettings):
    spec: tuple[str, ...] = setting(
        "spec",
        Kind.LIST,
        "field:type,field:type, or one type for the whole key or value. Types: "
        f"{', '.join(_TARGETS)}.",
        (),
        required=True,
    )

    def validate(self) -> dict[str, str]:
        for entry in self.spec:
            field, colon, name = entry.rpartition(":")
            if name.strip().lower() not in _TARGETS:
                return {"spec": f"{entry}: the type must be one of {', '.join(_TARGETS)}."}
            if (colon and not field) or ":" in field:
                return {"spec": f"{entry} does not have the form field:type."}
        if len(self.spec) > 1 and not all(":" in entry for entry in self.spec):
            return {"spec": "Cast either fields or the whole key or value, not both."}
        return {}

    def casts(self) -> dict[str, Type]:
        """Types by field; the empty name is the whole key or value."""
        found = {}
        for entry in self.spec:
            field, _, name = entry.rpartition(":")
            found[field.strip()] = _TARGETS[name.strip().lower()]
        return found


class Cast(PartTransform):
    """Casts fields, or the whole key or value, as Java does."""

    settings_class = CastSettings

    def __init__(self, settings: CastSettings, part: Part) -> None:
        super().__init__(settings, part)
        self._casts = settings.casts()
        self._whole = self._casts.get("")
        self._schemas = SchemaCache(self._new_schema)

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, None
        if schema is not None:
            return self._with_schema(schema, value)
        if self._whole is not None:
            return None, cast_value(None, value, self._whole)
        given = map_value(value, "Cast")
        cast = {name: cast_value(None, given.get(name), to) for name, to in self._casts.items()}
        return None, {**given, **cast}

    def _with_schema(self, schema: Schema, value: Any) -> tuple[Schema, Any]:
        updated = self._schemas(schema)
        if self._whole is not None:
            return updated, cast_value(schema, value, self._whole)
        return updated, self._cast_fields(schema, struct_value(value, "Cast"))

    def _cast_fields(self, schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
        values = {}
        for field in schema.fields:
            found = field_value(given, field, self.settings.replace_null)
            target = self._casts.get(field.name)
            values[field.name] = (
                found if target is None else cast_value(field.schema, found, target)
            )
        return values

    def _new_schema(self, schema: Schema) -> Schema:
        if self._whole is not None:
            return Schema(
                self._whole,
                optional=schema.optional,
                name=schema.name,
                version=schema.version,
                doc=schema.doc,
                parameters=schema.parameters,
                **_cast_default(schema, self._whole),
            )
        if has_default(schema):
            raise PoisonRecord("Cast does not support structs with a default.")
        fields = [
            Field(field.name, self._field_schema(field))
            for field in struct_schema(schema, "Cast").fields
        ]
        made = with_fields(schema, fields)
        return Schema(**{**vars(made), "optional": schema.optional})

    def _field_schema(self, field: Field) -> Schema:
        target = self._casts.get(field.name)
        if target is None:
            return field.schema
        return Schema(target, optional=field.schema.optional, **_cast_default(field.schema, target))


def _cast_default(schema: Schema, target: Type) -> dict[str, Any]:
    if not has_default(schema):
        return {}
    return {"default": cast_value(schema, schema.default, target)}


def cast_value(schema: Schema | None, value: Any, target: Type) -> Any:
    """The value in another type; PoisonRecord if Java cannot cast it either."""
    if value is None:
        return None
    if schema is not None and schema.type in _NOT_CAST:
        raise PoisonRecord(f"Cast does not support {schema.type.value}.")
    if target is Type.STRING:
        return _text(schema, value)
    if schema is not None and schema.name != DECIMAL:
        plain = encoder(schema)
        value = value if plain is None else plain(value)
    return _CASTS[target](value)


def _text(schema: Schema | None, value: Any) -> str:
    if isinstance(value, float):
        single = schema is not None and schema.type is Type.FLOAT32
        return float_text(value) if single else double_text(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, str | bool | int | Decimal | dt.date | dt.time):
        return text_of(schema, value)
    raise _not_castable(value)


def _not_castable(value: Any) -> PoisonRecord:
    return PoisonRecord(f"Cast does not support {type(value).__name__}.")


def _to_whole(bits: int) -> Callable[[Any], int]:
    def cast(value: Any) -> int:
        if isinstance(value, str):
            return parse_whole(value, bits)
        if isinstance(value, int | float | Decimal):
            return whole_of(value, bits)
        raise _not_castable(value)

    return cast


def _to_double(value: Any) -> float:
    if isinstance(value, str):
        return parse_point(value)
    if isinstance(value, int | float | Decimal):
        return float(value)
    raise _not_castable(value)


def _to_boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, int | float | Decimal):
        return whole_of(value, 64) != 0
    raise _not_castable(value)


_CASTS: Final[dict[Type, Callable[[Any], Any]]] = {
    **{kind: _to_whole(bits) for kind, bits in _BITS.items()},
    Type.FLOAT32: lambda value: as_single(_to_double(value)),
    Type.FLOAT64: _to_double,
    Type.BOOLEAN: _to_boolean,
}
