"""Records as rows: the columns of a record, and where their values come from."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import repeat
from operator import attrgetter
from typing import Any, Final, NamedTuple

from strom.connect.api import PoisonRecord, RecordBatch, Schema, SinkRecord, Type
from strom.connect.api.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Field,
)
from strom.connect.connectors.databases.connection_settings import did_you_mean
from strom.connect.connectors.databases.dialect import NewColumn
from strom.connect.connectors.databases.postgres_types import optional
from strom.connect.connectors.databases.sink_settings import KAFKA_COLUMNS, JdbcSinkSettings

Take = Callable[[RecordBatch], Iterable[Any]]
"""Extracts one column from records."""


class Shape(NamedTuple):
    """The columns of records of one form, and how to extract their values."""

    columns: Sequence[NewColumn]
    takes: Sequence[Take]


def written_shape(record: SinkRecord, settings: JdbcSinkSettings) -> Shape:
    """The shape of a record with a value; PoisonRecord if it cannot be a row."""
    if not isinstance(record.value, dict):
        raise PoisonRecord(
            "A row needs a struct or map of fields, but the value is a "
            f"{type(record.value).__name__}; wrap it into a field with the transform HoistField."
        )
    fields = _fields(record.value, record.value_schema)
    keys, key_takes = _key(record, settings, fields)
    key_names = {column.name for column in keys}
    wanted = settings.stored_fields
    others = [
        field
        for field in fields
        if field.name not in key_names and (not wanted or field.name in wanted)
    ]
    columns = [*keys, *(NewColumn(field.name, field.schema) for field in others)]
    return Shape(columns, [*key_takes, *(_from_value(field.name) for field in others)])


def deleted_shape(record: SinkRecord, settings: JdbcSinkSettings) -> Shape:
    """The shape of a tombstone: only the key, which identifies a row."""
    if not settings.delete_enabled:
        raise PoisonRecord(
            "The record has no value; set delete.enabled=true to delete the row of its key."
        )
    return Shape(*_key(record, settings, ()))


def _fields(value: dict[str, Any], schema: Schema | None) -> Sequence[Field]:
    if schema is None:
        return [Field(name, _guessed(item)) for name, item in value.items()]
    if schema.type is Type.STRUCT:
        return schema.fields
    raise PoisonRecord("A row needs a struct of fields, but the value is a map.")


def _key(
    record: SinkRecord, settings: JdbcSinkSettings, fields: Sequence[Field]
) -> tuple[list[NewColumn], list[Take]]:
    mode = settings.key_mode
    if mode == "none":
        return [], []
    if mode == "kafka":
        names = settings.key_fields or KAFKA_COLUMNS
        schemas = (STRING, INT32, INT64)
        columns = [NewColumn(name, of, True) for name, of in zip(names, schemas, strict=True)]
        return columns, [
            lambda records: repeat(records.origin.topic, len(records)),
            lambda records: repeat(records.origin.partition, len(records)),
            attrgetter("offsets"),
        ]
    if mode == "record_value":
        chosen = _chosen(settings.key_fields, fields, "value")
        return chosen, [_from_value(column.name) for column in chosen]
    if record.key is None:
        raise PoisonRecord("The record has no key, which pk.mode=record_key needs.")
    if isinstance(record.key, dict):
        chosen = _chosen(settings.key_fields, _fields(record.key, record.key_schema), "key")
        return chosen, [_from_key(column.name) for column in chosen]
    if len(settings.key_fields) != 1:
        raise PoisonRecord(
            "The key is a single value: pk.fields must name exactly one column for it."
        )
    schema = record.key_schema or _guessed(record.key)
    return [NewColumn(settings.key_fields[0], schema, True)], [attrgetter("keys")]


def _chosen(names: Sequence[str], fields: Sequence[Field], part: str) -> list[NewColumn]:
    known = {field.name: field.schema for field in fields}
    for name in names:
        if name not in known:
            raise PoisonRecord(
                f"pk.fields has {name}, which is missing in the record's {part}."
                f"{did_you_mean(name, known)}"
            )
    return [NewColumn(name, known[name], True) for name in (names or known)]


def _from_key(name: str) -> Take:
    return lambda records: [key.get(name) for key in records.keys]


def _from_value(name: str) -> Take:
    return lambda records: [value.get(name) for value in records.values]


_BY_TYPE: Final[dict[type, Schema]] = {
    bool: BOOLEAN,
    int: INT64,
    float: FLOAT64,
    str: STRING,
    bytes: BYTES,
    datetime: TIMESTAMP,
    date: DATE,
    time: TIME,
}
UNKNOWN: Final = Schema(Type.STRING, optional=True, name="strom.unknown")
"""The schema of null without a declared one: it creates no column."""
_STRUCTURED: Final = Schema(Type.MAP, optional=True, key=STRING, value=STRING)
_NUMBER: Final = Schema(Type.BYTES, optional=True, name="org.apache.kafka.connect.data.Decimal")


def _guessed(value: Any) -> Schema:
    if value is None:
        return UNKNOWN
    if isinstance(value, Decimal):
        return _NUMBER
    return optional(_BY_TYPE[type(value)]) if type(value) in _BY_TYPE else _STRUCTURED
