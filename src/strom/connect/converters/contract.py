"""The interface of converters.

Values with their schema ↔ the bytes of a record's key, value or headers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from strom.connect.api import ConnectorSettings
from strom.connect.api.schema import Schema
from strom.connect.setting_forms import integer, string


def cache_size_setting() -> Any:
    doc = "The number of cached schemas."
    return integer("schemas.cache.size", doc, 1000)


def decimal_format_setting(**more: Any) -> Any:
    doc = "How decimals are written: BASE64 of their bytes, or NUMERIC."
    return string("decimal.format", doc, "BASE64", **more)


class Converter(ABC):
    """Converts keys or values to bytes and back.

    Both directions raise PoisonRecord if this record cannot be converted, and RetriableError if the
    schema registry is unavailable.
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
        """The value, and its schema if it has one."""

    def all_from_bytes(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, list[Any]] | None:
        """The values of many records at once, if all share one schema regardless of their bytes.

        None: this converter reads them one by one. An error does not identify the record.
        """
        return None

    def close(self) -> None:  # noqa: B027
        """Release all resources, such as connections to a registry."""
