"""Connect values ↔ plain JSON values, compiled once per schema.

Where Kafka's converter reads a value of the wrong type as 0, false or null, this one rejects the record.
"""

import base64
import binascii
import math
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from strom.connect.api import PoisonRecord, Schema, Type
from strom.connect.api.schema import DECIMAL
from strom.connect.logical_values import (
    INTEGER_BITS,
    decimal_scale,
    decoder,
    encoder,
    has_default,
)

Conversion = Callable[[Any], Any]
_SINGLE = struct.Struct(">f")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def json_writer(
    schema: Schema, *, numeric_decimals: bool, fill_defaults: bool, named_entries: bool = False
) -> Conversion:
    """The conversion from values of this schema to JSON values.

    A map whose keys are not strings is a list: of pairs, or with `named_entries` of objects.
    """

    def inner(part: Schema | None) -> Conversion:
        if part is None:
            return schemaless_to_json
        return json_writer(
            part,
            numeric_decimals=numeric_decimals,
            fill_defaults=fill_defaults,
            named_entries=named_entries,
        )

    write = _writer_of_present(schema, inner, numeric_decimals)
    if named_entries and _has_entries(schema):
        write = _named(write)
    default = write(schema.default) if fill_defaults and has_default(schema) else None
    return or_missing(schema, write, default)


def json_reader(schema: Schema, *, fill_defaults: bool, named_entries: bool = False) -> Conversion:
    """The conversion from JSON values (non-integers as Decimal) to values of this schema."""

    def inner(part: Schema | None) -> Conversion:
        if part is None:
            return lambda value: value
        return json_reader(part, fill_defaults=fill_defaults, named_entries=named_entries)

    read = _reader_of_present(schema, inner)
    if named_entries and _has_entries(schema):
        read = _unnamed(read)
    default = schema.default if fill_defaults and has_default(schema) else None
    return or_missing(schema, read, default)


def _has_entries(schema: Schema) -> bool:
    return schema.type is Type.MAP and (schema.key is None or schema.key.type is not Type.STRING)


def _named(write_pairs: Conversion) -> Conversion:
    return lambda value: [{"key": key, "value": item} for key, item in write_pairs(value)]


def _unnamed(read_pairs: Conversion) -> Conversion:
    def read(entries: Any) -> Any:
        if not isinstance(entries, list) or not all(
            isinstance(entry, dict) and entry.keys() == {"key", "value"} for entry in entries
        ):
            raise PoisonRecord(
                "A map whose keys are not strings must be a list of objects with key and value."
            )
        return read_pairs([[entry["key"], entry["value"]] for entry in entries])

    return read


