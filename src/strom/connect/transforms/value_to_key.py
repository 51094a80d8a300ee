"""ValueToKey: builds the key from fields of the value."""

from dataclasses import dataclass

from strom.connect.api import Field, Kind, PoisonRecord, Schema, Type, setting
from strom.connect.schema_cache import SchemaCache
from strom.connect.transforms.contract import (
    NullSettings,
    R,
    Transform,
    field_value,
    map_value,
    struct_schema,
    struct_value,
)


@dataclass(frozen=True, kw_only=True)
class ValueToKeySettings(NullSettings):
    fields: tuple[str, ...] = setting(
        "fields", Kind.LIST, "The fields of the value that form the key.", (), required=True
    )


class ValueToKey(Transform):
    """Replaces the key by fields of the value."""

    settings_class = ValueToKeySettings

    def __init__(self, settings: ValueToKeySettings) -> None:
        super().__init__(settings)
        self._key_schemas = SchemaCache(self._key_schema)

    def apply(self, record: R) -> R | None:
        if record.value_schema is None:
            given = map_value(record.value, "ValueToKey")
            key = {name: given.get(name) for name in self.settings.fields}
            return record._replace(key=key, key_schema=None)
        schema = self._key_schemas(record.value_schema)
        given = struct_value(record.value, "ValueToKey")
        replace_null = self.settings.replace_null
        key = {field.name: field_value(given, field, replace_null) for field in schema.fields}
        return record._replace(key=key, key_schema=schema)

    def _key_schema(self, schema: Schema) -> Schema:
        fields = []
        for name in self.settings.fields:
            found = struct_schema(schema, "ValueToKey").field(name)
            if found is None:
                raise PoisonRecord(f"The value has no field {name}.")
            fields.append(Field(name, found.schema))
        return Schema(Type.STRUCT, fields=tuple(fields))
