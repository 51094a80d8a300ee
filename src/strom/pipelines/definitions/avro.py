"""Avro schemas as columns: the Spark types of a schema. Needs neither Java nor a registry."""

import json
from collections.abc import Mapping
from typing import Any

from strom.model.errors import UserError
from strom.pipelines.definitions.types import INTEGERS

_PLAIN = {
    "null": "void",
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}


def parse_avro(text: str) -> dict[str, Any]:
    """Parse a record schema; UserError if it is invalid."""
    try:
        schema = json.loads(text)
    except ValueError:
        raise UserError(
            "The schema of an Avro stream must be Avro's JSON, or 'registry': Avro records "
            "cannot be read "
            "without the schema that they were written with."
        ) from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise UserError(
            "The schema of an Avro stream must be a record: its fields are the columns."
        )
    return schema


def avro_columns(text: str) -> dict[str, str]:
    """The columns of a record schema, with Spark's types."""
    schema = parse_avro(text)
    return {field["name"]: kind for field, kind in _Types().fields(schema)}


class _Types:
    """Named types: a schema may refer to those that it has defined before."""

    def __init__(self) -> None:
        self._named: dict[str, str | None] = {}

    def fields(
        self, record: Mapping[str, Any], outer: str = ""
    ) -> list[tuple[Mapping[str, Any], str]]:
        """The fields of a record with their types."""
        namespace, name = _full_name(record, outer)
        self._named[name] = None  # until its fields are known: a reference to it now is recursive
        fields = [(field, self.of(field["type"], namespace)) for field in record["fields"]]
        self._named[name] = _struct([(field["name"], kind) for field, kind in fields])
        return fields

    def of(self, schema: Any, namespace: str) -> str:
        """The Spark type of any schema."""
        if isinstance(schema, str):
            return _PLAIN.get(schema) or self._by_name(schema, namespace)
        if isinstance(schema, list):
            return self._union([one for one in schema if one != "null"], namespace)
        kind = schema["type"]
        if kind == "record":
            self.fields(schema, namespace)
            return self._by_name(_full_name(schema, namespace)[1], "")
        if kind == "array":
            return f"array<{self.of(schema['items'], namespace)}>"
        if kind == "map":
            return f"map<string,{self.of(schema['values'], namespace)}>"
        return self._scalar(schema, kind, namespace)

    def _scalar(self, schema: Mapping[str, Any], kind: Any, namespace: str) -> str:
        logical = schema.get("logicalType")
        if logical == "decimal":
            made = f"decimal({schema['precision']},{schema.get('scale', 0)})"
        elif kind in {"enum", "fixed"}:
            made = "string" if kind == "enum" else "binary"
        else:
            made = _LOGICAL.get((kind, str(logical))) or self.of(kind, namespace)
        if kind in {"enum", "fixed"}:
            self._named[_full_name(schema, namespace)[1]] = made
        return made

    def _union(self, members: list[Any], namespace: str) -> str:
        kinds = [self.of(one, namespace) for one in members]
        if not kinds:
            return "void"
        if len(kinds) == 1:
            return kinds[0]
        if set(kinds) <= INTEGERS:
            return "bigint"
        if set(kinds) == {"float", "double"}:
            return "double"
        return _struct([(f"member{number}", kind) for number, kind in enumerate(kinds)])

    def _by_name(self, name: str, namespace: str) -> str:
        for full in (f"{namespace}.{name}" if namespace else name, name):
            if full in self._named:
                found = self._named[full]
                if found is None:
                    raise UserError(f"{name} is recursive, which Spark's types do not support.")
                return found
        raise UserError(f"The schema refers to {name}, which is not defined.")


def _struct(fields: list[tuple[str, str]]) -> str:
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in fields)}>"


def _full_name(schema: Mapping[str, Any], outer: str) -> tuple[str, str]:
    """The namespace inside the type, and its full name."""
    name = str(schema["name"])
    if "." in name:
        return name.rpartition(".")[0], name
    namespace = str(schema.get("namespace", outer))
    return namespace, f"{namespace}.{name}" if namespace else name
