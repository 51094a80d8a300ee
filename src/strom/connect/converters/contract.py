"""What converters do: values with their schema ↔ the bytes of a record's key, value or header."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from strom.connect.api import ConnectorSettings
from strom.connect.api.schema import Schema


class Converter(ABC):
    """Turns keys or values into bytes and back.

    Both ways PoisonRecord says that this one record cannot be converted, and RetriableError that
    something else (the schema registry) is away.
    """

    settings_class: ClassVar[type[ConnectorSettings]]

    def __init__(self, settings: Any, *, is_key: bool) -> None:
        self.settings = settings
        self.is_key = is_key

    @abstractmethod
    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes to write; None writes a tombstone."""

    @abstractmethod
    def from_bytes(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        """The value that was written, and its schema if it has one."""

    def all_from_bytes(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, list[Any]] | None:
        """The same for many at once, where all values have one schema whatever their bytes are.

        None: this converter reads them one by one. An error says nothing about which one is wrong.
        """
        return None

    def close(self) -> None:  # noqa: B027
        """Let go of what was opened (connections to a registry)."""


class HeaderConverter(ABC):
    """Turns the values of headers into bytes and back."""

    def close(self) -> None:  # noqa: B027
        """Let go of what was opened."""

    @abstractmethod
    def header_to_bytes(
        self, topic: str, header: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        """The bytes to write."""

    @abstractmethod
    def header_from_bytes(
        self, topic: str, header: str, data: bytes | None
    ) -> tuple[Schema | None, Any]:
        """The value that was written, and its schema if it has one."""


class HeaderByConverter(HeaderConverter):
    """Headers that are converted as values are."""

    def __init__(self, converter: Converter) -> None:
        self._converter = converter

    def close(self) -> None:
        """Close the converter."""
        self._converter.close()

    def header_to_bytes(
        self, topic: str, header: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        """As the converter does it for values."""
        return self._converter.to_bytes(topic, schema, value)

    def header_from_bytes(
        self, topic: str, header: str, data: bytes | None
    ) -> tuple[Schema | None, Any]:
        """As the converter does it for values."""
        return self._converter.from_bytes(topic, data)
