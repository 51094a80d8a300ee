"""The three schema languages: parsing, canonical forms, and which schema can read which data."""

from strom.registry.formats.parsing import parse
from strom.registry.formats.schema import (
    InvalidSchema,
    ParsedSchema,
    Reference,
    Referenced,
    SchemaType,
)

__all__ = ["InvalidSchema", "ParsedSchema", "Reference", "Referenced", "SchemaType", "parse"]
