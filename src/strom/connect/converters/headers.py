"""Kafka's default header converter: text, whose type is inferred on reading."""

from typing import Any

from strom.connect.api import Schema
from strom.connect.api.schema import BYTES
from strom.connect.converters.contract import HeaderConverter
from strom.connect.converters.plain import NoSettings
from strom.connect.converters.value_text import parse_text, text_of


class SimpleHeaderConverter(HeaderConverter):
    """Header values as text; bytes that are not UTF-8 stay bytes."""

    settings_class = NoSettings

    def header_to_bytes(
        self, topic: str, header: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        if value is None:
            return None
        return text_of(schema, value).encode("utf-8", "replace")

    def header_from_bytes(
        self, topic: str, header: str, data: bytes | None
    ) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return BYTES, data
        return parse_text(text)
