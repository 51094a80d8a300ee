"""Connect values ↔ fastavro values, compiled once per schema.

fastavro gets schemas without logical types, so that these are converted here, in the same way for all
converters.
"""

from collections.abc import Callable, Mapping
from typing import Any

from strom.connect.api import PoisonRecord, Schema, Type
from strom.connect.api.schema import DECIMAL
from strom.connect.converters.avro_schemas import FIXED_SIZE, UNION, is_avro_map
from strom.connect.converters.json_values import (
    as_single,
    checked_integer,
    or_missing,
    struct_writer,
)
from strom.connect.logical_values import (
    INTEGER_BITS,
    decimal_scale,
    decimal_to_unscaled,
    decoder,
    encoder,
    has_default,
    map_schemas,
)

Conversion = Callable[[Any], Any]
_PYTHON: dict[Type, tuple[type, ...]] = {
    **dict.fromkeys(INTEGER_BITS, (int,)),
    **dict.fromkeys((Type.FLOAT32, Type.FLOAT64), (float, int)),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes,),
    Type.ARRAY: (list,),
    **dict.fromkeys((Type.MAP, Type.STRUCT), (dict,)),
}


def without_logical_types(avro: Any) -> Any:
    if isinstance(avro, list):
        return [without_logical_types(part) for part in avro]
    if isinstance(avro, Mapping):
        return {
            key: part if key in ("default", "connect.default") else without_logical_types(part)
            for key, part in avro.items()
            if key not in ("logicalType", "precision", "scale")
        }
    return avro


def avro_writer(schema: Schema) -> Conversion:
    """The conversion from values of this schema to fastavro's."""
    write = _writer_of_present(schema)
    default = write(schema.default) if has_default(schema) else None
    return or_missing(schema, write, default)


def _writer_of_present(schema: Schema) -> Conversion:
    if schema.name == DECIMAL and (size := schema.parameter(FIXED_SIZE)) is not None:
        return _fixed_decimal(decimal_scale(schema), int(size))
    logical = encoder(schema)
    if logical is not None:
        return logical
    match schema.type:
        case Type.STRUCT if schema.name == UNION:
            return _union_writer(schema)
        case Type.STRUCT:
            return struct_writer(schema, avro_writer)
        case Type.ARRAY:
            item = avro_writer(schema.value) if schema.value is not None else _same
            return _checked(schema.type, lambda value: [item(one) for one in value])
        case Type.MAP:
            return _map_writer(schema)
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return checked_integer(schema.type)
        case _:
            return _checked(schema.type, _same)


def _same(value: Any) -> Any:
    return value


def _checked(kind: Type, change: Conversion) -> Conversion:
    allowed = _PYTHON[kind]

    def check(value: Any) -> Any:
        if type(value) not in allowed:
            raise PoisonRecord(f"A {kind.value} cannot be {type(value).__name__}.")
        return change(value)

    return check


def _fixed_decimal(scale: int, size: int) -> Conversion:
    def write(value: Any) -> bytes:
        try:
            return decimal_to_unscaled(value, scale).to_bytes(size, "big", signed=True)
        except OverflowError:
            raise PoisonRecord(f"{value} exceeds the {size} bytes of its fixed type.") from None

    return write


def _union_writer(schema: Schema) -> Conversion:
    members = [(field.name, field.schema, avro_writer(field.schema)) for field in schema.fields]

    def write(value: Any) -> Any:
        for name, member, change in members:
            if isinstance(value, Mapping) and value.get(name) is not None:
                changed = change(value[name])
                named = member.type is Type.STRUCT and member.name is not None
                return (member.name, changed) if named else changed
        raise PoisonRecord("A union needs a value for exactly one of its members.")

    return write


def _map_writer(schema: Schema) -> Conversion:
    key, item = map(avro_writer, map_schemas(schema))
    if is_avro_map(schema):
        return _checked(Type.MAP, lambda value: {key(one): item(value[one]) for one in value})
    return _checked(
        Type.MAP, lambda value: [{"key": key(one), "value": item(value[one])} for one in value]
    )


def avro_reader(schema: Schema) -> Conversion:
    """The conversion from fastavro's values to those of this schema."""
    read = _reader_of_present(schema)
    return lambda value: None if value is None else read(value)


def _reader_of_present(schema: Schema) -> Conversion:
    logical = decoder(schema)
    if logical is not None:
        return logical
    match schema.type:
        case Type.STRUCT if schema.name == UNION:
            return _union_reader(schema)
        case Type.STRUCT:
            fields = [(field.name, avro_reader(field.schema)) for field in schema.fields]
            return lambda value: {name: read(value[name]) for name, read in fields}
        case Type.ARRAY:
            item = avro_reader(schema.value) if schema.value is not None else _same
            return lambda value: [item(one) for one in value]
        case Type.MAP:
            return _map_reader(schema)
        case Type.FLOAT32:
            return as_single
        case _:
            return _same


def _map_reader(schema: Schema) -> Conversion:
    key, item = map(avro_reader, map_schemas(schema))

    def read(value: Any) -> dict[Any, Any]:
        if isinstance(value, Mapping):
            return {one: item(value[one]) for one in value}
        return {key(entry["key"]): item(entry["value"]) for entry in value}

    return read


def _union_reader(schema: Schema) -> Conversion:
    """Select the member of the value's type; of several structs, the one with all its fields."""
    members = [(field.name, field.schema, avro_reader(field.schema)) for field in schema.fields]
    names = [name for name, _, _ in members]

    def read(value: Any) -> dict[str, Any]:
        for name, member, change in members:
            fits = type(value) in _PYTHON[member.type]
            if fits and member.type is Type.STRUCT:
                fits = value.keys() == {field.name for field in member.fields}
            if fits:
                return dict.fromkeys(names) | {name: change(value)}
        raise PoisonRecord(f"The union has no member for {type(value).__name__}.")

    return read