def schemaless_to_json(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return _float_to_json(value)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: schemaless_to_json(item) for key, item in value.items()}
        return [[schemaless_to_json(key), schemaless_to_json(value[key])] for key in value]
    if isinstance(value, list | tuple):
        return [schemaless_to_json(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise PoisonRecord(f"A {type(value).__name__} without a schema cannot be written as JSON.")


def shortest_single(value: float) -> float:
    """The shortest decimal that is the same single-precision number."""
    packed = _SINGLE.pack(value)
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if _SINGLE.pack(short) == packed:
            return short
    return float(f"{value:.9g}")


def as_single(value: float) -> float:
    """The nearest single-precision number; infinite outside its range."""
    try:
        single: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return single


def or_missing(schema: Schema, change: Conversion, default: Any) -> Conversion:
    """The conversion with what becomes of a missing value: the default, None, or PoisonRecord."""
    kind = schema.type.value
    if default is not None:
        return lambda value: default if value is None else change(value)
    if schema.optional:
        return lambda value: None if value is None else change(value)

    def required(value: Any) -> Any:
        if value is None:
            raise PoisonRecord(f"A required {kind} has neither a value nor a default.")
        return change(value)

    return required


def _writer_of_present(
    schema: Schema, inner: Callable[[Schema | None], Conversion], numeric_decimals: bool
) -> Conversion:
    if schema.name == DECIMAL and numeric_decimals:
        return _checked(Decimal, schema, lambda value: value)
    logical = encoder(schema)
    if logical is not None:
        if schema.name == DECIMAL:
            return lambda value: base64.b64encode(logical(value)).decode("ascii")
        return logical
    match schema.type:
        case Type.STRUCT:
            return struct_writer(schema, inner)
        case Type.ARRAY:
            item = inner(schema.value)
            return _checked(list, schema, lambda value: [item(one) for one in value])
        case Type.MAP:
            return _map_writer(schema, inner)
        case Type.BYTES:
            return _checked(bytes, schema, lambda value: base64.b64encode(value).decode("ascii"))
        case Type.STRING | Type.BOOLEAN:
            return _checked_scalar(schema)
        case Type.FLOAT32:
            return lambda value: _float_to_json(value, single=True)
        case Type.FLOAT64:
            return _float_to_json
        case _:
            return checked_integer(schema.type)


def _reader_of_present(schema: Schema, inner: Callable[[Schema | None], Conversion]) -> Conversion:
    if schema.name == DECIMAL:
        return _decimal_reader(schema)
    logical = decoder(schema)
    if logical is not None:
        whole = checked_integer(schema.type)
        return lambda value: logical(whole(value))
    match schema.type:
        case Type.STRUCT:
            fields = [(field.name, inner(field.schema)) for field in schema.fields]
            return _checked(
                dict, schema, lambda value: {name: read(value.get(name)) for name, read in fields}
            )
        case Type.ARRAY:
            item = inner(schema.value)
            return _checked(list, schema, lambda value: [item(one) for one in value])
        case Type.MAP:
            return _map_reader(schema, inner)
        case Type.BYTES:
            return _checked(str, schema, _from_base64)
        case Type.STRING | Type.BOOLEAN:
            return _checked_scalar(schema)
        case Type.FLOAT32:
            return lambda value: as_single(_float_from_json(value))
        case Type.FLOAT64:
            return _float_from_json
        case _:
            return checked_integer(schema.type)


def _checked(kind: type, schema: Schema, change: Conversion) -> Conversion:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise PoisonRecord(f"A {schema.type.value} cannot be {_shown(value)}.")
        return change(value)

    return check


def _checked_scalar(schema: Schema) -> Conversion:
    return _checked(str if schema.type is Type.STRING else bool, schema, lambda value: value)


def checked_integer(kind: Type) -> Conversion:
    """A check that rejects everything but integers in the range of this type."""
    limit = 1 << (INTEGER_BITS[kind] - 1)

    def check(value: Any) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise PoisonRecord(f"A {kind.value} cannot be {_shown(value)}.")
        return value

    return check


def _float_to_json(value: Any, *, single: bool = False) -> Any:
    if type(value) is not float and type(value) is not int:
        raise PoisonRecord(f"A floating-point number cannot be {_shown(value)}.")
    if not math.isfinite(value):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    if single:
        nearest = as_single(value)
        return shortest_single(nearest) if math.isfinite(nearest) else _float_to_json(nearest)
    return float(value)


def _float_from_json(value: Any) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise PoisonRecord(f"A floating-point number cannot be {_shown(value)}.")
    return float(value)


def struct_writer(schema: Schema, inner: Callable[[Schema], Conversion]) -> Conversion:
    """The conversion of a struct, field by field; unknown fields are rejected."""
    fields = [(field.name, inner(field.schema)) for field in schema.fields]
    names = {field.name for field in schema.fields}

    def write(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise PoisonRecord(f"A struct cannot be {_shown(value)}.")
        if len(value) > len(fields) and not value.keys() <= names:
            extra = ", ".join(map(str, value.keys() - names))
            raise PoisonRecord(f"The struct's schema has no field {extra}.")
        return {name: change(value.get(name)) for name, change in fields}

    return write


def _map_writer(schema: Schema, inner: Callable[[Schema | None], Conversion]) -> Conversion:
    key, item = inner(schema.key), inner(schema.value)
    if schema.key is not None and schema.key.type is Type.STRING:
        return _checked(
            Mapping, schema, lambda value: {key(one): item(value[one]) for one in value}
        )
    return _checked(Mapping, schema, lambda value: [[key(one), item(value[one])] for one in value])


def _map_reader(schema: Schema, inner: Callable[[Schema | None], Conversion]) -> Conversion:
    key, item = inner(schema.key), inner(schema.value)
    if schema.key is not None and schema.key.type is Type.STRING:
        return _checked(dict, schema, lambda value: {key(one): item(value[one]) for one in value})

    def read(pairs: Any) -> Any:
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise PoisonRecord("A map whose keys are not strings must be a list of pairs.")
        try:
            return {key(name): item(value) for name, value in pairs}
        except TypeError:
            raise PoisonRecord("A map's keys must be scalars.") from None

    return _checked(list, schema, read)


def _decimal_reader(schema: Schema) -> Conversion:
    from_bytes = decoder(schema)
    assert from_bytes is not None, "decimals have a decoder"  # noqa: S101
    scale = decimal_scale(schema)

    def read(value: Any) -> Decimal:
        if isinstance(value, Decimal):
            return value
        if type(value) is int:
            return Decimal(value)
        if isinstance(value, str):
            return from_bytes(_from_base64(value))  # type: ignore[no-any-return]
        raise PoisonRecord(f"A decimal of scale {scale} cannot be {_shown(value)}.")

    return read


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise PoisonRecord(f"Invalid base64: {_shown(text)}.") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
