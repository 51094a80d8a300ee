"""From Avro types to text: the canonical text of a schema, and the specification's canonical form.

They are two things. The Parsing Canonical Form drops everything that does not change how bytes
are read: docs, defaults, aliases. A registry must not take schemas for the same that differ in
these, so the text it compares by keeps all of them, in the order Avro's Java library writes them.
"""

from collections.abc import Iterable
from typing import Any

from strom.registry.formats import bounded_json
from strom.registry.formats.avro.types import (
    Array,
    AvroType,
    Awaited,
    Enumeration,
    Field,
    Fixed,
    Map,
    Name,
    Named,
    Primitive,
    Record,
    Union,
)

LOGICAL_WORDS = ("logicalType", "precision", "scale")


class CanonicalText:
    """Writes a schema in full, each named type where it is met first."""

    def __init__(self, known: Iterable[str] = (), *, sort: bool = False) -> None:
        self._known = set(known)
        self._sort = sort

    def write(self, schema: AvroType) -> str:
        """Write a schema on one line; named types in `known` are mentioned, not defined."""
        return bounded_json.write(self._type(schema, ""))

    def _type(self, schema: AvroType, space: str) -> Any:
        match schema:
            case Union():
                return [self._type(branch, space) for branch in schema.branches]
            case Primitive():
                if not schema.attributes:
                    return schema.type
                return {"type": schema.type, **self._attributes(schema.attributes)}
            case Array():
                items = self._type(schema.items, space)
                return {"type": "array", "items": items, **self._attributes(schema.attributes)}
            case Map():
                values = self._type(schema.values, space)
                return {"type": "map", "values": values, **self._attributes(schema.attributes)}
            case Awaited():
                raise AssertionError("a schema that was read awaits no name")
            case _:
                return self._named(schema, space)

    def _named(self, schema: Named, space: str) -> Any:
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
            case Record():
                if schema.is_error:
                    written["type"] = "error"
                written["fields"] = [self._field(part, name.space) for part in schema.fields]
            case Enumeration():
                written["symbols"] = schema.symbols
                if schema.default is not None:
                    written["default"] = schema.default
            case Fixed():
                written["size"] = schema.size
        written |= self._attributes(schema.attributes)
        if schema.aliases:
            written["aliases"] = self._ordered(_relative(schema.aliases, name.space))
        return written

    def _field(self, part: Field, space: str) -> dict[str, Any]:
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


def _relative(aliases: list[Name], space: str) -> list[str]:
    return [alias.simple if alias.space == space else alias.full for alias in aliases]


def parsing_canonical_form(schema: AvroType) -> str:
    """Write the specification's Parsing Canonical Form."""
    return bounded_json.write(_form(schema, set()))


def _form(schema: AvroType, known: set[str]) -> Any:
    match schema:
        case Primitive():
            return schema.type
        case Union():
            return [_form(branch, known) for branch in schema.branches]
        case Array():
            return {"type": "array", "items": _form(schema.items, known)}
        case Map():
            return {"type": "map", "values": _form(schema.values, known)}
        case Awaited():
            raise AssertionError("a schema that was read awaits no name")
        case _:
            return _named_form(schema, known)


def _named_form(schema: Named, known: set[str]) -> Any:
    full = schema.name.full
    if full in known:
        return full
    known.add(full)
    match schema:
        case Record():
            fields = [
                {"name": part.name, "type": _form(part.type, known)} for part in schema.fields
            ]
            return {"name": full, "type": "record", "fields": fields}
        case Enumeration():
            return {"name": full, "type": "enum", "symbols": schema.symbols}
        case Fixed():
            return {"name": full, "type": "fixed", "size": schema.size}
