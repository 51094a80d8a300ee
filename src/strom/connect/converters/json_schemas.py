"""Connect schemas ↔ the JSON that Kafka's JsonConverter writes into records."""

import dataclasses
from collections.abc import Callable
from typing import Any

from strom.connect.api import Field, PoisonRecord, Schema, Type
from strom.connect.logical_values import has_default

WriteDefault = Callable[[Schema, Any], Any]
ReadDefault = Callable[[Schema, Any], Any]


def schema_to_json(schema: Schema, write_default: WriteDefault) -> dict[str, Any]:
    """The schema as a JSON object; `write_default(schema, value)` converts default values to JSON."""
    found: dict[str, Any] = {"type": schema.type.value}
    if schema.type is Type.ARRAY:
        found["items"] = _inner_to_json(schema.value, write_default)
    elif schema.type is Type.MAP:
        found["keys"] = _inner_to_json(schema.key, write_default)
        found["values"] = _inner_to_json(schema.value, write_default)
    elif schema.type is Type.STRUCT:
        found["fields"] = [
            {**schema_to_json(field.schema, write_default), "field": field.name}
            for field in schema.fields
        ]
    found["optional"] = schema.optional
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            found[name] = getattr(schema, name)
    if schema.parameters:
        found["parameters"] = dict(schema.parameters)
    if has_default(schema):
        found["default"] = write_default(schema, schema.default)
    return found


def _inner_to_json(schema: Schema | None, write_default: WriteDefault) -> dict[str, Any] | None:
    return None if schema is None else schema_to_json(schema, write_default)


def schema_from_json(node: Any, read_default: ReadDefault) -> Schema | None:
    """The schema that a JSON object describes; None for null."""
    if node is None:
        return None
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        raise PoisonRecord('A schema must be a JSON object with a "type".')
    try:
        kind = Type(node["type"])
    except ValueError:
        raise PoisonRecord(f"Unknown schema type {node['type']}.") from None
    shape: dict[str, Any] = {}
    if kind is Type.ARRAY:
        shape["value"] = _part(node, "items", read_default)
    elif kind is Type.MAP:
        shape["key"] = _part(node, "keys", read_default)
        shape["value"] = _part(node, "values", read_default)
    elif kind is Type.STRUCT:
        shape["fields"] = _fields(node, read_default)
    plain = Schema(
        kind,
        optional=node.get("optional") is True,
        name=_typed(node, "name", str),
        version=_typed(node, "version", int),
        doc=_typed(node, "doc", str),
        parameters=_parameters(node),
        **shape,
    )
    if node.get("default") is None:
        return plain
    return dataclasses.replace(plain, default=read_default(plain, node["default"]))


def _part(node: dict[str, Any], name: str, read_default: ReadDefault) -> Schema:
    found = schema_from_json(node.get(name), read_default)
    if found is None:
        raise PoisonRecord(f'A schema of type {node["type"]} must have "{name}".')
    return found


def _fields(node: dict[str, Any], read_default: ReadDefault) -> tuple[Field, ...]:
    listed = node.get("fields")
    if not isinstance(listed, list):
        raise PoisonRecord('A schema of type struct must have a list of "fields".')
    fields = []
    for entry in listed:
        if not isinstance(entry, dict) or not isinstance(entry.get("field"), str):
            raise PoisonRecord('Every field of a struct must have its name in "field".')
        found = schema_from_json(entry, read_default)
        assert found is not None, "a JSON object always gives a schema"  # noqa: S101
        fields.append(Field(entry["field"], found))
    return tuple(fields)


def _parameters(node: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    given = node.get("parameters")
    if given is None:
        return ()
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise PoisonRecord("A schema's parameters must be an object of strings.")
    return tuple(given.items())


def _typed(node: dict[str, Any], name: str, kind: type) -> Any:
    found = node.get(name)
    if found is not None and type(found) is not kind:
        raise PoisonRecord(f"Invalid {name} of a schema: {found!r}.")
    return found
