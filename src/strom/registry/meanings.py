"""From a content to what it means: its references are looked up, its text is parsed, once."""

from functools import lru_cache

from strom.registry.formats import InvalidSchema, Parsed, Referenced, parse
from strom.registry.formats.schema import Kind
from strom.registry.records import Content
from strom.registry.refusals import Refusal, invalid_schema
from strom.registry.subjects import Subjects

MOST_REMEMBERED = 2_000
MOST_DEPTH = 50
"""How deep references may refer on: a chain of more is a mistake."""


def meaning(subjects: Subjects, content: Content) -> Parsed:
    """The parsed schema, or the refusal that says why it is none."""
    return parsed(content, resolved(subjects, content))


def parsed(content: Content, references: tuple[Referenced, ...]) -> Parsed:
    """The same, when it is known what its references stand for: this is the part that takes long."""
    found = _parsed(content.kind, content.text, references)
    if isinstance(found, InvalidSchema):
        invalid_schema(str(found))
    return found


def stored(content: Content, parsed: Parsed, *, normalize: bool) -> Content:
    """The content as it is kept: with the text that equal schemas have in common."""
    text = parsed.normalized if normalize else parsed.canonical
    return Content(content.kind, text, content.references, content.contract)


def resolved(
    subjects: Subjects, content: Content, depth: int = MOST_DEPTH
) -> tuple[Referenced, ...]:
    """What the references of a content stand for, and theirs in turn."""
    if not depth:
        raise Refusal(42201, "The references of the schema go round in circles.")
    found = []
    for reference in content.references:
        target = subjects.referenced(reference)
        if target is None:
            invalid_schema(
                f"The schema refers to version {reference.version} of subject "
                f"'{reference.subject}' as {reference.name!r}, which does not exist."
            )
        found.append(Referenced(reference.name, target.text, resolved(subjects, target, depth - 1)))
    return tuple(found)


@lru_cache(MOST_REMEMBERED)
def _parsed(kind: Kind, text: str, references: tuple[Referenced, ...]) -> Parsed | InvalidSchema:
    try:
        return parse(kind, text, references)
    except InvalidSchema as error:
        return error.with_traceback(None)
