"""InsertField: adds metadata of the record, or a static value, as fields."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from strom.connect.api import Field, Kind, PoisonRecord, Schema, SinkRecord, Type, setting
from strom.connect.api.schema import TIMESTAMP_NAME
from strom.connect.logical_values import millis_to_timestamp
from strom.connect.schema_cache import SchemaCache
from strom.connect.transforms.contract import (
    NullSettings,
    Part,
    PartTransform,
    R,
    Record,
    field_value,
    map_value,
    struct_schema,
    struct_value,
    with_fields,
)

_MARKS = "Append ! for a required field, or ? for an optional one (the default)."


@dataclass(frozen=True, kw_only=True)
class InsertFieldSettings(NullSettings):
    """Which fields to insert."""

    topic_field: str | None = setting(
        "topic.field", Kind.STRING, f"The field for the topic's name. {_MARKS}"
    )
    partition_field: str | None = setting(
        "partition.field", Kind.STRING, f"The field for the partition. {_MARKS}"
    )
    offset_field: str | None = setting(
        "offset.field", Kind.STRING, f"The field for the offset; sinks only. {_MARKS}"
    )
    timestamp_field: str | None = setting(
        "timestamp.field", Kind.STRING, f"The field for the record's timestamp. {_MARKS}"
    )
    static_field: str | None = setting(
        "static.field", Kind.STRING, f"The field for the static value. {_MARKS}"
    )
    static_value: str | None = setting("static.value", Kind.STRING, "The static value.")

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
        self._schemas = SchemaCache(self._new_schema)

    def apply(self, record: R) -> R | None:
        """The record with the fields; a record without a key or value is unchanged."""
        schema, value = self.present(record)
        if value is None:
            return record
        if schema is None:
            values = dict(map_value(value, "InsertField"))
            updated = None
        else:
            updated = self._schemas(schema)
            given = struct_value(value, "InsertField")
            replace_null = self.settings.replace_null
            values = {
                field.name: field_value(given, field, replace_null) for field in schema.fields
            }
        for insertion in self._insertions:
            found = insertion.value(record, schema is not None)
            if found is not None:
                values[insertion.field] = found
        return self.replaced(record, updated, values)

    def _new_schema(self, schema: Schema) -> Schema:
        added = [Field(insertion.field, insertion.schema) for insertion in self._insertions]
        return with_fields(schema, [*struct_schema(schema, "InsertField").fields, *added])


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
