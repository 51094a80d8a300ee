"""Avro with schemas in a registry, compatible with Confluent's AvroConverter."""

import io
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from strom.connect.api import PoisonRecord, Schema, Type
from strom.connect.converters.avro_schemas import FromAvro, ToAvro
from strom.connect.converters.avro_values import (
    Conversion,
    avro_reader,
    avro_writer,
    without_logical_types,
)
from strom.connect.converters.registered import (
    RegisteredConverter,
    RegisteredReader,
    RegistrySettings,
)
from strom.connect.setting_forms import boolean
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

    enhanced: bool = boolean(
        "enhanced.avro.schema.support",
        "Preserve enums and full names; always on, accepted for the sake of existing configurations.",
        True,
    )


class AvroConverter(RegisteredConverter):
    """Avro binary encoding in Confluent's wire format."""

    settings_class = AvroSettings
    kind = "AVRO"
    language = "Avro"

    def schema_of(self, value: Any) -> Schema:
        schema = _OF_PLAIN_VALUES.get(type(value))
        if schema is None:
            raise PoisonRecord(
                f"Avro needs a schema for a {type(value).__name__}; use the JsonConverter with "
                "schemas.enable=false for schemaless values."
            )
        return schema

    def schema_text(self, schema: Schema) -> str:
        return json.dumps(ToAvro().schema(schema), separators=(",", ":"), ensure_ascii=False)

    def make_writer(self, schema: Schema, registered: RegisteredSchema) -> Callable[[Any], bytes]:
        parsed, _ = self._parsed(registered, without_logical_types)
        convert = avro_writer(schema)
        return lambda value: _encoded(parsed, convert(value))

    def make_reader(self, registered: RegisteredSchema, place: tuple[int, ...]) -> RegisteredReader:
        parsed, _ = self._parsed(registered, without_logical_types)
        described, named = self._parsed(registered, lambda avro: avro)
        schema = FromAvro(named).schema(described)
        convert = avro_reader(schema)
        return RegisteredReader(schema, lambda payload: convert(_decoded(parsed, payload)))

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
