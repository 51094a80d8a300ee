"""Avro with schemas in a registry, compatible with Confluent's AvroConverter."""

import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from strom.connect.api import Kind, PoisonRecord, Schema, Type, setting
from strom.connect.converters.avro_schemas import FromAvro, ToAvro
from strom.connect.converters.avro_values import (
    Conversion,
    avro_reader,
    avro_writer,
    without_logical_types,
)
from strom.connect.converters.registered import (
    RegisteredConverter,
    RegistrySettings,
    framed,
    named_by,
    unframed,
)
from strom.connect.schema_cache import SchemaCache
from strom.registry.client import RegisteredSchema

_OF_PLAIN_VALUES = {
    str: Schema(Type.STRING),
    bool: Schema(Type.BOOLEAN),
    int: Schema(Type.INT64),
    float: Schema(Type.FLOAT64),
    bytes: Schema(Type.BYTES),
}
_FAULTS = (ValueError, TypeError, KeyError, IndexError, EOFError, AttributeError, struct.error)
"""What fastavro raises for data that does not match its schema."""


@dataclass(frozen=True, kw_only=True)
class AvroSettings(RegistrySettings):
    """Settings of the AvroConverter."""

    enhanced: bool = setting(
        "enhanced.avro.schema.support",
        Kind.BOOLEAN,
        "Preserve enums and full names; always on, accepted for the sake of existing configurations.",
        True,
    )


class _Written(NamedTuple):
    """How to write values of one schema."""

    text: str
    write: Conversion


class _Codec(NamedTuple):
    """How to read values of one registered schema."""

    schema: Schema
    parsed: Any
    read: Conversion


class AvroConverter(RegisteredConverter):
    """Avro binary encoding in Confluent's wire format."""

    settings_class = AvroSettings
    kind = "AVRO"

    def __init__(self, settings: AvroSettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._written = SchemaCache(_written, settings.cache_size)
        self._targets: dict[tuple[str, int], tuple[Schema, int, Any]] = {}
        self._codecs: dict[int, _Codec] = {}

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            schema = _OF_PLAIN_VALUES.get(type(value))
            if schema is None:
                raise PoisonRecord(
                    f"Avro needs a schema for a {type(value).__name__}; use the JsonConverter with "
                    "schemas.enable=false for schemaless values."
                )
        schema_id, parsed = self._target(topic, schema)
        return framed(schema_id, _encoded(parsed, self._written(schema).write(value)))

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The value, and the schema that it was written with."""
        if data is None:
            return None, None
        schema_id, payload = unframed(data)
        codec = self._codecs.get(schema_id)
        if codec is None:
            codec = self._codecs[schema_id] = self._codec(self.schema_of_id(schema_id))
        return codec.schema, codec.read(_decoded(codec.parsed, payload))

    def _target(self, topic: str, schema: Schema) -> tuple[int, Any]:
        """The id and parsed schema to write with.

        The schema is kept alive, because its id() is the key.
        """
        found = self._targets.get((topic, id(schema)))
        if found is None:
            subject = self.subject(topic, named_by(schema))
            registered = self.schema_to_write(subject, self._written(schema).text)
            parsed, _ = self._parsed(registered, without_logical_types)
            found = schema, registered.id, parsed
            if len(self._targets) >= self.settings.cache_size:
                self._targets.clear()
            self._targets[topic, id(schema)] = found
        return found[1], found[2]

    def _codec(self, registered: RegisteredSchema) -> _Codec:
        parsed, _ = self._parsed(registered, without_logical_types)
        described, named = self._parsed(registered, lambda avro: avro)
        schema = FromAvro(named).schema(described)
        return _Codec(schema, parsed, avro_reader(schema))

    def _parsed(
        self, registered: RegisteredSchema, prepare: Conversion
    ) -> tuple[Any, Mapping[str, Any]]:
        import fastavro

        named: dict[str, Any] = {}
        try:
            for _, text in self.referenced(registered):
                fastavro.parse_schema(prepare(json.loads(text)), named_schemas=named)
            parsed = fastavro.parse_schema(
                prepare(json.loads(registered.text)), named_schemas=named
            )
        except (fastavro.schema.SchemaParseException, *_FAULTS) as error:
            raise PoisonRecord(f"Schema {registered.id} is not an Avro schema: {error}.") from error
        return parsed, named


def _written(schema: Schema) -> _Written:
    text = json.dumps(ToAvro().schema(schema), separators=(",", ":"), ensure_ascii=False)
    return _Written(text, avro_writer(schema))


def _encoded(parsed: Any, value: Any) -> bytes:
    import fastavro

    target = io.BytesIO()
    try:
        fastavro.schemaless_writer(target, parsed, value)
    except _FAULTS as error:
        raise PoisonRecord(f"The value does not match its Avro schema: {error}.") from error
    return target.getvalue()


def _decoded(parsed: Any, payload: bytes) -> Any:
    import fastavro

    source = io.BytesIO(payload)
    try:
        found = fastavro.schemaless_reader(source, parsed, None)
    except _FAULTS as error:
        raise PoisonRecord(f"The bytes do not match their Avro schema: {error}.") from error
    if source.tell() != len(payload):
        raise PoisonRecord("There are trailing bytes behind the Avro value.")
    return found
