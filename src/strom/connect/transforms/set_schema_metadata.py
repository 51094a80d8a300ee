"""SetSchemaMetadata: changes the name or version of a schema."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from strom.connect.api import Kind, PoisonRecord, Schema, Type, setting
from strom.connect.schema_cache import SchemaCache
from strom.connect.transforms.contract import (
    NullSettings,
    Part,
    PartTransform,
    field_value,
    struct_value,
)


@dataclass(frozen=True, kw_only=True)
class SetSchemaMetadataSettings(NullSettings):
    """The new name and version."""

    name: str | None = setting("schema.name", Kind.STRING, "The schema's new name.")
    version: int | None = setting("schema.version", Kind.INT, "The schema's new version.")

    def validate(self) -> dict[str, str]:
        if self.name is None and self.version is None:
            return {"schema.name": "Set a name or a version."}
        return {}


class SetSchemaMetadata(PartTransform):
    """Changes the name or version of the key's or value's schema."""

    settings_class = SetSchemaMetadataSettings

    def __init__(self, settings: SetSchemaMetadataSettings, part: Part) -> None:
        super().__init__(settings, part)
        given = {"name": settings.name, "version": settings.version}
        changes: dict[str, Any] = {key: item for key, item in given.items() if item is not None}
        self._schemas = SchemaCache(lambda schema: dataclasses.replace(schema, **changes))

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if schema is None:
            if value is None:
                return None, None
            raise PoisonRecord("SetSchemaMetadata needs values with a schema.")
        if value is not None and schema.type is Type.STRUCT:
            given = struct_value(value, "SetSchemaMetadata")
            value = {
                field.name: field_value(given, field, self.settings.replace_null)
                for field in schema.fields
            }
        return self._schemas(schema), value
