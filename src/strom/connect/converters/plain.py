"""Converters without a schema in the bytes: text, bytes, numbers and booleans."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from strom.connect.api import ConnectorSettings, Kind, PoisonRecord, Schema, Type, setting
from strom.connect.api.schema import OPTIONAL_BYTES, OPTIONAL_STRING
from strom.connect.converters.contract import Converter
from strom.connect.converters.java_text import java_text


@dataclass(frozen=True, kw_only=True)
class StringSettings(ConnectorSettings):
    """How text becomes bytes."""

    encoding: str = setting("converter.encoding", Kind.STRING, "The text's encoding.", "UTF-8")

    def validate(self) -> dict[str, str]:
        """Refuse an encoding that nobody knows."""
        try:
            "".encode(self.encoding)
        except LookupError:
            return {"converter.encoding": f"There is no encoding {self.encoding}; try UTF-8."}
        return {}


class StringConverter(Converter):
    """Text. What is no text is written as Java would print it."""

    settings_class = StringSettings

    def __init__(self, settings: StringSettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._encoding = settings.encoding

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The text's bytes."""
        if value is None:
            return None
        try:
            return (value if type(value) is str else java_text(value)).encode(self._encoding)
        except UnicodeEncodeError as error:
            raise PoisonRecord(f"The text cannot be written: {error}.") from error

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The text. Bytes that are none are refused, where Kafka puts question marks."""
        if data is None:
            return OPTIONAL_STRING, None
        try:
            return OPTIONAL_STRING, data.decode(self._encoding)
        except UnicodeDecodeError as error:
            raise PoisonRecord(
                f"The bytes are no {self._encoding} text: {error}. Use converter.encoding, or the "
                "ByteArrayConverter."
            ) from error

    def all_from_bytes(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, list[Any]] | None:
        """The texts."""
        encoding = self._encoding
        return OPTIONAL_STRING, [None if one is None else one.decode(encoding) for one in data]


@dataclass(frozen=True, kw_only=True)
class NoSettings(ConnectorSettings):
    """Of converters that need none."""


class ByteArrayConverter(Converter):
    """Bytes as they are."""

    settings_class = NoSettings

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The value itself."""
        if schema is not None and schema.type is not Type.BYTES:
            raise PoisonRecord(
                f"The ByteArrayConverter writes bytes only, and was given {schema.type.value}."
            )
        if value is None or isinstance(value, bytes):
            return value
        raise PoisonRecord(
            f"The ByteArrayConverter writes bytes only, and was given {type(value).__name__}."
        )

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The bytes themselves."""
        return OPTIONAL_BYTES, data

    def all_from_bytes(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, list[Any]] | None:
        """The bytes themselves."""
        return OPTIONAL_BYTES, list(data)


class _PackedConverter(Converter):
    """One number or boolean of fixed size, in network byte order."""

    settings_class = NoSettings
    schema_type: ClassVar[Type]
    packing: ClassVar[str]
    python_types: ClassVar[tuple[type, ...]] = (int,)

    def __init__(self, settings: NoSettings, *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._packed = struct.Struct(self.packing)
        self._schema = Schema(self.schema_type, optional=True)

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The number's bytes."""
        if value is None:
            return None
        wrong_schema = schema is not None and schema.type is not self.schema_type
        if wrong_schema or type(value) not in self.python_types:
            given = schema.type.value if schema is not None else type(value).__name__
            raise PoisonRecord(f"The {type(self).__name__} was given {given}.")
        try:
            return self._packed.pack(value)
        except (struct.error, OverflowError) as error:
            raise PoisonRecord(f"{value} is no {self.schema_type.value}: {error}.") from error

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The number."""
        if data is None:
            return self._schema, None
        if len(data) != self._packed.size:
            raise PoisonRecord(
                f"The {type(self).__name__} reads {self._packed.size} bytes, and got {len(data)}."
            )
        return self._schema, self._packed.unpack(data)[0]


class ShortConverter(_PackedConverter):
    """Two bytes."""

    schema_type, packing = Type.INT16, ">h"


class IntegerConverter(_PackedConverter):
    """Four bytes."""

    schema_type, packing = Type.INT32, ">i"


class LongConverter(_PackedConverter):
    """Eight bytes."""

    schema_type, packing = Type.INT64, ">q"


class FloatConverter(_PackedConverter):
    """Four bytes."""

    schema_type, packing, python_types = Type.FLOAT32, ">f", (float, int)


class DoubleConverter(_PackedConverter):
    """Eight bytes."""

    schema_type, packing, python_types = Type.FLOAT64, ">d", (float, int)


class BooleanConverter(_PackedConverter):
    """One byte, 0 or 1."""

    schema_type, packing, python_types = Type.BOOLEAN, ">?", (bool,)

    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The boolean; any byte but 0 and 1 is refused."""
        if data is not None and data not in (b"\0", b"\1"):
            raise PoisonRecord("The BooleanConverter reads one byte, 0 or 1.")
        return super().from_bytes(topic, data)
