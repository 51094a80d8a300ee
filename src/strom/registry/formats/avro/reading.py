"""Parses Avro schemas from JSON.

It rejects what Avro's Java library rejects with strict names and validated defaults; if lenient, what the
library rejects without both. A name may be used before it is defined, as that library allows since 1.12.
"""

import re
from typing import Any

from strom.registry.formats import bounded_json
from strom.registry.formats.avro.types import (
    NO_DEFAULT,
    PRIMITIVES,
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
from strom.registry.formats.schema import InvalidSchema

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
ORDERS = ("ascending", "descending", "ignore")
MAX_FIXED_SIZE = 2**31 - 1
BITS = {"int": 31, "long": 63}

# Keywords of the specification; every other key is a custom attribute and is preserved.
TYPE_WORDS = frozenset(
    ("type", "name", "namespace", "doc", "fields", "items", "values", "size", "symbols", "aliases")
)
ENUM_WORDS = TYPE_WORDS | {"default"}
FIELD_WORDS = frozenset(("name", "type", "doc", "default", "order", "aliases"))


class AvroParser:
    """Parses schemas one after the other; later ones may use the named types of earlier ones."""

    def __init__(self) -> None:
        self.names: dict[str, NamedType] = {}
        self._fields: list[AvroField] = []
        self._unions: list[tuple[AvroUnion, str]] = []
        self._lenient = False

    def read(self, text: str, *, lenient: bool = False) -> AvroType:
        """Parse a schema and validate it, references between its types included."""
        self._lenient = lenient
        self._fields.clear()
        self._unions.clear()
        schema = self._resolved(self._type(bounded_json.read(text), "", "/"))
        self._resolve_names()
        for union, place in self._unions:
            _check_branches(union, place)
        for part in () if lenient else self._fields:
            if part.has_default and not _default_fits(part):
                given = bounded_json.write(part.default)
                raise _invalid(
                    part.place, f"the default {given} is not a value of the field's type"
                )
        return schema

    def _type(self, schema: Any, space: str, place: str) -> AvroType:
        match schema:
            case str():
                return self._by_name(schema, space, place)
            case list():
                branches = [
                    self._type(branch, space, _under(place, index))
                    for index, branch in enumerate(schema)
                ]
                union = AvroUnion(branches)
                self._unions.append((union, place))
                return union
            case dict():
                return self._by_object(schema, space, place)
            case _:
                raise _invalid(place, "a schema must be a string, an array or an object")

    def _by_name(self, name: str, space: str, place: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroPrimitive(name)
        full = AvroName.of(name, space)
        return (
            self.names.get(full.full) or self.names.get(full.simple) or UnresolvedName(full, place)
        )

    def _by_object(self, schema: dict[str, Any], space: str, place: str) -> AvroType:
        kind = schema.get("type")
        match kind:
            case "record" | "error":
                return self._record(schema, space, place)
            case "enum":
                return self._enumeration(schema, space, place)
            case "fixed":
                return self._fixed(schema, space, place)
            case "array":
                items = self._type(_part(schema, "items", place), space, _under(place, "items"))
                return AvroArray(items, _attributes(schema))
            case "map":
                values = self._type(_part(schema, "values", place), space, _under(place, "values"))
                return AvroMap(values, _attributes(schema))
            case str():
                if kind in PRIMITIVES:
                    return AvroPrimitive(kind, _attributes(schema))
                return self._by_name(kind, space, place)
            case None:
                raise _invalid(place, "the schema has no `type`")
            case _:
                raise _invalid(place, "`type` must be the name of a type here")

    def _record(self, schema: dict[str, Any], space: str, place: str) -> AvroRecord:
        record = AvroRecord(
            **_common_parts(schema, space, place), is_error=schema["type"] == "error"
        )
        name = record.name
        self._define(record, place)  # before its fields, which may refer to it
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise _invalid(place, f"the record {name.full} has no array of `fields`")
        known: set[str] = set()
        for index, part in enumerate(fields):
            made = self._field(part, name.space, _under(_under(place, "fields"), index))
            if made.name in known:
                raise _invalid(
                    made.place, f"the record {name.full} has the field {made.name} twice"
                )
            known.add(made.name)
            record.fields.append(made)
        self._fields += record.fields
        return record

    def _field(self, part: Any, space: str, place: str) -> AvroField:
        if not isinstance(part, dict):
            raise _invalid(place, "a field must be an object")
        name = part.get("name")
        if not isinstance(name, str):
            raise _invalid(place, "the field has no `name`")
        self._check_name(name, place)
        order = part.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in ORDERS:
            raise _invalid(place, f"`order` must be one of {', '.join(ORDERS)}")
        return AvroField(
            name=name,
            type=self._type(_part(part, "type", place), space, _under(place, "type")),
            place=place,
            default=part.get("default", NO_DEFAULT),
            doc=_text(part, "doc"),
            order=order.lower(),
            aliases=_aliases(part, place),
            attributes=_attributes(part, FIELD_WORDS),
        )

    def _enumeration(self, schema: dict[str, Any], space: str, place: str) -> AvroEnum:
        name = _name(schema, space, place)
        symbols = schema.get("symbols")
        if not isinstance(symbols, list):
            raise _invalid(place, f"the enum {name.full} has no array of `symbols`")
        known: set[str] = set()
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise _invalid(place, "a symbol must be a string")
            self._check_name(symbol, place)
            if symbol in known:
                raise _invalid(place, f"the enum {name.full} has the symbol {symbol} twice")
            known.add(symbol)
        default = _text(schema, "default")
        if default is not None and default not in known:
            raise _invalid(place, f"the default {default} is not a symbol of the enum {name.full}")
        parts = _common_parts(schema, space, place, ENUM_WORDS)
        enumeration = AvroEnum(**parts, symbols=symbols, default=default)
        self._define(enumeration, place)
        return enumeration

    def _fixed(self, schema: dict[str, Any], space: str, place: str) -> AvroFixed:
        name = _name(schema, space, place)
        size = schema.get("size")
        if type(size) is not int or not 0 <= size <= MAX_FIXED_SIZE:
            raise _invalid(
                place,
                f"the `size` of {name.full} must be a number of bytes from 0 to {MAX_FIXED_SIZE}",
            )
        fixed = AvroFixed(**_common_parts(schema, space, place), size=size)
        self._define(fixed, place)
        return fixed

    def _define(self, named: NamedType, place: str) -> None:
        full = named.name.full
        for part in full.split("."):
            self._check_name(part, place)
        if full in PRIMITIVES:
            raise _invalid(place, f"{full} is the name of a primitive type")
        if full in self.names:
            raise _invalid(place, f"{full} is defined twice")
        self.names[full] = named

    def _check_name(self, name: str, place: str) -> None:
        if not self._lenient and not NAME.match(name):
            raise _invalid(
                place, f"invalid name {name!r}: use letters, digits and _, and no digit first"
            )

    def _resolve_names(self) -> None:
        for named in self.names.values():
            if isinstance(named, AvroRecord):
                for part in named.fields:
                    part.type = self._resolved(part.type)
        for union, _ in self._unions:
            union.branches = [self._resolved(branch) for branch in union.branches]

    def _resolved(self, schema: AvroType) -> AvroType:
        """Replace the unresolved names in a type, its items and its values by their definitions."""
        match schema:
            case UnresolvedName(name, place):
                found = self.names.get(name.full) or self.names.get(name.simple)
                if found is None:
                    raise _invalid(place, f"the type {name.full} is not defined")
                return found
            case AvroArray():
                schema.items = self._resolved(schema.items)
            case AvroMap():
                schema.values = self._resolved(schema.values)
        return schema


def _check_branches(union: AvroUnion, place: str) -> None:
    known: set[str] = set()
    for branch in union.branches:
        if isinstance(branch, AvroUnion):
            raise _invalid(place, "a union must not directly contain another union")
        name = branch.name.full if isinstance(branch, NamedType) else branch.type
        if name in known:
            raise _invalid(place, f"the union has two branches of type {name}")
        known.add(name)


def _default_fits(part: AvroField) -> bool:
    """Whether a field's default is a value of its type, as far as Avro's Java library checks it.

    The library accepts any string for an enum, a fixed or bytes, and a value of any branch for a union
    (the specification before 1.12: of the first branch only).
    """
    return _fits(part.type, part.default, frozenset((id(part),)))


def _fits(schema: AvroType, value: Any, within: frozenset[int]) -> bool:
    """Check a value; `within` holds the fields whose defaults are being checked around it."""
    match schema:
        case AvroPrimitive():
            return _fits_primitive(schema.type, value)
        case AvroArray():
            return isinstance(value, list) and all(
                _fits(schema.items, item, within) for item in value
            )
        case AvroMap():
            return isinstance(value, dict) and all(
                _fits(schema.values, item, within) for item in value.values()
            )
        case AvroUnion():
            return any(_fits(branch, value, within) for branch in schema.branches)
        case AvroRecord():
            return isinstance(value, dict) and all(
                _field_fits(part, value, within) for part in schema.fields
            )
        case _:
            return isinstance(value, str)


def _field_fits(part: AvroField, value: dict[str, Any], within: frozenset[int]) -> bool:
    if part.name in value:
        return _fits(part.type, value[part.name], within)
    # A default that contains itself would never end.
    endless = id(part) in within
    return part.has_default and not endless and _fits(part.type, part.default, within | {id(part)})


def _fits_primitive(kind: str, value: Any) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = 1 << BITS[kind]
            return type(value) is int and -limit <= value < limit
        case "float" | "double":
            return type(value) in (int, float)
        case _:
            return isinstance(value, str)


def _common_parts(
    schema: dict[str, Any], space: str, place: str, words: frozenset[str] = TYPE_WORDS
) -> dict[str, Any]:
    name = _name(schema, space, place)
    return {
        "name": name,
        "doc": _text(schema, "doc"),
        "aliases": [AvroName.of(alias, name.space) for alias in _aliases(schema, place)],
        "attributes": _attributes(schema, words),
    }


def _name(schema: dict[str, Any], space: str, place: str) -> AvroName:
    given = schema.get("name")
    if not isinstance(given, str):
        raise _invalid(place, f"the {schema['type']} has no `name`")
    inner = schema.get("namespace")
    return AvroName.of(given, inner if isinstance(inner, str) else space)


def _aliases(schema: dict[str, Any], place: str) -> list[str]:
    aliases = schema.get("aliases")
    if aliases is None:
        return []
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise _invalid(place, "`aliases` must be an array of strings")
    return list(dict.fromkeys(aliases))


def _part(schema: dict[str, Any], key: str, place: str) -> Any:
    if key not in schema:
        raise _invalid(place, f"`{key}` is missing")
    return schema[key]


def _text(schema: dict[str, Any], key: str) -> str | None:
    value = schema.get(key)
    return value if isinstance(value, str) else None


def _attributes(schema: dict[str, Any], words: frozenset[str] = TYPE_WORDS) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in words}


def _under(place: str, step: str | int) -> str:
    return f"{place.rstrip('/')}/{step}"


def _invalid(place: str, reason: str) -> InvalidSchema:
    return InvalidSchema(f"At {place}: {reason}.")
