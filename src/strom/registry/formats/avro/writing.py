"""Writes Avro types as the registry's canonical text.

It is not the specification's Parsing Canonical Form, which drops everything that does not affect how
bytes are read: docs, defaults, aliases. A registry must keep schemas apart that differ in these, so the
text that it compares keeps them, in the order in which Avro's Java library writes them.
"""

from collections.abc import Iterable
from typing import Any

from strom.registry.formats import bounded_json
from strom.registry.formats.avro.types import (
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroName,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    NamedType,
    UnresolvedName,
)

LOGICAL_WORDS = ("logicalType", "precision", "scale")


class CanonicalText:
    """Writes a schema in full; each named type is defined where it occurs first."""

    def __init__(self, known: Iterable[str] = (), *, sort: bool = False) -> None:
        self._known = set(known)
        self._sort = sort

    def write(self, schema: AvroType) -> str:
        """The schema on one line; named types in `known` are referred to, not defined."""
        return bounded_json.write(self._type(schema, ""))

    def _type(self, schema: AvroType, space: str) -> Any:
        match schema:
            case AvroUnion():
                return [self._type(branch, space) for branch in schema.branches]
            case AvroPrimitive():
                if not schema.attributes:
                    return schema.type
                return {"type": schema.type, **self._attributes(schema.attributes)}
            case AvroArray():
                items = self._type(schema.items, space)
                return {"type": "array", "items": items, **self._attributes(schema.attributes)}
            case AvroMap():
                values = self._type(schema.values, space)
                return {"type": "map", "values": values, **self._attributes(schema.attributes)}
            case UnresolvedName():
                raise AssertionError("a parsed schema has no unresolved names")
            case _:
                return self._named(schema, space)

    def _named(self, schema: NamedType, space: str) -> Any:
        name = schema.name
        if name.full in self._known:
            return name.simple if name.space == space else name.full
        self._known.add(name.full)
        written: dict[str, Any] = {"type": schema.type, "name": name.simple}
        if name.space != space:
            written["namespace"] = name.space
        if schema.doc or (schema.doc is not None and not self._sort):
            written["doc"] = schema.doc
        match schema:
            case AvroRecord():
                if schema.is_error:
                    written["type"] = "error"
                written["fields"] = [self._field(part, name.space) for part in schema.fields]
            case AvroEnum():
                written["symbols"] = schema.symbols
                if schema.default is not None:
                    written["default"] = schema.default
            case AvroFixed():
                written["size"] = schema.size
        written |= self._attributes(schema.attributes)
        if schema.aliases:
            written["aliases"] = self._ordered(_relative(schema.aliases, name.space))
        return written

    def _field(self, part: AvroField, space: str) -> dict[str, Any]:
        written: dict[str, Any] = {"name": part.name, "type": self._type(part.type, space)}
        if part.doc is not None:
            written["doc"] = part.doc
        if part.has_default:
            written["default"] = part.default
        if part.order != "ascending":
            written["order"] = part.order
        if part.aliases:
            written["aliases"] = self._ordered(part.aliases)
        return written | self._attributes(part.attributes)

    def _ordered(self, texts: list[str]) -> list[str]:
        return sorted(texts) if self._sort else texts

    def _attributes(self, attributes: dict[str, Any]) -> dict[str, Any]:
        if not self._sort:
            return attributes
        first = [key for key in LOGICAL_WORDS if key in attributes]
        return {key: attributes[key] for key in dict.fromkeys(first + sorted(attributes))}


def _relative(aliases: list[AvroName], space: str) -> list[str]:
    return [alias.simple if alias.space == space else alias.full for alias in aliases]
