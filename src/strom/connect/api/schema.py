"""The schemas of keys and values, as in Kafka Connect: twelve types, and names for logical ones.

Values are plain Python: int, float, bool, str, bytes, list, dict (for maps, and for structs by
field name), and for the four logical types `Decimal`, `date`, `time` and an aware `datetime`. A
value whose schema is None has no schema (schemaless JSON, for example).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE_NAME: Final = "org.apache.kafka.connect.data.Date"
TIME_NAME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME: Final = "org.apache.kafka.connect.data.Timestamp"
SCALE: Final = "scale"
"""The parameter of a decimal's schema that holds its scale."""


class Type(Enum):
    """The twelve types; the values are the names that Kafka's JSON converter writes."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


class _NoDefault(Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT: Final = _NoDefault.NO_DEFAULT
"""Marks a schema without a default; None is a valid default of an optional value."""


@dataclass(frozen=True)
class Field:
    """One field of a struct: its name and schema."""

    name: str
    schema: "Schema"


@dataclass(frozen=True)
class Schema:
    """The schema of a value; compares by value."""

    type: Type
    optional: bool = False
    default: Any = NO_DEFAULT
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    fields: tuple[Field, ...] = ()
    """The fields of a struct."""
    key: "Schema | None" = None
    """The schema of a map's keys."""
    value: "Schema | None" = None
    """The schema of a map's values, or of an array's items."""

    def field(self, name: str) -> Field | None:
        """The field of that name; None if there is none."""
        return next((field for field in self.fields if field.name == name), None)

    def parameter(self, name: str) -> str | None:
        """The parameter of that name; None if there is none."""
        return dict(self.parameters).get(name)


STRING = Schema(Type.STRING)
OPTIONAL_STRING = Schema(Type.STRING, optional=True)
BYTES = Schema(Type.BYTES)
OPTIONAL_BYTES = Schema(Type.BYTES, optional=True)
BOOLEAN = Schema(Type.BOOLEAN)
INT32 = Schema(Type.INT32)
INT64 = Schema(Type.INT64)
FLOAT64 = Schema(Type.FLOAT64)
DATE = Schema(Type.INT32, name=DATE_NAME, version=1)
TIME = Schema(Type.INT32, name=TIME_NAME, version=1)
TIMESTAMP = Schema(Type.INT64, name=TIMESTAMP_NAME, version=1)


def decimal(scale: int, *, optional: bool = False) -> Schema:
    """A schema of exact numbers with `scale` digits after the decimal point."""
    return Schema(Type.BYTES, optional, name=DECIMAL, version=1, parameters=((SCALE, str(scale)),))


def struct(fields: Mapping[str, Schema], *, name: str | None = None) -> Schema:
    """A schema of named fields, in this order."""
    return Schema(
        Type.STRUCT,
        name=name,
        fields=tuple(Field(field, schema) for field, schema in fields.items()),
    )


def array(items: Schema) -> Schema:
    """A schema of lists with items of one schema."""
    return Schema(Type.ARRAY, value=items)


def mapping(key: Schema, value: Schema) -> Schema:
    """A schema of maps with keys of one schema and values of another."""
    return Schema(Type.MAP, key=key, value=value)
