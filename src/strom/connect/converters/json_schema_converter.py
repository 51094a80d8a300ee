"""JSON with schemas in a registry, compatible with Confluent's JsonSchemaConverter."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strom.connect.api import Schema
from strom.connect.converters.contract import decimal_format_setting
from strom.connect.converters.json_converter import dump, dump_exact, load_exact
from strom.connect.converters.json_schema_schemas import FromJsonSchema, to_json_schema
from strom.connect.converters.json_values import json_reader, json_writer
from strom.connect.converters.registered import (
    RegisteredConverter,
    RegisteredReader,
    RegistrySettings,
)
from strom.registry.client import RegisteredSchema


@dataclass(frozen=True, kw_only=True)
class JsonSchemaSettings(RegistrySettings):
    """Settings of the JsonSchemaConverter."""

    decimal_format: str = decimal_format_setting(choices=("BASE64", "NUMERIC"))


class JsonSchemaConverter(RegisteredConverter):
    """JSON in Confluent's wire format, with a registered JSON Schema."""

    settings_class = JsonSchemaSettings
    kind = "JSON"
    language = "JSON Schema"

    def __init__(self, settings: JsonSchemaSettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._numeric = settings.decimal_format == "NUMERIC"

    def schema_text(self, schema: Schema) -> str:
        described = to_json_schema(schema, numeric_decimals=self._numeric)
        return json.dumps(described, separators=(",", ":"), ensure_ascii=False)

    def make_writer(self, schema: Schema, registered: RegisteredSchema) -> Callable[[Any], bytes]:
        to_text = dump_exact if self._numeric else dump
        convert = json_writer(
            schema, numeric_decimals=self._numeric, fill_defaults=True, named_entries=True
        )
        return lambda value: to_text(convert(value))

    def make_reader(self, registered: RegisteredSchema, place: tuple[int, ...]) -> RegisteredReader:
        others = {name: json.loads(text) for name, text in self.referenced(registered)}
        schema = FromJsonSchema(json.loads(registered.text), others).schema()
        convert = json_reader(schema, fill_defaults=True, named_entries=True)
        return RegisteredReader(schema, lambda payload: convert(load_exact(payload)))
