"""Parses a content: resolves its references and parses its text; results are cached."""

from functools import lru_cache

from strom.registry.formats import InvalidSchema, ParsedSchema, Referenced, parse
from strom.registry.formats.schema import Reference, SchemaType
from strom.registry.records import Content
from strom.registry.refusals import RestError, invalid_schema
from strom.registry.subjects import Subjects
from strom.supervision.limited_calls import CallFailed

CACHED_SCHEMAS = 2_000
MAX_DEPTH = 50
MAX_REFERENCES = 1_000
"""The limit on different references, with those of what is referred to."""


def parse_content(subjects: Subjects, content: Content) -> ParsedSchema:
    """The parsed schema; raises 42201 if it is invalid."""
    return parse_resolved(content, resolve_references(subjects, content))


def parse_resolved(content: Content, references: tuple[Referenced, ...]) -> ParsedSchema:
    """The parsed schema, if its references are resolved already: this is the slow part."""
    try:
        found = _parse_cached(content.kind, content.text, references)
    except CallFailed as error:
        raise RestError(
            503, f"The schema cannot be parsed at present: {error} Retry later."
        ) from error
    if isinstance(found, InvalidSchema):
        invalid_schema(str(found))
    return found


def to_stored(content: Content, parsed: ParsedSchema, *, normalize: bool) -> Content:
    """The content as it is stored: with the canonical text, which equal schemas share."""
    text = parsed.normalized if normalize else parsed.canonical
    return Content(content.kind, text, content.references, content.contract)


def resolve_references(subjects: Subjects, content: Content) -> tuple[Referenced, ...]:
    """The contents that the references denote, after those that these refer to, each once."""
    found: dict[Reference, Referenced] = {}
    path: set[tuple[str, int]] = set()
    resolved: set[tuple[str, int]] = set()

    def resolve(content: Content) -> None:
        for reference in content.references:
            if reference in found:
                continue
            if len(found) == MAX_REFERENCES:
                invalid_schema(f"The schema has more than {MAX_REFERENCES} references in total.")
            target = subjects.referenced(reference)
            if target is None:
                invalid_schema(
                    f"The schema refers to version {reference.version} of subject "
                    f"'{reference.subject}' as {reference.name!r}, which does not exist."
                )
            place = (reference.subject, reference.version)
            if place in path or len(path) == MAX_DEPTH:
                invalid_schema(
                    f"The references of the schema are circular, or nested deeper than {MAX_DEPTH}."
                )
            if place not in resolved:
                path.add(place)
                resolve(target)
                path.remove(place)
                resolved.add(place)
            found[reference] = Referenced(reference.name, target.text)

    resolve(content)
    return tuple(found.values())


@lru_cache(CACHED_SCHEMAS)
def _parse_cached(
    kind: SchemaType, text: str, references: tuple[Referenced, ...]
) -> ParsedSchema | InvalidSchema:
    try:
        return parse(kind, text, references)
    except InvalidSchema as error:
        return error.with_traceback(None)
