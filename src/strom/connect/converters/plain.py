"""Converters without schemas: strings, bytes, numbers and booleans."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from strom.connect.api import ConnectorSettings, PoisonRecord, Schema, Type
from strom.connect.api.schema import BYTES, OPTIONAL_BYTES, OPTIONAL_STRING
from strom.connect.converters.contract import Converter
from strom.connect.converters.java_text import java_text
from strom.connect.converters.value_text import parse_text, text_of
from strom.connect.setting_forms import string


@dataclass(frozen=True, kw_only=True)
class StringSettings(ConnectorSettings):
    """Settings of the StringConverter."""

    encoding: str = string("converter.encoding", "The encoding of the strings.", "UTF-8")

    def validate(self) -> dict[str, str]:
        try:
            "".encode(self.encoding)
        except LookupError:
            return {"converter.encoding": f"Unknown encoding {self.encoding}; for example UTF-8."}
        return {}


class StringConverter(Converter):
    """Strings. Other values are written as Java prints them."""

    settings_class = StringSettings

    def __init__(self, settings: StringSettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._encoding = settings.encoding

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return (value if type(value) is str else java_text(value)).encode(self._encoding)
        except UnicodeEncodeError as error:
            raise PoisonRecord(f"The string cannot be encoded: {error}.") from error

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The string. Invalid bytes are rejected, where Kafka replaces them by question marks."""
        if data is None:
            return OPTIONAL_STRING, None
        try:
            return OPTIONAL_STRING, data.decode(self._encoding)
        except UnicodeDecodeError as error:
            raise PoisonRecord(
                f"The bytes are not valid {self._encoding}: {error}. Use converter.encoding, or the "
                "ByteArrayConverter."
            ) from error

    def all_from_bytes(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, list[Any]] | None:
        encoding = self._encoding
        return OPTIONAL_STRING, [None if one is None else one.decode(encoding) for one in data]


class ByteArrayConverter(Converter):
    """Bytes, which pass through unchanged."""

    settings_class = ConnectorSettings

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise PoisonRecord(
                f"The ByteArrayConverter accepts bytes only, not {schema.type.value}."
            )
        if value is None or isinstance(value, bytes):
            return value
        raise PoisonRecord(
            f"The ByteArrayConverter accepts bytes only, not {type(value).__name__}."
        )

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return OPTIONAL_BYTES, data

    def all_from_bytes(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, list[Any]] | None:
        return OPTIONAL_BYTES, list(data)


class SimpleHeaderConverter(Converter):
    """Kafka's default for headers: text, whose type is inferred on reading; other bytes stay bytes."""

    settings_class = ConnectorSettings

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else text_of(schema, value).encode("utf-8", "replace")

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            return parse_text(data.decode())
        except UnicodeDecodeError:
            return BYTES, data


class _PackedConverter(Converter):
    """A number or boolean of fixed size, in network byte order."""

    settings_class = ConnectorSettings
    schema_type: ClassVar[Type]
    packing: ClassVar[str]
    python_types: ClassVar[tuple[type, ...]] = (int,)

    def __init__(self, settings: ConnectorSettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._packed = struct.Struct(self.packing)
        self._schema = Schema(self.schema_type, optional=True)

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        wrong_schema = schema is not None and schema.type is not self.schema_type
        if wrong_schema or type(value) not in self.python_types:
            given = schema.type.value if schema is not None else type(value).__name__
            raise PoisonRecord(f"The {type(self).__name__} does not accept {given}.")
        try:
            return self._packed.pack(value)
        except (struct.error, OverflowError) as error:
            raise PoisonRecord(
                f"{value} is not a valid {self.schema_type.value}: {error}."
            ) from error

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return self._schema, None
        if len(data) != self._packed.size:
            raise PoisonRecord(
                f"The {type(self).__name__} needs {self._packed.size} bytes, not {len(data)}."
            )
        return self._schema, self._packed.unpack(data)[0]


class ShortConverter(_PackedConverter):
    """A 16-bit integer in two bytes."""

    schema_type, packing = Type.INT16, ">h"


class IntegerConverter(_PackedConverter):
    """A 32-bit integer in four bytes."""

    schema_type, packing = Type.INT32, ">i"


class LongConverter(_PackedConverter):
    """A 64-bit integer in eight bytes."""

    schema_type, packing = Type.INT64, ">q"


class FloatConverter(_PackedConverter):
    """A single-precision number in four bytes."""

    schema_type, packing, python_types = Type.FLOAT32, ">f", (float, int)


class DoubleConverter(_PackedConverter):
    """A double-precision number in eight bytes."""

    schema_type, packing, python_types = Type.FLOAT64, ">d", (float, int)


class BooleanConverter(_PackedConverter):
    """A boolean in one byte, 0 or 1."""

    schema_type, packing, python_types = Type.BOOLEAN, ">?", (bool,)

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The boolean; any byte but 0 and 1 is rejected."""
        if data is not None and data not in (b"\0", b"\1"):
            raise PoisonRecord("The BooleanConverter needs one byte, 0 or 1.")
        return super().from_bytes(topic, data)
