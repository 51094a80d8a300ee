"""ReplaceField: drops or renames fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strom.connect.api import Field, Kind, Schema, setting
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


@dataclass(frozen=True, kw_only=True)
class ReplaceFieldSettings(NullSettings):
    """Which fields to keep, and their names."""

    exclude: tuple[str, ...] = setting(
        "exclude", Kind.LIST, "Fields to drop; takes precedence over `include`.", ()
    )
    include: tuple[str, ...] = setting(
        "include", Kind.LIST, "The only fields to keep; empty keeps all.", ()
    )
    renames: tuple[str, ...] = setting("renames", Kind.LIST, "New names, as old:new,old:new.", ())

    def validate(self) -> dict[str, str]:
        wrong = [pair for pair in self.renames if len(pair.split(":")) != 2]
        return {"renames": f"{wrong[0]} does not have the form old:new."} if wrong else {}


class ReplaceField(PartTransform):
    """Drops some fields and renames others."""

    settings_class = ReplaceFieldSettings

    def __init__(self, settings: ReplaceFieldSettings, part: Part) -> None:
        super().__init__(settings, part)
        self._renames = dict(pair.split(":") for pair in settings.renames)
        self._exclude = frozenset(settings.exclude)
        self._include = frozenset(settings.include)
        self._schemas = SchemaCache(self._new_schema)

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, value
        if schema is None:
            return None, self._kept_of_map(map_value(value, "ReplaceField"))
        updated, kept = self._schemas(schema)
        given = struct_value(value, "ReplaceField")
        replace_null = self.settings.replace_null
        return updated, {name: field_value(given, field, replace_null) for name, field in kept}

    def _kept_of_map(self, value: Mapping[str, Any]) -> dict[str, Any]:
        renamed = self._renames.get
        return {renamed(name, name): item for name, item in value.items() if self._stays(name)}

    def _stays(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _new_schema(self, schema: Schema) -> tuple[Schema, list[tuple[str, Field]]]:
        fields = struct_schema(schema, "ReplaceField").fields
        kept = [
            (self._renames.get(field.name, field.name), field)
            for field in fields
            if self._stays(field.name)
        ]
        return with_fields(schema, [Field(name, field.schema) for name, field in kept]), kept
