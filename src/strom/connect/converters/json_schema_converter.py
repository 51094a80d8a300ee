"""JSON with schemas in a registry, compatible with Confluent's JsonSchemaConverter.

Connect schemas ↔ JSON Schema is Confluent's mapping: `connect.type` and `connect.index` add what JSON
Schema lacks, the width of numbers and the order of fields. An optional value is `oneOf` null and the
value.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from strom.connect.api import Field, PoisonRecord, Schema, Type
from strom.connect.api.schema import DECIMAL
from strom.connect.converters.contract import decimal_format_setting
from strom.connect.converters.json_converter import dump, dump_exact, load_exact
from strom.connect.converters.json_values import json_reader, json_writer
from strom.connect.converters.registered import (
    RegisteredConverter,
    RegisteredReader,
    RegistrySettings,
)
from strom.connect.logical_values import has_default
from strom.registry.client import RegisteredSchema

_TO: Final = {
    Type.INT8: ("integer", "int8"),
    Type.INT16: ("integer", "int16"),
    Type.INT32: ("integer", "int32"),
    Type.INT64: ("integer", "int64"),
    Type.FLOAT32: ("number", "float32"),
    Type.FLOAT64: ("number", "float64"),
    Type.BOOLEAN: ("boolean", None),
    Type.STRING: ("string", None),
    Type.BYTES: ("string", "bytes"),
}
_FROM: Final = {connect: kind for kind, (_, connect) in _TO.items() if connect is not None}
_PLAIN: Final = {
    "integer": Type.INT64,
    "number": Type.FLOAT64,
    "boolean": Type.BOOLEAN,
    "string": Type.STRING,
}
_NULL: Final = {"type": "null"}


@dataclass(frozen=True, kw_only=True)
class JsonSchemaSettings(RegistrySettings):
    """Settings of the JsonSchemaConverter."""

    decimal_format: str = decimal_format_setting(choices=("BASE64", "NUMERIC"))


class JsonSchemaConverter(RegisteredConverter):
    """JSON in Confluent's wire format, with a registered JSON Schema."""

    settings_class = JsonSchemaSettings
    kind = "JSON"
    language = "JSON Schema"

    def __init__(self, settings: JsonSchemaSettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._numeric = settings.decimal_format == "NUMERIC"

    def schema_text(self, schema: Schema) -> str:
        described = to_json_schema(schema, numeric_decimals=self._numeric)
        return json.dumps(described, separators=(",", ":"), ensure_ascii=False)

    def make_writer(self, schema: Schema, registered: RegisteredSchema) -> Callable[[Any], bytes]:
        to_text = dump_exact if self._numeric else dump
        convert = json_writer(
            schema, numeric_decimals=self._numeric, fill_defaults=True, named_entries=True
        )
        return lambda value: to_text(convert(value))

    def make_reader(self, registered: RegisteredSchema, place: tuple[int, ...]) -> RegisteredReader:
        others = {name: json.loads(text) for name, text in self.referenced(registered)}
        schema = FromJsonSchema(json.loads(registered.text), others).schema()
        convert = json_reader(schema, fill_defaults=True, named_entries=True)
        return RegisteredReader(schema, lambda payload: convert(load_exact(payload)))


def to_json_schema(schema: Schema, *, numeric_decimals: bool) -> dict[str, Any]:

    def inner(part: Schema | None) -> dict[str, Any]:
        if part is None:
            raise PoisonRecord("An array's items and a map's keys and values need a schema.")
        return to_json_schema(part, numeric_decimals=numeric_decimals)

    found = _described(schema)
    if schema.type is Type.STRUCT:
        found |= {"type": "object", "properties": {}}
        for index, field in enumerate(schema.fields):
            found["properties"][field.name] = inner(field.schema) | {"connect.index": index}
        required = [field.name for field in schema.fields if not field.schema.optional]
        if required:
            found["required"] = required
    elif schema.type is Type.ARRAY:
        found |= {"type": "array", "items": inner(schema.value)}
    elif schema.type is Type.MAP:
        found |= _map(schema, inner(schema.key), inner(schema.value))
    else:
        kind, connect = _TO[schema.type]
        if schema.name == DECIMAL and numeric_decimals:
            kind = "number"
        found |= {"type": kind} | ({} if connect is None else {"connect.type": connect})
    default = {}
    if has_default(schema):
        write = json_writer(schema, numeric_decimals=False, fill_defaults=False, named_entries=True)
        default = {"default": write(schema.default)}
    if schema.optional:
        return {"oneOf": [_NULL, found]} | default
    return found | default


def _described(schema: Schema) -> dict[str, Any]:
    found = {
        "title": schema.name,
        "connect.version": schema.version,
        "description": schema.doc,
        "connect.parameters": dict(schema.parameters) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _map(schema: Schema, key: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    if schema.key is not None and schema.key.type is Type.STRING:
        return {"type": "object", "connect.type": "map", "additionalProperties": value}
    entry = {"type": "object", "properties": {"key": key, "value": value}}
    return {"type": "array", "connect.type": "map", "items": entry}


class FromJsonSchema:
    """Converts a JSON Schema and its references to a Connect schema."""

    def __init__(self, root: Any, others: Mapping[str, Any]) -> None:
        self._root = root
        self._others = others
        self._within: list[str] = []

    def schema(self) -> Schema:
        return self._schema(self._root)

    def _schema(self, node: Any) -> Schema:
        if isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
            return self._referred(node["$ref"])
        if not isinstance(node, Mapping):
            raise PoisonRecord("A JSON Schema that accepts any value has no equivalent in Connect.")
        choices = node.get("oneOf") or node.get("anyOf")
        kinds = node.get("type")
        if isinstance(choices, list):
            return self._optional_of(node, [part for part in choices if part != _NULL])
        if isinstance(kinds, list):
            others = [{**node, "type": kind} for kind in kinds if kind != "null"]
            if len(others) == len(kinds) and len(others) == 1:
                return self._schema(others[0])
            return self._optional_of(node, others)
        return _with_default(self._plain(node), node)

    def _optional_of(self, node: Mapping[str, Any], others: list[Any]) -> Schema:
        if len(others) != 1:
            raise PoisonRecord("A union of several types has no equivalent in Connect.")
        found = dataclasses.replace(self._schema(others[0]), optional=True)
        return _with_default(found, node)

    def _referred(self, reference: str) -> Schema:
        if reference in self._within:
            raise PoisonRecord(
                f"The schema {reference} is recursive, which Connect's schemas do not support."
            )
        self._within.append(reference)
        document, _, pointer = reference.partition("#")
        node = self._others.get(document) if document else self._root
        for step in pointer.strip("/").split("/") if pointer.strip("/") else ():
            node = node.get(step) if isinstance(node, Mapping) else None
        if node is None:
            raise PoisonRecord(f"The schema refers to {reference}, which does not exist.")
        found = self._schema(node)
        self._within.pop()
        return found

    def _plain(self, node: Mapping[str, Any]) -> Schema:
        kind, connect = node.get("type"), node.get("connect.type")
        shape: dict[str, Any]
        if connect == "map" or (kind == "object" and "properties" not in node):
            shape = self._map(node)
        elif kind == "object":
            shape = {"type": Type.STRUCT, "fields": self._fields(node)}
        elif kind == "array":
            shape = {"type": Type.ARRAY, "value": self._schema(node.get("items"))}
        elif connect in _FROM:
            shape = {"type": _FROM[connect]}
        elif kind in _PLAIN or "enum" in node:
            shape = {"type": _PLAIN.get(str(kind), Type.STRING)}
        else:
            raise PoisonRecord(f"A JSON Schema of type {kind} has no equivalent in Connect.")
        return Schema(
            name=node.get("title"),
            version=node.get("connect.version"),
            doc=node.get("description"),
            parameters=tuple(node.get("connect.parameters", {}).items()),
            **shape,
        )

    def _map(self, node: Mapping[str, Any]) -> dict[str, Any]:
        if node.get("type") == "array":
            entry = node["items"]["properties"]
            key, value = (self._schema(entry[name]) for name in ("key", "value"))
            return {"type": Type.MAP, "key": key, "value": value}
        value = self._schema(node.get("additionalProperties"))
        return {"type": Type.MAP, "key": Schema(Type.STRING), "value": value}

    def _fields(self, node: Mapping[str, Any]) -> tuple[Field, ...]:
        required = node.get("required", ())
        listed = list(node["properties"].items())
        if all(isinstance(part, Mapping) and "connect.index" in part for _, part in listed):
            listed.sort(key=lambda pair: pair[1]["connect.index"])
        fields = []
        for name, part in listed:
            schema = self._schema(part)
            if name not in required:
                schema = dataclasses.replace(schema, optional=True)
            fields.append(Field(name, schema))
        return tuple(fields)


def _with_default(schema: Schema, node: Mapping[str, Any]) -> Schema:
    default = node.get("default")
    if default is None:
        return schema
    read = json_reader(schema, fill_defaults=False, named_entries=True)
    return dataclasses.replace(schema, default=read(default))
