"""Flatten: turns nested structs and maps into fields of one level."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strom.connect.api import ConnectorSettings, Field, Kind, PoisonRecord, Schema, Type, setting
from strom.connect.logical_values import has_default
from strom.connect.schema_cache import SchemaCache
from strom.connect.transforms.contract import (
    Part,
    PartTransform,
    field_value,
    map_value,
    struct_schema,
    struct_value,
    with_fields,
)


@dataclass(frozen=True, kw_only=True)
class FlattenSettings(ConnectorSettings):
    """How nested fields are named."""

    delimiter: str = setting(
        "delimiter", Kind.STRING, "The separator in the name of a nested field.", "."
    )


class Flatten(PartTransform):
    """Names nested fields by their path, and removes the nesting."""

    settings_class = FlattenSettings

    def __init__(self, settings: FlattenSettings, part: Part) -> None:
        super().__init__(settings, part)
        self._schemas = SchemaCache(self._new_schema)

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, None
        if schema is None:
            return None, dict(self._flat_map(map_value(value, "Flatten"), ""))
        updated = self._schemas(schema)
        return updated, dict(self._flat_struct(schema, struct_value(value, "Flatten"), ""))

    def _flat_map(self, value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, item in value.items():
            if isinstance(item, Mapping):
                yield from self._flat_map(item, f"{prefix}{key}{self.settings.delimiter}")
            else:
                yield f"{prefix}{key}", item

    def _flat_struct(
        self, schema: Schema, value: Mapping[str, Any], prefix: str
    ) -> Iterator[tuple[str, Any]]:
        for field in schema.fields:
            if field.schema.type is not Type.STRUCT:
                yield prefix + field.name, field_value(value, field, replace_null=True)
            elif (inner := value.get(field.name)) is not None:
                deeper = f"{prefix}{field.name}{self.settings.delimiter}"
                yield from self._flat_struct(field.schema, inner, deeper)

    def _new_schema(self, schema: Schema) -> Schema:
        struct_schema(schema, "Flatten")
        default = schema.default if has_default(schema) else None
        return with_fields(schema, list(self._fields(schema, "", schema.optional, default)))

    def _fields(
        self, schema: Schema, prefix: str, optional: bool, default: Mapping[str, Any] | None
    ) -> Iterator[Field]:
        """The fields of one level; the fields of an optional struct are optional."""
        for field in schema.fields:
            own = field.schema
            may_miss = optional or own.optional
            fallback = own.default if has_default(own) else (default or {}).get(field.name)
            if own.type is Type.STRUCT:
                deeper = f"{prefix}{field.name}{self.settings.delimiter}"
                yield from self._fields(own, deeper, may_miss, fallback)
                continue
            if own.type is Type.MAP:
                raise PoisonRecord(f"Flatten does not support maps (field {prefix}{field.name}).")
            changed = dataclasses.replace(own, optional=may_miss)
            if fallback is not None:
                changed = dataclasses.replace(changed, default=fallback)
            yield Field(prefix + field.name, changed)
