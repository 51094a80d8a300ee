"""Whether a JSON value is valid as the default of a field."""

from typing import Any

from strom.registry.formats.avro.types import (
    AvroArray,
    AvroField,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
)

BITS = {"int": 31, "long": 63}


def default_fits(part: AvroField) -> bool:
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
