"""Connect values ↔ Protocol Buffers messages, compiled once per schema."""

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from strom.connect.api import Field, PoisonRecord, Schema, Type
from strom.connect.api.schema import DATE_NAME, DECIMAL, TIME_NAME, TIMESTAMP_NAME
from strom.connect.converters.protobuf_schemas import WRAPPERS, is_map_entry, message_of
from strom.connect.logical_values import (
    decimal_scale,
    decimal_to_unscaled,
    has_default,
    map_schemas,
    millis_to_timestamp,
    time_to_millis,
    timestamp_to_millis,
    unscaled_bytes,
    unscaled_to_decimal,
)

Fill = Callable[[Any, Any], None]
"""Sets the fields of a message from a value."""
Read = Callable[[Any], Any]


def message_filler(schema: Schema, message: Descriptor) -> Fill:
    """A function that sets the fields of a message of this descriptor from a struct."""
    setters = [_setter(field, message) for field in schema.fields]
    names = {field.name for field in schema.fields}

    def fill(target: Any, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise PoisonRecord(f"A struct cannot be {type(value).__name__}.")
        if len(value) > len(names) and not value.keys() <= names:
            extra = ", ".join(map(str, value.keys() - names))
            raise PoisonRecord(f"The struct's schema has no field {extra}.")
        for setter in setters:
            setter(target, value)

    return fill


def _setter(field: Field, message: Descriptor) -> Fill:
    descriptor = message.fields_by_name.get(field.name)
    if descriptor is None:
        raise PoisonRecord(f"The message {message.full_name} has no field {field.name}.")
    schema, name = field.schema, field.name
    default = schema.default if has_default(schema) else None
    fill = _filler(schema, descriptor)

    def put(target: Any, values: Any) -> None:
        value = values.get(name, default)
        value = default if value is None else value
        if value is not None:
            fill(target, value)
        elif not schema.optional:
            raise PoisonRecord(f"The required field {name} has no value.")

    return put


def _filler(schema: Schema, field: FieldDescriptor) -> Fill:
    if schema.type is Type.ARRAY and schema.value is not None:
        return _array_filler(schema.value, field)
    if schema.type is Type.MAP:
        return _map_filler(schema, field)
    name = field.name
    if field.message_type is None:
        convert = _scalar(schema, field)
        return lambda target, value: setattr(target, name, convert(value))
    fill = _message_content(schema, field.message_type)

    def put(target: Any, value: Any) -> None:
        inner = getattr(target, name)
        inner.SetInParent()  # an empty message is present, too
        fill(inner, value)

    return put


def _array_filler(items: Schema, field: FieldDescriptor) -> Fill:
    name = field.name
    if field.message_type is None:
        convert = _scalar(items, field)
        return lambda target, value: getattr(target, name).extend(
            [convert(item) for item in _listed(value)]
        )
    fill = _message_content(items, field.message_type)

    def put(target: Any, value: Any) -> None:
        for item in _listed(value):
            fill(getattr(target, name).add(), item)

    return put


def _map_filler(schema: Schema, field: FieldDescriptor) -> Fill:
    key_schema, value_schema = map_schemas(schema)
    name, entry = field.name, message_of(field)
    if not is_map_entry(entry):
        pair = message_filler(
            Schema(Type.STRUCT, fields=(Field("key", key_schema), Field("value", value_schema))),
            entry,
        )

        def put_pairs(target: Any, value: Any) -> None:
            for key, item in _mapped(value).items():
                pair(getattr(target, name).add(), {"key": key, "value": item})

        return put_pairs
    key_field, value_field = entry.fields_by_name["key"], entry.fields_by_name["value"]
    convert_key = _scalar(key_schema, key_field)
    if value_field.message_type is None:
        convert = _scalar(value_schema, value_field)

        def put_scalars(target: Any, value: Any) -> None:
            held = getattr(target, name)
            for key, item in _mapped(value).items():
                held[convert_key(key)] = convert(item)

        return put_scalars
    fill = _message_content(value_schema, value_field.message_type)

    def put_messages(target: Any, value: Any) -> None:
        held = getattr(target, name)
        for key, item in _mapped(value).items():
            fill(held[convert_key(key)], item)

    return put_messages


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PoisonRecord(f"An array cannot be {type(value).__name__}.")
    return value


def _mapped(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise PoisonRecord(f"A map cannot be {type(value).__name__}.")
    return value


def _scalar(schema: Schema, field: FieldDescriptor) -> Read:
    if field.enum_type is not None:
        enum = field.enum_type
        numbers = {symbol.name: symbol.number for symbol in enum.values}

        def number(value: Any) -> int:
            if value not in numbers:
                raise PoisonRecord(f"{value!r} is not a symbol of {enum.full_name}.")
            return numbers[value]

        return number
    return lambda value: value


def _message_content(schema: Schema, message: Descriptor) -> Fill:
    if schema.name == DECIMAL:
        return _decimal_filler(decimal_scale(schema))
    special = _FILLERS.get(schema.name or "")
    if special is not None:
        return special
    if message.full_name in WRAPPERS:
        return lambda target, value: setattr(target, "value", value)
    return message_filler(schema, message)


def _decimal_filler(scale: int) -> Fill:
    def fill(target: Any, value: Any) -> None:
        target.value = unscaled_bytes(decimal_to_unscaled(value, scale))
        target.scale = scale
        target.precision = len(value.as_tuple().digits)

    return fill


def _fill_date(target: Any, value: Any) -> None:
    if not isinstance(value, dt.date):
        raise PoisonRecord(f"Expected a date, not {type(value).__name__}.")
    target.year, target.month, target.day = value.year, value.month, value.day


def _fill_time(target: Any, value: Any) -> None:
    seconds, millis = divmod(time_to_millis(value), 1000)
    target.hours, target.minutes, target.seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    target.nanos = millis * 1_000_000


def _fill_timestamp(target: Any, value: Any) -> None:
    seconds, millis = divmod(timestamp_to_millis(value), 1000)
    target.seconds, target.nanos = seconds, millis * 1_000_000


_FILLERS: dict[str, Fill] = {
    DATE_NAME: _fill_date,
    TIME_NAME: _fill_time,
    TIMESTAMP_NAME: _fill_timestamp,
}


def message_reader(schema: Schema, message: Descriptor) -> Read:
    """A function that reads a struct of this schema from a message."""
    readers = [
        (field.name, _reader(field.schema, message.fields_by_name[field.name]))
        for field in schema.fields
    ]
    return lambda source: {name: read(source) for name, read in readers}


def _reader(schema: Schema, field: FieldDescriptor) -> Read:
    name = field.name
    if schema.type is Type.MAP:
        return _map_reader(schema, field)
    if schema.type is Type.ARRAY and schema.value is not None:
        item = _content_reader(schema.value, field)
        return lambda source: [item(one) for one in getattr(source, name)]
    read = _content_reader(schema, field)
    if field.has_presence:
        return lambda source: read(getattr(source, name)) if source.HasField(name) else None
    return lambda source: read(getattr(source, name))


def _map_reader(schema: Schema, field: FieldDescriptor) -> Read:
    key_schema, value_schema = map_schemas(schema)
    name, entry = field.name, message_of(field)
    if is_map_entry(entry):
        item = _content_reader(value_schema, entry.fields_by_name["value"])
        return lambda source: {key: item(one) for key, one in getattr(source, name).items()}
    read_key = _reader(key_schema, entry.fields_by_name["key"])
    read_value = _reader(value_schema, entry.fields_by_name["value"])
    return lambda source: {read_key(pair): read_value(pair) for pair in getattr(source, name)}


def _content_reader(schema: Schema, field: FieldDescriptor) -> Read:
    if field.enum_type is not None:
        names = {symbol.number: symbol.name for symbol in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    if field.message_type is None:
        return lambda value: value
    special = _READERS.get(schema.name or "")
    if special is not None:
        return special
    if field.message_type.full_name in WRAPPERS:
        return lambda source: source.value
    return message_reader(schema, field.message_type)


def _read_decimal(source: Any) -> Decimal:
    return unscaled_to_decimal(int.from_bytes(source.value, "big", signed=True), source.scale)


def _read_date(source: Any) -> dt.date:
    try:
        return dt.date(source.year, source.month, source.day)
    except ValueError as error:
        raise PoisonRecord(f"The message is not a valid date: {error}.") from None


def _read_time(source: Any) -> dt.time:
    micros = source.nanos // 1_000_000 * 1000
    try:
        return dt.time(source.hours, source.minutes, source.seconds, micros)
    except ValueError as error:
        raise PoisonRecord(f"The message is not a valid time: {error}.") from None


def _read_timestamp(source: Any) -> dt.datetime:
    return millis_to_timestamp(source.seconds * 1000 + source.nanos // 1_000_000)


_READERS: dict[str, Read] = {
    DECIMAL: _read_decimal,
    DATE_NAME: _read_date,
    TIME_NAME: _read_time,
    TIMESTAMP_NAME: _read_timestamp,
}
