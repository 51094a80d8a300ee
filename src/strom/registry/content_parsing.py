"""Parses a content: resolves its references and parses its text; results are cached."""

from functools import lru_cache

from strom.registry.formats import InvalidSchema, ParsedSchema, Referenced, parse
from strom.registry.formats.schema import SchemaType
from strom.registry.records import Content
from strom.registry.refusals import RestError, invalid_schema
from strom.registry.subjects import Subjects

CACHED_SCHEMAS = 2_000
MAX_DEPTH = 50
"""The limit on nested references; it also ends circular ones."""


def parse_content(subjects: Subjects, content: Content) -> ParsedSchema:
    """The parsed schema; raises 42201 if it is invalid."""
    return parse_resolved(content, resolve_references(subjects, content))


def parse_resolved(content: Content, references: tuple[Referenced, ...]) -> ParsedSchema:
    """The parsed schema, if its references are resolved already: this is the slow part."""
    found = _parse_cached(content.kind, content.text, references)
    if isinstance(found, InvalidSchema):
        invalid_schema(str(found))
    return found


def to_stored(content: Content, parsed: ParsedSchema, *, normalize: bool) -> Content:
    """The content as it is stored: with the canonical text, which equal schemas share."""
    text = parsed.normalized if normalize else parsed.canonical
    return Content(content.kind, text, content.references, content.contract)


def resolve_references(
    subjects: Subjects, content: Content, depth: int = MAX_DEPTH
) -> tuple[Referenced, ...]:
    """The contents that the references denote, and those that these refer to."""
    if not depth:
        raise RestError(
            42201, f"The references of the schema are circular, or nested deeper than {MAX_DEPTH}."
        )
    found = []
    for reference in content.references:
        target = subjects.referenced(reference)
        if target is None:
            invalid_schema(
                f"The schema refers to version {reference.version} of subject "
                f"'{reference.subject}' as {reference.name!r}, which does not exist."
            )
        found.append(
            Referenced(reference.name, target.text, resolve_references(subjects, target, depth - 1))
        )
    return tuple(found)


@lru_cache(CACHED_SCHEMAS)
def _parse_cached(
    kind: SchemaType, text: str, references: tuple[Referenced, ...]
) -> ParsedSchema | InvalidSchema:
    try:
        return parse(kind, text, references)
    except InvalidSchema as error:
        return error.with_traceback(None)
