"""InsertField, ReplaceField, ValueToKey: transforms of single fields; SetSchemaMetadata."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from strom.connect.api import Field, Kind, PoisonRecord, Schema, SinkRecord, Type, setting
from strom.connect.api.schema import TIMESTAMP_NAME
from strom.connect.logical_values import millis_to_timestamp
from strom.connect.schema_cache import SchemaCache
from strom.connect.setting_forms import integer, string, strings
from strom.connect.transforms.contract import (
    NullSettings,
    Part,
    PartTransform,
    R,
    Record,
    Transform,
    with_fields,
)


def _field(name: str, content: str) -> Any:
    marks = "Append ! for a required field, or ? for an optional one (the default)."
    return string(name, f"The field for {content}. {marks}")


@dataclass(frozen=True, kw_only=True)
class InsertFieldSettings(NullSettings):
    """Which fields to insert."""

    topic_field: str | None = _field("topic.field", "the topic's name")
    partition_field: str | None = _field("partition.field", "the partition")
    offset_field: str | None = _field("offset.field", "the offset; sinks only")
    timestamp_field: str | None = _field("timestamp.field", "the record's timestamp")
    static_field: str | None = _field("static.field", "the static value")
    static_value: str | None = string("static.value", "The static value.")

    def validate(self) -> dict[str, str]:
        fields = (self.topic_field, self.partition_field, self.offset_field, self.timestamp_field)
        if not any(fields) and not self.static_field:
            return {"static.field": "Name at least one field to insert."}
        if self.static_field and self.static_value is None:
            return {
                "static.value": f"The field {self.static_field} has no value: set static.value."
            }
        return {}


class _Insertion(NamedTuple):
    field: str
    schema: Schema
    value: Callable[[Record, bool], Any]
    """The value, from a record and whether it has a schema; None omits the field."""


class InsertField(PartTransform):
    """Adds the topic, partition, offset or timestamp of the record, or a static value, as fields."""

    settings_class = InsertFieldSettings

    def __init__(self, settings: InsertFieldSettings, part: Part) -> None:
        super().__init__(settings, part)
        self._insertions = [
            _insertion(mark, kind, name, value)
            for mark, kind, name, value in (
                (settings.topic_field, Type.STRING, None, lambda record, _: record.topic),
                (settings.partition_field, Type.INT32, None, lambda record, _: record.partition),
                (settings.offset_field, Type.INT64, None, _offset),
                (settings.timestamp_field, Type.INT64, TIMESTAMP_NAME, _timestamp),
                (settings.static_field, Type.STRING, None, lambda *_: settings.static_value),
            )
            if mark
        ]

    def apply(self, record: R) -> R | None:
        """The record with the fields; a record without a key or value is unchanged."""
        schema, value = self.present(record)
        if value is None:
            return record
        if schema is None:
            values = dict(self.map_value(value))
            updated = None
        else:
            updated = self._derived(schema)
            values = self.field_values(self.struct_value(value), schema.fields)
        for insertion in self._insertions:
            found = insertion.value(record, schema is not None)
            if found is not None:
                values[insertion.field] = found
        return self.replaced(record, updated, values)

    def derive(self, schema: Schema) -> Schema:
        added = [Field(insertion.field, insertion.schema) for insertion in self._insertions]
        return with_fields(schema, [*self.struct_fields(schema), *added])


def _insertion(
    mark: str, kind: Type, name: str | None, value: Callable[[Record, bool], Any]
) -> _Insertion:
    version = None if name is None else 1
    schema = Schema(kind, optional=not mark.endswith("!"), name=name, version=version)
    return _Insertion(mark[:-1] if mark[-1] in "!?" else mark, schema, value)


def _offset(record: Record, with_schema: bool) -> int:
    if not isinstance(record, SinkRecord):
        raise PoisonRecord("Only records of sinks have an offset to insert.")
    return record.offset


def _timestamp(record: Record, with_schema: bool) -> Any:
    if record.timestamp is None:
        return None
    return millis_to_timestamp(record.timestamp) if with_schema else record.timestamp


@dataclass(frozen=True, kw_only=True)
class ReplaceFieldSettings(NullSettings):
    """Which fields to keep, and their names."""

    exclude: tuple[str, ...] = strings(
        "exclude", "Fields to drop; takes precedence over `include`."
    )
    include: tuple[str, ...] = strings("include", "The only fields to keep; empty keeps all.")
    renames: tuple[str, ...] = strings("renames", "New names, as old:new,old:new.")

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

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, value
        if schema is None:
            return None, self._kept_of_map(self.map_value(value))
        updated, kept = self._derived(schema)
        given = self.struct_value(value)
        return updated, {name: self.field_value(given, field) for name, field in kept}

    def _kept_of_map(self, value: Mapping[str, Any]) -> dict[str, Any]:
        renamed = self._renames.get
        return {renamed(name, name): item for name, item in value.items() if self._stays(name)}

    def _stays(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def derive(self, schema: Schema) -> tuple[Schema, list[tuple[str, Field]]]:
        kept = [
            (self._renames.get(field.name, field.name), field)
            for field in self.struct_fields(schema)
            if self._stays(field.name)
        ]
        return with_fields(schema, [Field(name, field.schema) for name, field in kept]), kept


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
            given = self.map_value(record.value)
            key = {name: given.get(name) for name in self.settings.fields}
            return record._replace(key=key, key_schema=None)
        schema = self._key_schemas(record.value_schema)
        key = self.field_values(self.struct_value(record.value), schema.fields)
        return record._replace(key=key, key_schema=schema)

    def _key_schema(self, schema: Schema) -> Schema:
        known = {field.name: field for field in self.struct_fields(schema)}
        for name in self.settings.fields:
            if name not in known:
                raise PoisonRecord(f"The value has no field {name}.")
        return Schema(Type.STRUCT, fields=tuple(known[name] for name in self.settings.fields))


@dataclass(frozen=True, kw_only=True)
class SetSchemaMetadataSettings(NullSettings):
    """The new name and version."""

    name: str | None = string("schema.name", "The schema's new name.")
    version: int | None = integer("schema.version", "The schema's new version.", minimum=None)

    def validate(self) -> dict[str, str]:
        if self.name is None and self.version is None:
            return {"schema.name": "Set a name or a version."}
        return {}


class SetSchemaMetadata(PartTransform):
    """Changes the name or version of the key's or value's schema."""

    settings_class = SetSchemaMetadataSettings

    def derive(self, schema: Schema) -> Schema:
        given = {"name": self.settings.name, "version": self.settings.version}
        changes: dict[str, Any] = {key: item for key, item in given.items() if item is not None}
        return dataclasses.replace(schema, **changes)

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        if schema is None:
            if value is None:
                return None, None
            raise PoisonRecord("SetSchemaMetadata needs values with a schema.")
        if value is not None and schema.type is Type.STRUCT:
            value = self.field_values(self.struct_value(value), schema.fields)
        return self._derived(schema), value
