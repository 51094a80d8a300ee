"""Parses a schema of any of the languages."""

import contextlib
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
from strom.supervision.limited_calls import CallLimits, LimitedCalls, LimitExceeded

SHORT_CHARACTERS = 20_000
SHORT_CPU_S = 1.0
"""For a short text, including the first import of a library."""


def parse(
    kind: SchemaType, text: str, references: Sequence[Referenced] = (), *, lenient: bool = False
) -> ParsedSchema:
    """Parse a schema; raises InvalidSchema with the location and the reason.

    `lenient` is for schemas that a registry has stored already: other registries, and earlier versions
    of this one, accept more than the specifications of the languages allow.
    """
    total = _length(text, references)
    if total > MAX_CHARACTERS:
        raise InvalidSchema(
            f"Schema and references ({total:,} characters) exceed the limit of {MAX_CHARACTERS:,}."
        )
    if not text.strip():
        raise InvalidSchema("The schema is empty.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidSchema("The schema contains a lone surrogate.")
    try:
        return _parse(kind, text, references, lenient)
    except RecursionError as error:
        raise InvalidSchema("The schema is nested too deeply.") from error


def _parse(
    kind: SchemaType, text: str, references: Sequence[Referenced], lenient: bool
) -> ParsedSchema:
    # Imported on first use: the libraries are large.
    if kind is SchemaType.AVRO:
        from strom.registry.formats.avro.schema import AvroSchema

        return AvroSchema.parse(text, references, lenient=lenient)
    if kind is SchemaType.JSON:
        from strom.registry.formats.json_schema.schema import JsonSchema

        _call("check_json_schema", text, references, lenient)
        return JsonSchema.parse(text, references, is_checked=True, lenient=lenient)
    from strom.registry.formats.protobuf.schema import ProtobufSchema

    return ProtobufSchema.from_parts(_call("parse_protobuf", text, references, lenient))


class _Libraries:
    """Child processes of two sorts: schemas that take long do not delay the others."""

    def __init__(self) -> None:
        module = "strom.registry.formats.library_calls"
        self.short = LimitedCalls(module, CallLimits(cpu_s=SHORT_CPU_S), processes=2)
        self.long = LimitedCalls(module)

    def call(
        self, function: str, text: str, references: Sequence[Referenced], lenient: bool
    ) -> Any:
        if _length(text, references) <= SHORT_CHARACTERS:
            # A short text may take long, too.
            with contextlib.suppress(LimitExceeded):
                return self.short.call(function, text, references, lenient)
        return self.long.call(function, text, references, lenient)


_libraries = functools.cache(_Libraries)


def _call(function: str, text: str, references: Sequence[Referenced], lenient: bool) -> Any:
    try:
        found = _libraries().call(function, text, references, lenient)
    except LimitExceeded as error:
        raise InvalidSchema(f"The schema is too complex. {error}") from error
    if "invalid" in found:
        raise InvalidSchema(found["invalid"])
    return found["valid"]


def _length(text: str, references: Sequence[Referenced]) -> int:
    return len(text) + sum(len(one.text) for one in references)
