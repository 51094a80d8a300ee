"""Cast: converts fields, or the whole key or value, to other types."""

import dataclasses
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final

from strom.connect.api import Field, Kind, PoisonRecord, Schema, Type, setting
from strom.connect.api.schema import DECIMAL
from strom.connect.converters.java_text import (
    parse_point,
    parse_whole,
    whole_of,
)
from strom.connect.converters.json_values import as_single
from strom.connect.converters.value_text import text_of
from strom.connect.logical_values import INTEGER_BITS, encoder, has_default
from strom.connect.transforms.contract import NullSettings, Part, PartTransform, with_fields

_NOT_CAST: Final = (Type.ARRAY, Type.MAP, Type.STRUCT)
_TARGETS: Final[dict[str, Type]] = {
    kind.name.lower(): kind for kind in Type if kind not in (Type.BYTES, *_NOT_CAST)
}


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

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, None
        if schema is not None:
            return self._with_schema(schema, value)
        if self._whole is not None:
            return None, cast_value(None, value, self._whole)
        given = self.map_value(value)
        cast = {name: cast_value(None, given.get(name), to) for name, to in self._casts.items()}
        return None, {**given, **cast}

    def _with_schema(self, schema: Schema, value: Any) -> tuple[Schema, Any]:
        updated = self._derived(schema)
        if self._whole is not None:
            return updated, cast_value(schema, value, self._whole)
        values = self.field_values(self.struct_value(value), schema.fields)
        for field in schema.fields:
            target = self._casts.get(field.name)
            if target is not None:
                values[field.name] = cast_value(field.schema, values[field.name], target)
        return updated, values

    def derive(self, schema: Schema) -> Schema:
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
            Field(field.name, self._field_schema(field)) for field in self.struct_fields(schema)
        ]
        return dataclasses.replace(with_fields(schema, fields), optional=schema.optional)

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
    if isinstance(value, str | bool | int | float | bytes | Decimal | dt.date | dt.time):
        return text_of(schema, value)
    raise _not_castable(value)


def _not_castable(value: Any) -> PoisonRecord:
    return PoisonRecord(f"Cast does not support {type(value).__name__}.")


def _caster(of_text: Callable[[str], Any], of_number: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def cast(value: Any) -> Any:
        if isinstance(value, str):
            return of_text(value)
        if isinstance(value, int | float | Decimal):
            return of_number(value)
        raise _not_castable(value)

    return cast


_CASTS: Final[dict[Type, Callable[[Any], Any]]] = {
    **{
        kind: _caster(partial(parse_whole, bits=bits), partial(whole_of, bits=bits))
        for kind, bits in INTEGER_BITS.items()
    },
    Type.FLOAT32: _caster(
        lambda text: as_single(parse_point(text)), lambda number: as_single(float(number))
    ),
    Type.FLOAT64: _caster(parse_point, float),
    Type.BOOLEAN: _caster(
        lambda text: text.lower() == "true", lambda number: whole_of(number, 64) != 0
    ),
}
