"""Parses a schema of any of the languages."""

import functools
from collections.abc import Sequence
from typing import Any

from strom.registry.formats.schema import (
    MAX_CHARACTERS,
    InvalidSchema,
    ParsedSchema,
    Referenced,
    SchemaType,
)
from strom.supervision.limited_calls import LimitedCalls, LimitExceeded


def parse(kind: SchemaType, text: str, references: Sequence[Referenced] = ()) -> ParsedSchema:
    """Parse a schema; raises InvalidSchema with the location and the reason."""
    total = len(text) + sum(len(one.text) for one in references)
    if total > MAX_CHARACTERS:
        raise InvalidSchema(
            f"Schema and references ({total:,} characters) exceed the limit of {MAX_CHARACTERS:,}."
        )
    if not text.strip():
        raise InvalidSchema("The schema is empty.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidSchema("The schema contains a lone surrogate.")
    try:
        return _parse(kind, text, references)
    except RecursionError as error:
        raise InvalidSchema("The schema is nested too deeply.") from error


def _parse(kind: SchemaType, text: str, references: Sequence[Referenced]) -> ParsedSchema:
    # Imported on first use: the libraries are large.
    if kind is SchemaType.AVRO:
        from strom.registry.formats.avro.schema import AvroSchema

        return AvroSchema.parse(text, references)
    if kind is SchemaType.JSON:
        from strom.registry.formats.json_schema.schema import JsonSchema

        _call("check_json_schema", text, references)
        return JsonSchema.parse(text, references, is_checked=True)
    from strom.registry.formats.protobuf.schema import ProtobufSchema

    return ProtobufSchema.from_parts(_call("parse_protobuf", text, references))


@functools.cache
def _libraries() -> LimitedCalls:
    return LimitedCalls("strom.registry.formats.library_calls")


def _call(function: str, text: str, references: Sequence[Referenced]) -> Any:
    try:
        found = _libraries().call(function, text, references)
    except LimitExceeded as error:
        raise InvalidSchema(f"The schema is too complex. {error}") from error
    if "invalid" in found:
        raise InvalidSchema(found["invalid"])
    return found["valid"]
