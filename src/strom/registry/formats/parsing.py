"""From a text to a schema, whatever its language."""

from collections.abc import Sequence

from strom.registry.formats.schema import (
    MAX_CHARACTERS,
    InvalidSchema,
    Kind,
    Parsed,
    Referenced,
)


def parse(kind: Kind, text: str, references: Sequence[Referenced] = ()) -> Parsed:
    """Read a schema, or tell by InvalidSchema where and why it is none."""
    total = len(text) + sum(map(_size, references))
    if total > MAX_CHARACTERS:
        raise InvalidSchema(
            f"The schema and what it refers to have {total:,} characters; {MAX_CHARACTERS:,} are allowed."
        )
    if not text.strip():
        raise InvalidSchema("The schema is empty.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidSchema("The schema has half of a surrogate pair.")
    try:
        return _parse(kind, text, references)
    except RecursionError as error:
        raise InvalidSchema("The schema is nested too deeply.") from error


def _size(referenced: Referenced) -> int:
    return len(referenced.text) + sum(map(_size, referenced.references))


def _parse(kind: Kind, text: str, references: Sequence[Referenced]) -> Parsed:
    # Each language is loaded when it is first met: their libraries are large.
    if kind is Kind.AVRO:
        from strom.registry.formats.avro.schema import AvroSchema

        return AvroSchema.parse(text, references)
    if kind is Kind.JSON:
        from strom.registry.formats.json_schema.schema import JsonSchema

        return JsonSchema.parse(text, references)
    from strom.registry.formats.protobuf.schema import ProtobufSchema

    return ProtobufSchema.parse(text, references)
