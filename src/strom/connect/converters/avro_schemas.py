"""Connect schemas ↔ Avro schemas, with the mapping of Confluent's converter.

What Avro cannot express is stored in properties: `connect.name`, `connect.version`, `connect.doc`,
`connect.parameters`, `connect.default` and `connect.type`. An optional value is a union with null; a map
whose keys are not strings is an array of entries; an Avro enum is a string with its symbols as
parameters.
"""

import base64
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from strom.connect.api import Field, PoisonRecord, Schema, Type
from strom.connect.api.schema import (
    DATE_NAME,
    DECIMAL,
    NO_DEFAULT,
    SCALE,
    TIME_NAME,
    TIMESTAMP_NAME,
)
from strom.connect.converters.json_values import json_reader, json_writer
from strom.connect.logical_values import decimal_scale, has_default

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
_RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
_FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
_PRECISION: Final = "connect.decimal.precision"
FIXED_SIZE: Final = "connect.fixed.size"
_USUAL_PRECISION: Final = 64
_PLAIN: Final = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_CONNECT_PLAIN: Final = {avro: kind for kind, avro in _PLAIN.items()}
"""An Avro int is an INT32, the last of its kinds."""
_LOGICAL: Final = {
    DATE_NAME: "date",
    TIME_NAME: "time-millis",
    TIMESTAMP_NAME: "timestamp-millis",
}
_CONNECT_LOGICAL: Final = {
    ("int", "date"): DATE_NAME,
    ("int", "time-millis"): TIME_NAME,
    ("long", "timestamp-millis"): TIMESTAMP_NAME,
}


def is_avro_map(schema: Schema) -> bool:
    """Whether a map is an Avro map, which has string keys only."""
    key = schema.key
    return key is not None and key.type is Type.STRING and not key.optional


class ToAvro:
    """Converts a Connect schema to Avro; each named type is defined where it occurs first."""

    def __init__(self) -> None:
        self._unnamed = 0
        self._entries = 0
        self._defined: dict[str, Schema] = {}

    def schema(self, schema: Schema) -> Any:
        base = self._base(schema)
        if isinstance(base, list):
            return ["null", *base] if schema.optional else base
        if not schema.optional:
            return base
        return [base, "null"] if has_default(schema) else ["null", base]

    def _base(self, schema: Schema) -> Any:
        if schema.type is Type.STRUCT:
            if schema.name == UNION:
                return [
                    self.schema(
                        dataclasses.replace(field.schema, optional=False, default=NO_DEFAULT)
                    )
                    for field in schema.fields
                ]
            return self._record(schema)
        if schema.type is Type.ARRAY:
            shape: Any = {"type": "array", "items": self._inner(schema.value)}
        elif schema.type is Type.MAP:
            shape = self._map(schema)
        elif schema.type is Type.STRING and (enum := schema.parameter(ENUM)) is not None:
            shape = self._enum(schema, enum)
        elif schema.type is Type.BYTES and (size := schema.parameter(FIXED_SIZE)) is not None:
            shape = self._fixed(schema, int(size))
        else:
            shape = {"type": _PLAIN[schema.type]}
        if isinstance(shape, str):
            return shape
        return _simplified(shape | _logical(schema) | _properties(schema))

    def _inner(self, schema: Schema | None) -> Any:
        if schema is None:
            raise PoisonRecord("An array's items and a map's keys and values need a schema.")
        return self.schema(schema)

    def _record(self, schema: Schema) -> Any:
        full_name = schema.name
        if full_name is None:
            self._unnamed += 1
            full_name = f"{NAMESPACE}.{DEFAULT_NAME}{self._unnamed if self._unnamed > 1 else ''}"
        if self._is_defined(full_name, schema):
            return full_name
        shape = {"type": "record", **_named(full_name)}
        if (doc := schema.parameter(_RECORD_DOC)) is not None:
            shape["doc"] = doc
        shape["fields"] = [self._field(schema, field) for field in schema.fields]
        return shape | _properties(schema)

    def _field(self, owner: Schema, field: Field) -> dict[str, Any]:
        found = {"name": field.name, "type": self.schema(field.schema)}
        doc = owner.parameter(_FIELD_DOC + field.name)
        if doc is not None:
            found["doc"] = doc
        if has_default(field.schema):
            found["default"] = _default_to_avro(field.schema)
        elif field.schema.optional:
            found["default"] = None
        return found

    def _map(self, schema: Schema) -> dict[str, Any]:
        if is_avro_map(schema):
            return {"type": "map", "values": self._inner(schema.value)}
        fields = [
            {"name": name, "type": self._inner(part)}
            | ({"default": None} if part is not None and part.optional else {})
            for name, part in (("key", schema.key), ("value", schema.value))
        ]
        self._entries += 1
        number = self._entries if self._entries > 1 else ""
        full_name = schema.name or f"{NAMESPACE}.{MAP_ENTRY}{number}"
        if self._is_defined(full_name, schema):
            return {"type": "array", "items": full_name}
        entry: dict[str, Any] = {"type": "record", **_named(full_name), "fields": fields}
        if full_name != f"{NAMESPACE}.{MAP_ENTRY}":
            entry["connect.internal.type"] = MAP_ENTRY
        return {"type": "array", "items": entry}

    def _is_defined(self, full_name: str, schema: Schema) -> bool:
        """Whether the name is already defined, with the same schema; defines it if not."""
        bare = dataclasses.replace(schema, optional=False, default=NO_DEFAULT)
        if full_name not in self._defined:
            self._defined[full_name] = bare
            return False
        if self._defined[full_name] != bare:
            raise PoisonRecord(f"Two different schemas have the name {full_name}.")
        return True

    def _enum(self, schema: Schema, full_name: str) -> Any:
        if self._is_defined(full_name, schema):
            return full_name
        symbols = [
            name.removeprefix(ENUM + ".")
            for name, _ in schema.parameters
            if name.startswith(ENUM + ".")
        ]
        return {"type": "enum", **_named(full_name), "symbols": symbols}

    def _fixed(self, schema: Schema, size: int) -> Any:
        usual = schema.name is None or schema.name == DECIMAL
        full_name = f"{NAMESPACE}.Fixed{size}" if usual else str(schema.name)
        if self._is_defined(full_name, schema):
            return full_name
        return {"type": "fixed", **_named(full_name), "size": size}


