"""JSON with schemas in a registry, compatible with Confluent's JsonSchemaConverter."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from strom.connect.api import Kind, PoisonRecord, Schema, setting
from strom.connect.converters.json_converter import dump, dump_exact, load_exact
from strom.connect.converters.json_schema_schemas import FromJsonSchema, to_json_schema
from strom.connect.converters.json_values import Conversion, json_reader, json_writer
from strom.connect.converters.registered import (
    RegisteredConverter,
    RegistrySettings,
    framed,
    named_by,
    unframed,
)
from strom.connect.schema_cache import SchemaCache


@dataclass(frozen=True, kw_only=True)
class JsonSchemaSettings(RegistrySettings):
    """Settings of the JsonSchemaConverter."""

    decimal_format: str = setting(
        "decimal.format",
        Kind.STRING,
        "How decimals are written: BASE64 of their bytes, or NUMERIC.",
        "BASE64",
        choices=("BASE64", "NUMERIC"),
    )


class _Written(NamedTuple):
    """How to write values of one schema."""

    text: str
    write: Conversion


class JsonSchemaConverter(RegisteredConverter):
    """JSON in Confluent's wire format, with a registered JSON Schema."""

    settings_class = JsonSchemaSettings
    kind = "JSON"

    def __init__(self, settings: JsonSchemaSettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._numeric = settings.decimal_format == "NUMERIC"
        self._written = SchemaCache(self._make_written, settings.cache_size)
        self._ids: dict[tuple[str, int], tuple[Schema, int]] = {}
        self._readers: dict[int, tuple[Schema, Conversion]] = {}

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            raise PoisonRecord(
                "JSON Schema needs values with a schema; use the JsonConverter for schemaless values."
            )
        known = self._ids.get((topic, id(schema)))
        if known is None:
            subject = self.subject(topic, named_by(schema))
            registered = self.schema_to_write(subject, self._written(schema).text)
            if len(self._ids) >= self.settings.cache_size:
                self._ids.clear()
            known = self._ids[topic, id(schema)] = schema, registered.id
        written = self._written(schema).write(value)
        return framed(known[1], dump_exact(written) if self._numeric else dump(written))

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The value, and the schema that it was written with."""
        if data is None:
            return None, None
        schema_id, payload = unframed(data)
        known = self._readers.get(schema_id)
        if known is None:
            known = self._readers[schema_id] = self._reader(schema_id)
        return known[0], known[1](load_exact(payload))

    def _make_written(self, schema: Schema) -> _Written:
        described = to_json_schema(schema, numeric_decimals=self._numeric)
        write = json_writer(
            schema, numeric_decimals=self._numeric, fill_defaults=True, named_entries=True
        )
        return _Written(json.dumps(described, separators=(",", ":"), ensure_ascii=False), write)

    def _reader(self, schema_id: int) -> tuple[Schema, Conversion]:
        registered = self.schema_of_id(schema_id)
        others = {name: json.loads(text) for name, text in self.referenced(registered)}
        schema = FromJsonSchema(json.loads(registered.text), others).schema()
        return schema, json_reader(schema, fill_defaults=True, named_entries=True)
