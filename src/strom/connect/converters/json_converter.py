"""JSON, with or without the schema in each record, compatible with Kafka's JsonConverter."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from strom.connect.api import ConnectorSettings, PoisonRecord, Schema
from strom.connect.converters.contract import Converter, cache_size_setting, decimal_format_setting
from strom.connect.converters.json_schemas import schema_from_json, schema_to_json
from strom.connect.converters.json_values import (
    Conversion,
    json_reader,
    json_writer,
    schemaless_to_json,
)
from strom.connect.schema_cache import SchemaCache
from strom.connect.setting_forms import boolean

_PAYLOAD = b',"payload":'


@dataclass(frozen=True, kw_only=True)
class JsonSettings(ConnectorSettings):
    """Settings of the JsonConverter."""

    schemas_enable: bool = boolean(
        "schemas.enable", "Write the schema into every record, and expect it.", True
    )
    schemas_cache_size: int = cache_size_setting()
    decimal_format: str = decimal_format_setting()
    replace_null_with_default: bool = boolean(
        "replace.null.with.default", "Replace a missing value by the field's default.", True
    )

    def validate(self) -> dict[str, str]:
        if self.decimal_format.upper() in {"BASE64", "NUMERIC"}:
            return {}
        return {"decimal.format": f"It must be BASE64 or NUMERIC, not {self.decimal_format}."}


class JsonConverter(Converter):
    """JSON values; with `schemas.enable`, in an envelope of `schema` and `payload`."""

    settings_class = JsonSettings

    def __init__(self, settings: JsonSettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._enveloped = settings.schemas_enable
        self._numeric = settings.decimal_format.upper() == "NUMERIC"
        self._dump = dump_exact if self._numeric else dump
        self._fill = settings.replace_null_with_default
        size = settings.schemas_cache_size
        self._writers = SchemaCache(self._make_writer, size)
        self._envelopes = SchemaCache(self._make_envelope, size)
        self._read_schemas = _ReadSchemas(self._fill, size)

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The JSON text; None for None without a schema."""
        if schema is None:
            if value is None:
                return None
            text = dump(schemaless_to_json(value))
            return b'{"schema":null,"payload":' + text + b"}" if self._enveloped else text
        if not self._enveloped:
            plain = self._writers(schema)(value)
            return None if plain is None and value is None else self._dump(plain)
        return self._envelopes(schema) + self._dump(self._writers(schema)(value)) + b"}"

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The value, and its schema with `schemas.enable`."""
        if data is None:
            return None, None
        if not self._enveloped:
            return None, _load_plain(data) if data else None
        schema, read, payload = self._read_schemas.split(data)
        if schema is None:
            return None, _floats(payload)
        return schema, read(payload)

    def all_from_bytes(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, list[Any]] | None:
        """The values, if schemas are not enabled."""
        if self._enveloped:
            return None
        return None, [_load_plain(one) if one else None for one in data]

    def _make_writer(self, schema: Schema) -> Conversion:
        return json_writer(schema, numeric_decimals=self._numeric, fill_defaults=self._fill)

    def _make_envelope(self, schema: Schema) -> bytes:
        described = schema_to_json(schema, lambda part, value: self._make_writer(part)(value))
        return b'{"schema":' + self._dump(described) + _PAYLOAD


class _ReadSchemas:
    """Finds the schema of an envelope without parsing it again for every record.

    Records of one topic mostly start with the same bytes: `{"schema":{…},"payload":`. A known prefix
    that is a complete schema is recognised, and only the rest is parsed.
    """

    def __init__(self, fill_defaults: bool, size: int) -> None:
        self._fill = fill_defaults
        self._size = size
        self._by_beginning: dict[bytes, tuple[Schema | None, Conversion]] = {}
        self._by_text: dict[str, tuple[Schema | None, Conversion]] = {}

    def split(self, data: bytes) -> tuple[Schema | None, Conversion, Any]:
        """The schema, its reader, and the parsed payload."""
        end = data.find(_PAYLOAD)
        known = self._by_beginning.get(data[:end]) if end > 0 else None
        if known is not None and data.endswith(b"}"):
            try:
                return *known, load_exact(data[end + len(_PAYLOAD) : -1])
            except PoisonRecord:
                pass  # parsed as a whole below, for an error with positions in the whole
        envelope = load_exact(data)
        if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
            raise PoisonRecord(
                'With schemas.enable=true a record must be a JSON object of "schema" and "payload" only. '
                "For plain JSON, set schemas.enable=false."
            )
        found = self._schema(envelope["schema"])
        if end > 0 and _is_json(data[:end] + b"}"):
            _remember(self._by_beginning, data[:end], found, self._size)
        return *found, envelope["payload"]

    def _schema(self, node: Any) -> tuple[Schema | None, Conversion]:
        text = json.dumps(node, default=str)
        found = self._by_text.get(text)
        if found is None:
            schema = schema_from_json(node, self._read_default)
            reader = _floats if schema is None else json_reader(schema, fill_defaults=self._fill)
            found = schema, reader
            _remember(self._by_text, text, found, self._size)
        return found

    def _read_default(self, schema: Schema, value: Any) -> Any:
        return json_reader(schema, fill_defaults=self._fill)(value)


def _remember(known: dict[Any, Any], key: Any, value: Any, size: int) -> None:
    if len(known) >= size:
        known.clear()
    known[key] = value


def dump(value: Any) -> bytes:
    return _as_bytes(_ENCODER.encode, value)


def dump_exact(value: Any) -> bytes:
    """The value as JSON text, with decimals in full precision."""
    return _as_bytes(_exact_text, value)


def _as_bytes(encode: Callable[[Any], str], value: Any) -> bytes:
    try:
        return encode(value).encode()
    except (UnicodeEncodeError, ValueError, RecursionError) as error:
        raise PoisonRecord(f"The value cannot be written as JSON: {error}.") from error


def _exact_text(value: Any) -> str:
    """JSON with decimals in full precision, which Python's encoder does not support."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return (
            "{" + ",".join(f"{_exact_text(key)}:{_exact_text(value[key])}" for key in value) + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_exact_text, value)) + "]"
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid in JSON")


def _load_plain(data: bytes) -> Any:
    return _load(data, _PLAIN_DECODER)


def load_exact(data: bytes) -> Any:
    """Parse a JSON text, with non-integers as Decimal."""
    return _load(data, _EXACT_DECODER)


_PLAIN_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_EXACT_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=Decimal)


def _load(data: bytes, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(data.decode())
    except (ValueError, RecursionError) as error:
        raise PoisonRecord(f"The bytes are not JSON: {error}.") from error


def _is_json(data: bytes) -> bool:
    try:
        load_exact(data)
    except PoisonRecord:
        return False
    return True


def _floats(value: Any) -> Any:
    """Convert decimals to floats, the type of non-integers in values without a schema."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return value