def _named(full_name: str) -> dict[str, Any]:
    namespace, _, name = full_name.rpartition(".")
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _simplified(shape: dict[str, Any]) -> Any:
    return shape["type"] if list(shape) == ["type"] else shape


def _logical(schema: Schema) -> dict[str, Any]:
    if schema.name == DECIMAL:
        scale = decimal_scale(schema)
        precision = int(schema.parameter(_PRECISION) or _USUAL_PRECISION)
        if 0 <= scale <= precision:
            return {"logicalType": "decimal", "precision": precision, "scale": scale}
        return {}
    logical = _LOGICAL.get(schema.name or "")
    return {} if logical is None else {"logicalType": logical}


def _properties(schema: Schema) -> dict[str, Any]:
    found = {
        "connect.doc": schema.doc,
        "connect.version": schema.version,
        "connect.parameters": dict(schema.parameters) or None,
        "connect.default": _default_to_avro(schema) if has_default(schema) else None,
        "connect.name": schema.name,
        "connect.type": schema.type.value if schema.type in (Type.INT8, Type.INT16) else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _default_to_avro(schema: Schema) -> Any:
    """A default in Avro's JSON, where bytes are characters 0 to 255."""
    written = json_writer(schema, numeric_decimals=False, fill_defaults=False)(schema.default)
    return _with_bytes(schema, written, lambda text: base64.b64decode(text).decode("latin-1"))


def _with_bytes(schema: Schema, value: Any, change: Callable[[str], str]) -> Any:
    """A value in JSON, with the texts of its bytes changed."""

    def inner(part: Schema, value: Any) -> Any:
        return _with_bytes(part, value, change)

    if schema.type is Type.BYTES and isinstance(value, str):
        return change(value)
    if schema.type is Type.STRUCT and isinstance(value, Mapping):
        return {field.name: inner(field.schema, value.get(field.name)) for field in schema.fields}
    if schema.type is Type.ARRAY and schema.value is not None and isinstance(value, list):
        return [inner(schema.value, item) for item in value]
    if schema.type is Type.MAP and schema.value is not None and isinstance(value, Mapping):
        return {key: inner(schema.value, item) for key, item in value.items()}
    return value


class FromAvro:
    """Converts parsed Avro schemas to Connect schemas; `named` holds the definitions by full name."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._within: list[str] = []

    def schema(self, avro: Any) -> Schema:
        avro = self.resolved(avro)
        if isinstance(avro, list):
            return self._union(avro)
        kind = avro if isinstance(avro, str) else avro["type"]
        properties: Mapping[str, Any] = avro if isinstance(avro, Mapping) else {}
        found = self._shape(kind, properties)
        return _with_properties(found, kind, properties)

    def resolved(self, avro: Any) -> Any:
        """The definition of a named type."""
        if isinstance(avro, str) and avro in self._named:
            return self._named[avro]
        if isinstance(avro, Mapping) and isinstance(avro["type"], list | Mapping):
            return self.resolved(avro["type"])
        return avro

    def _union(self, members: list[Any]) -> Schema:
        others = [member for member in members if member != "null"]
        if len(others) == 1 and len(members) == 2:
            return dataclasses.replace(self.schema(others[0]), optional=True)
        fields = tuple(
            Field(self.member_name(member), dataclasses.replace(self.schema(member), optional=True))
            for member in others
        )
        return Schema(Type.STRUCT, optional="null" in members, name=UNION, fields=fields)

    def member_name(self, member: Any) -> str:
        """The field name of a union's member."""
        member = self.resolved(member)
        if isinstance(member, Mapping):
            name = member.get("name")
            return str(name).rpartition(".")[2] if name is not None else str(member["type"])
        return str(member)

    def _shape(self, kind: str, avro: Mapping[str, Any]) -> Schema:
        match kind:
            case "record" | "error":
                return self._struct(avro)
            case "array":
                items = self.resolved(avro["items"])
                if is_map_entry(items):
                    key, value = (self.schema(field["type"]) for field in items["fields"])
                    return Schema(Type.MAP, key=key, value=value)
                return Schema(Type.ARRAY, value=self.schema(avro["items"]))
            case "map":
                return Schema(Type.MAP, key=Schema(Type.STRING), value=self.schema(avro["values"]))
            case "enum":
                symbols = tuple((f"{ENUM}.{one}", one) for one in avro["symbols"])
                return Schema(Type.STRING, parameters=((ENUM, avro["name"]), *symbols))
            case "bytes" | "fixed":
                return _bytes_schema(kind, avro)
            case "null":
                raise PoisonRecord("The Avro schema null has no equivalent in Connect.")
            case _:
                return _plain_schema(kind, avro)

    def _struct(self, avro: Mapping[str, Any]) -> Schema:
        name = avro["name"]
        if name in self._within:
            raise PoisonRecord(
                f"The record {name} is recursive, which Connect's schemas do not support."
            )
        self._within.append(name)
        parameters = [(_RECORD_DOC, avro["doc"])] if avro.get("doc") else []
        fields = []
        for field in avro["fields"]:
            if field.get("doc"):
                parameters.append((_FIELD_DOC + field["name"], field["doc"]))
            fields.append(Field(field["name"], self._field_schema(field)))
        self._within.pop()
        return Schema(Type.STRUCT, fields=tuple(fields), parameters=tuple(parameters))

    def _field_schema(self, field: Mapping[str, Any]) -> Schema:
        found = self.schema(field["type"])
        default = field.get("default")
        if default is None or has_default(found):
            return found
        return dataclasses.replace(found, default=_default_from_avro(found, default))


def is_map_entry(items: Any) -> bool:
    """Whether an array's items are map entries."""
    return (
        isinstance(items, Mapping)
        and items["type"] == "record"
        and (
            items["name"] == f"{NAMESPACE}.{MAP_ENTRY}"
            or items.get("connect.internal.type") == MAP_ENTRY
        )
    )


def _plain_schema(kind: str, avro: Mapping[str, Any]) -> Schema:
    name = _CONNECT_LOGICAL.get((kind, avro.get("logicalType", "")))
    if name is not None:
        return Schema(_CONNECT_PLAIN[kind], name=name, version=1)
    narrow = avro.get("connect.type")
    if narrow in ("int8", "int16"):
        return Schema(Type(narrow))
    if kind not in _CONNECT_PLAIN:
        raise PoisonRecord(f"Unknown Avro type {kind}.")
    return Schema(_CONNECT_PLAIN[kind])


def _bytes_schema(kind: str, avro: Mapping[str, Any]) -> Schema:
    parameters: list[tuple[str, str]] = []
    name = None
    if avro.get("logicalType") == "decimal":
        name = DECIMAL
        parameters.append((SCALE, str(avro.get("scale", 0))))
        precision = avro.get("precision", _USUAL_PRECISION)
        if precision != _USUAL_PRECISION:
            parameters.append((_PRECISION, str(precision)))
    if kind == "fixed":
        parameters.append((FIXED_SIZE, str(avro["size"])))
    version = None if name is None else 1
    return Schema(Type.BYTES, name=name, version=version, parameters=tuple(parameters))


def _with_properties(found: Schema, kind: str, avro: Mapping[str, Any]) -> Schema:
    own_name = avro.get("name") if kind in ("record", "error", "enum", "fixed") else None
    name = avro.get("connect.name", found.name or own_name)
    if name is not None and str(name).startswith(f"{NAMESPACE}.{DEFAULT_NAME}"):
        name = None
    parameters = dict(found.parameters) | avro.get("connect.parameters", {})
    made = dataclasses.replace(
        found,
        name=name,
        version=avro.get("connect.version", found.version),
        doc=avro.get("connect.doc"),
        parameters=tuple(parameters.items()),
    )
    default = avro.get("connect.default")
    if default is None:
        return made
    return dataclasses.replace(made, default=_default_from_avro(made, default))


def _default_from_avro(schema: Schema, value: Any) -> Any:
    read = json_reader(schema, fill_defaults=True)
    return read(_with_bytes(schema, value, _latin_to_base64))


def _latin_to_base64(text: str) -> str:
    return base64.b64encode(text.encode("latin-1")).decode("ascii")
