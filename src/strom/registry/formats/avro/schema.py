"""The Avro implementation of a parsed schema."""

from collections.abc import Sequence
from functools import cached_property
from typing import Self

from strom.registry.formats.avro import resolution
from strom.registry.formats.avro.reading import AvroParser
from strom.registry.formats.avro.types import AvroType
from strom.registry.formats.avro.writing import CanonicalText
from strom.registry.formats.schema import (
    InvalidSchema,
    ParsedSchema,
    Problem,
    Referenced,
    SchemaType,
)


class AvroSchema(ParsedSchema):
    """A valid Avro schema, with the named types that it takes from its references."""

    kind = SchemaType.AVRO

    def __init__(self, schema: AvroType, borrowed: frozenset[str]) -> None:
        self.type = schema
        self._borrowed = borrowed

    @classmethod
    def parse(cls, text: str, references: Sequence[Referenced], *, lenient: bool = False) -> Self:
        """Parse a text that may use the named types of its references."""
        reader = AvroParser()
        for referenced in {one.text: one for one in references}.values():
            try:
                reader.read(referenced.text, lenient=True)  # it is registered already
            except InvalidSchema as error:
                raise InvalidSchema(f"In the reference {referenced.name}: {error}") from error
        borrowed = frozenset(reader.names)
        return cls(reader.read(text, lenient=lenient), borrowed)

    @cached_property
    def canonical(self) -> str:
        """The schema on one line, with all attributes."""
        return CanonicalText(self._borrowed).write(self.type)

    @cached_property
    def normalized(self) -> str:
        """The canonical text with sorted aliases and attributes."""
        return CanonicalText(self._borrowed, sort=True).write(self.type)

    def differences(self, written: Self) -> list[Problem]:
        """The problems of schema resolution."""
        return resolution.problems(self.type, written.type)
