"""Parses a content: resolves its references and parses its text; results are cached."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from strom.registry.formats import InvalidSchema, ParsedSchema, Referenced, parse
from strom.registry.formats.schema import Reference, SchemaType
from strom.registry.records import Content
from strom.registry.refusals import (
    INVALID_SCHEMA,
    UNAVAILABLE,
    RestError,
    invalid_schema,
    reference_not_found,
)
from strom.registry.slow_work import Key, results_of
from strom.registry.subjects import LATEST, Subjects
from strom.supervision.limited_calls import CallFailed

CACHED_SCHEMAS = 2_000
MAX_DEPTH = 50
MAX_REFERENCES = 1_000
"""The limit on different references, with those of what is referred to."""


def parse_content(subjects: Subjects, content: Content, *, lenient: bool = False) -> ParsedSchema:
    """The parsed schema; raises 42201 if it is invalid.

    Only new schemas are validated strictly: a stored one is what data was written with, valid or not.
    """
    (found,) = parse_all(subjects, [content], lenient=lenient)
    if isinstance(found, RestError):
        raise found
    return found


def parse_new(subjects: Subjects, content: Content) -> ParsedSchema:
    """The parsed schema of a request; 42201 if it is invalid, or refers to a deleted version."""
    if not content.text.strip():
        invalid_schema("Empty schema")
    pinned = pin_references(subjects, content)
    for reference in pinned.references:
        if subjects.version(reference.subject, reference.version) is None:
            reference_not_found(reference)
    return parse_content(subjects, pinned)


def pin_references(subjects: Subjects, content: Content) -> Content:
    """The content with numbers in place of references to the latest version, as it is stored."""
    references = tuple(
        one._replace(version=latest.version)
        if one.version == LATEST and (latest := subjects.latest(one.subject)) is not None
        else one
        for one in content.references
    )
    return replace(content, references=references)


def parse_all(
    subjects: Subjects, contents: Sequence[Content], *, lenient: bool = False
) -> list[ParsedSchema | RestError]:
    """The parsed schemas, or why they are invalid."""
    resolved: list[tuple[Key, RestError | None]] = []
    jobs: dict[Key, Callable[[], ParsedSchema | InvalidSchema]] = {}
    for content in contents:
        try:
            references = resolve_references(subjects, content)
        except RestError as error:
            resolved.append(((), error))
            continue
        key = (content.kind, content.text, references, lenient)
        jobs[key] = partial(_parse, content, references, lenient=lenient)
        resolved.append((key, None))
    found = dict(zip(jobs, results_of(jobs), strict=True))
    return [error or _or_refusal(found[key]) for key, error in resolved]


def _or_refusal(found: ParsedSchema | InvalidSchema) -> ParsedSchema | RestError:
    if isinstance(found, ParsedSchema):
        return found
    return RestError(INVALID_SCHEMA, str(found))


def _parse(
    content: Content, references: tuple[Referenced, ...], *, lenient: bool
) -> ParsedSchema | InvalidSchema:
    """The slow part of parsing."""
    try:
        found = _parse_cached(content.kind, content.text, references)
        if lenient and isinstance(found, InvalidSchema):
            found = _parse_cached(content.kind, content.text, references, lenient=True)
    except CallFailed as error:
        raise RestError(
            UNAVAILABLE, f"The schema cannot be parsed at present: {error} Retry later."
        ) from error
    if isinstance(found, InvalidSchema):
        return InvalidSchema(f"Invalid schema of type {content.kind}, details: {found}")
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
                reference_not_found(reference)
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
    kind: SchemaType, text: str, references: tuple[Referenced, ...], *, lenient: bool = False
) -> ParsedSchema | InvalidSchema:
    try:
        return parse(kind, text, references, lenient=lenient)
    except InvalidSchema as error:
        return error.with_traceback(None)
