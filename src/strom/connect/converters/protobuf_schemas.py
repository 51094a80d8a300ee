"""Connect schemas ↔ Protocol Buffers, along the lines of Confluent's converter.

A struct is a message, an array a repeated field, a map a map (or, if its keys are not scalars, a repeated
entry), an optional scalar an `optional` field. Dates and times are Google's messages, decimals
Confluent's. Everything else is stored in Confluent's option `field_meta`.
"""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from strom.connect.api import Field, PoisonRecord, Schema, Type
from strom.connect.api.schema import DATE_NAME, DECIMAL, SCALE, TIME_NAME, TIMESTAMP_NAME
from strom.connect.logical_values import map_schemas

ENUM: Final = "io.confluent.connect.protobuf.Enum"
TAG: Final = "io.confluent.connect.protobuf.Tag"
CONNECT_TYPE: Final = "connect.type"
_SCALARS: Final = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_MAP_KEYS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN, Type.STRING)
_LOGICAL: Final = {
    DATE_NAME: ("google.type.Date", "google/type/date.proto"),
    TIME_NAME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP_NAME: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
    DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
}
_META: Final = "confluent/meta.proto"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_READ_SCALARS: Final = {
    FieldDescriptor.CPPTYPE_INT32: Type.INT32,
    FieldDescriptor.CPPTYPE_INT64: Type.INT64,
    FieldDescriptor.CPPTYPE_UINT32: Type.INT64,
    FieldDescriptor.CPPTYPE_UINT64: Type.INT64,
    FieldDescriptor.CPPTYPE_FLOAT: Type.FLOAT32,
    FieldDescriptor.CPPTYPE_DOUBLE: Type.FLOAT64,
    FieldDescriptor.CPPTYPE_BOOL: Type.BOOLEAN,
    FieldDescriptor.CPPTYPE_ENUM: Type.STRING,
}
_READ_LOGICAL: Final = {message: name for name, (message, _) in _LOGICAL.items()}
WRAPPERS: Final = {
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


class ToProtobuf:
    """Writes the .proto file of a struct's schema."""

    def __init__(self) -> None:
        self._unnamed = 0
        self._imports: set[str] = set()

    def text(self, schema: Schema) -> str:
        """The file, whose first message is the struct."""
        if schema.type is not Type.STRUCT:
            raise PoisonRecord(f"Protobuf needs a struct as key or value, not {schema.type.value}.")
        package = (schema.name or "").rpartition(".")[0]
        lines = list(self._message(schema, self._own_name(schema)))
        head = ['syntax = "proto3";']
        if package:
            head.append(f"package {'.'.join(_checked(part) for part in package.split('.'))};")
        head += [f'import "{path}";' for path in sorted(self._imports)]
        return "\n".join([*head, *lines]) + "\n"

    def _own_name(self, schema: Schema) -> str:
        if schema.name is not None:
            return _checked(schema.name.rpartition(".")[2])
        self._unnamed += 1
        return f"ConnectDefault{self._unnamed}"

    def _message(self, schema: Schema, name: str) -> Iterator[str]:
        inner: dict[str, tuple[Any, list[str]]] = {}
        fields = []
        numbers = _numbers(schema)
        for field, number in zip(schema.fields, numbers, strict=True):
            kind = self._kind(field.schema, field.name, inner)
            fields.append(f"  {kind} {_checked(field.name)} = {number}{self._meta(field.schema)};")
        yield f"message {name} {{"
        for _, lines in inner.values():
            yield from (f"  {line}" for line in lines)
        yield from fields
        yield "}"

    def _kind(self, schema: Schema, field: str, inner: dict[str, tuple[Any, list[str]]]) -> str:
        """Label and type of a field; adds the types that it needs to `inner`."""
        if schema.type is Type.ARRAY:
            if schema.value is None or schema.value.type in (Type.ARRAY, Type.MAP):
                raise PoisonRecord(f"Protobuf has no arrays of arrays or maps (field {field}).")
            return f"repeated {self._single(schema.value, inner)}"
        if schema.type is Type.MAP:
            return self._map(schema, field, inner)
        label = "optional " if schema.optional and schema.type is not Type.STRUCT else ""
        return label + self._single(schema, inner)

    def _single(self, schema: Schema, inner: dict[str, tuple[Any, list[str]]]) -> str:
        if schema.name in _LOGICAL:
            message, path = _LOGICAL[schema.name]
            self._imports.add(path)
            return f".{message}"
        if schema.type is Type.STRUCT:
            name = self._own_name(schema)
            self._define(inner, name, (schema.fields, schema.name), self._message(schema, name))
            return name
        symbols = [
            (name.removeprefix(f"{ENUM}."), number)
            for name, number in schema.parameters
            if name.startswith(f"{ENUM}.")
        ]
        if schema.type is Type.STRING and symbols:
            name = _checked((schema.parameter(ENUM) or "Enum").rpartition(".")[2])
            lines = [f"  {_checked(symbol)} = {int(number)};" for symbol, number in symbols]
            self._define(inner, name, symbols, iter([f"enum {name} {{", *lines, "}"]))
            return name
        return _SCALARS[schema.type]

    def _map(self, schema: Schema, field: str, inner: dict[str, tuple[Any, list[str]]]) -> str:
        key, value = map_schemas(schema)
        plain_value = value.type not in (Type.ARRAY, Type.MAP) and not value.optional
        if key.type in _MAP_KEYS and key.name is None and not key.optional and plain_value:
            return f"map<{_SCALARS[key.type]}, {self._single(value, inner)}>"
        entry = Schema(Type.STRUCT, fields=(Field("key", key), Field("value", value)))
        name = f"{field[:1].upper()}{field[1:]}Pair"
        self._define(inner, name, entry.fields, self._message(entry, name))
        return f"repeated {name}"

    def _define(
        self, inner: dict[str, tuple[Any, list[str]]], name: str, shape: Any, lines: Iterator[str]
    ) -> None:
        if name in inner and inner[name][0] != shape:
            raise PoisonRecord(f"Two different schemas have the name {name}.")
        if name not in inner:
            inner[name] = (shape, list(lines))

    def _meta(self, schema: Schema) -> str:
        found = {}
        if schema.name == DECIMAL:
            found[SCALE] = schema.parameter(SCALE) or "0"
        if schema.type in (Type.INT8, Type.INT16):
            found[CONNECT_TYPE] = schema.type.value
        if schema.type is Type.MAP:
            found[CONNECT_TYPE] = "map"
        if not found:
            return ""
        self._imports.add(_META)
        pairs = ", ".join(f'{{ key: "{key}", value: "{text}" }}' for key, text in found.items())
        return f" [(confluent.field_meta) = {{ params: [{pairs}] }}]"


def _numbers(schema: Schema) -> list[int]:
    """The field numbers: the original ones if they were read from Protobuf, else the next free ones."""
    given = [field.schema.parameter(TAG) for field in schema.fields]
    taken = {int(tag) for tag in given if tag is not None}
    free = (number for number in range(1, 1 << 29) if number not in taken)
    return [int(tag) if tag is not None else next(free) for tag in given]


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise PoisonRecord(f"Invalid Protobuf name {name!r}.")
    return name


class FromProtobuf:
    """Converts message descriptors to Connect schemas; `meta` reads a field's `field_meta`."""

    def __init__(self, meta: Any) -> None:
        self._meta = meta
        self._within: list[str] = []

    def schema(self, message: Descriptor) -> Schema:
        if message.full_name in self._within:
            raise PoisonRecord(
                f"The message {message.full_name} is recursive, which Connect's schemas do not support."
            )
        self._within.append(message.full_name)
        fields = tuple(Field(field.name, self.field(field)) for field in message.fields)
        self._within.pop()
        unnamed = message.name.startswith("ConnectDefault")
        return Schema(Type.STRUCT, name=None if unnamed else message.full_name, fields=fields)

    def field(self, field: FieldDescriptor) -> Schema:
        """The schema of a field; its number is a parameter."""
        meta = self._meta(field)
        tag = (TAG, str(field.number))
        message = field.message_type
        if message is not None and is_pairs(field, meta):
            key, value = (message.fields_by_name[name] for name in ("key", "value"))
            return Schema(
                Type.MAP, parameters=(tag,), key=self._inside(key), value=self._inside(value)
            )
        single = self._single(field, meta)
        if field.is_repeated:
            return Schema(Type.ARRAY, parameters=(tag,), value=_changed(single, optional=False))
        return _changed(single, optional=field.has_presence, parameters=(*single.parameters, tag))

    def _inside(self, field: FieldDescriptor) -> Schema:
        """The schema of a map's key or value, which has no field number."""
        found = self.field(field)
        parameters = tuple(pair for pair in found.parameters if pair[0] != TAG)
        in_map = is_map_entry(field.containing_type)
        return _changed(found, optional=False if in_map else found.optional, parameters=parameters)

    def _single(self, field: FieldDescriptor, meta: dict[str, str]) -> Schema:
        if field.message_type is not None:
            return self._of_message(field.message_type, meta)
        if field.enum_type is not None:
            symbols = tuple(
                (f"{ENUM}.{one.name}", str(one.number)) for one in field.enum_type.values
            )
            return Schema(Type.STRING, parameters=((ENUM, field.enum_type.full_name), *symbols))
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            is_bytes = field.type == FieldDescriptor.TYPE_BYTES
            return Schema(Type.BYTES if is_bytes else Type.STRING)
        if meta.get(CONNECT_TYPE) in ("int8", "int16"):
            return Schema(Type(meta[CONNECT_TYPE]))
        return Schema(_READ_SCALARS[field.cpp_type])

    def _of_message(self, message: Descriptor, meta: dict[str, str]) -> Schema:
        logical = _READ_LOGICAL.get(message.full_name)
        if logical == DECIMAL:
            scale = (SCALE, meta.get(SCALE, "0"))
            return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(scale,))
        if logical is not None:
            kind = Type.INT64 if logical == TIMESTAMP_NAME else Type.INT32
            return Schema(kind, name=logical, version=1)
        if message.full_name in WRAPPERS:
            return self._single(message.fields_by_name["value"], {})
        return self.schema(message)


def is_pairs(field: FieldDescriptor, meta: dict[str, str]) -> bool:
    """Whether a repeated message represents a map."""
    return field.is_repeated and (
        is_map_entry(field.message_type) or meta.get(CONNECT_TYPE) == "map"
    )


def is_map_entry(message: Descriptor | None) -> bool:
    """Whether a message is the entry type that the compiler generates for a map."""
    return message is not None and bool(message.GetOptions().map_entry)


def message_of(field: FieldDescriptor) -> Descriptor:
    if field.message_type is None:
        raise PoisonRecord(f"The field {field.full_name} is not a message.")
    return field.message_type


def _changed(schema: Schema, **changes: Any) -> Schema:
    return dataclasses.replace(schema, **changes)
