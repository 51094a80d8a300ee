"""What transforms and predicates are, and what most of them need."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, TypeVar

from strom.connect.api import (
    ConnectorSettings,
    Field,
    Kind,
    PoisonRecord,
    Schema,
    SinkRecord,
    SourceRecord,
    Type,
    setting,
)
from strom.connect.logical_values import has_default

R = TypeVar("R", SourceRecord, SinkRecord)
Record = SourceRecord | SinkRecord


class Part(Enum):
    """Which part of a record a transform works on."""

    KEY = "Key"
    VALUE = "Value"

    def of(self, record: Record) -> tuple[Schema | None, Any]:
        """That part's schema and value."""
        if self is Part.KEY:
            return record.key_schema, record.key
        return record.value_schema, record.value

    def replaced(self, record: R, schema: Schema | None, value: Any) -> R:
        """The record with another such part."""
        if self is Part.KEY:
            return record._replace(key=value, key_schema=schema)
        return record._replace(value=value, value_schema=schema)


class Transform(ABC):
    """Changes records one by one, or drops them."""

    settings_class: ClassVar[type[ConnectorSettings]]

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """The changed record; None drops it. PoisonRecord: this one cannot be changed."""


class PartTransform(Transform):
    """Changes the key or the value, whichever its name says after the `$`."""

    def __init__(self, settings: Any, part: Part) -> None:
        super().__init__(settings)
        self.part = part

    def apply(self, record: R) -> R | None:
        """The record with its key or value changed."""
        schema, value = self.part.of(record)
        return self.part.replaced(record, *self.changed(schema, value))

    def changed(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        """The new schema and value; for transforms that need nothing else of the record."""
        raise NotImplementedError


class Predicate(ABC):
    """Says of a record whether a transform applies to it."""

    settings_class: ClassVar[type[ConnectorSettings]]

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def holds(self, record: Record) -> bool:
        """Whether it is true of this record."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NullSettings(ConnectorSettings):
    """What transforms that copy fields have in common."""

    replace_null: bool = setting(
        "replace.null.with.default",
        Kind.BOOLEAN,
        "Put a field's default where its value is missing.",
        True,
    )


def struct_value(value: Any, purpose: str) -> Mapping[str, Any]:
    """The value as a struct, which it must be."""
    if not isinstance(value, Mapping):
        raise PoisonRecord(f"{purpose} needs a struct, not {type(value).__name__}.")
    return value


def map_value(value: Any, purpose: str) -> Mapping[str, Any]:
    """The value as a map, which it must be where there is no schema."""
    if not isinstance(value, Mapping):
        raise PoisonRecord(
            f"{purpose} needs a map where there is no schema, not {type(value).__name__}."
        )
    return value


def struct_schema(schema: Schema, purpose: str) -> Schema:
    """The schema, which must be that of a struct."""
    if schema.type is not Type.STRUCT:
        raise PoisonRecord(f"{purpose} needs a struct, not {schema.type.value}.")
    return schema


def field_value(values: Mapping[str, Any], field: Field, replace_null: bool) -> Any:
    """A field's value, or its default where it has none."""
    found = values.get(field.name)
    if found is None and replace_null and has_default(field.schema):
        return field.schema.default
    return found


def with_fields(schema: Schema, fields: list[Field]) -> Schema:
    """A struct with other fields, of the same name, version, doc and parameters.

    As Kafka's transforms do it, the new struct is required and has no default.
    """
    names = [field.name for field in fields]
    if len(names) != len(set(names)):
        doubled = next(name for name in names if names.count(name) > 1)
        raise PoisonRecord(f"There would be two fields {doubled}.")
    return Schema(
        Type.STRUCT,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        fields=tuple(fields),
    )
