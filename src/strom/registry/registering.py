"""Registers schemas, looks them up, and checks their compatibility."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from strom.registry.compatibility import CompatibilityLevel, check
from strom.registry.content_parsing import (
    parse_all,
    parse_content,
    parse_new,
    pin_references,
    to_stored,
)
from strom.registry.formats import ParsedSchema
from strom.registry.formats.schema import SchemaType
from strom.registry.records import (
    Content,
    Entry,
    HighestId,
    SchemaTombstone,
    SchemaVersion,
    StateChange,
)
from strom.registry.refusals import (
    CONTEXT,
    RestError,
    incompatible,
    invalid_schema,
    invalid_subject,
    not_permitted,
    read_only,
)
from strom.registry.slow_work import results_of
from strom.registry.subjects import Subjects

READONLY_MODES = {"READONLY", "READONLY_OVERRIDE"}
HIGHEST_NUMBER = 2**31 - 1


class SchemaRequest(NamedTuple):
    """A schema to be registered under a subject, or to be looked up."""

    subject: str
    content: Content
    normalize: bool = False
    id: int | None = None
    """Only in import mode."""
    version: int | None = None


def register(subjects: Subjects, request: SchemaRequest) -> StateChange[SchemaVersion]:
    """Register the schema as a version of the subject, unless it is one already."""
    _check_subject(request.subject)
    _check_mode(subjects, request)
    request = _with_schema(subjects, request)
    if request.version is None:
        known = lookup(subjects, request)
        if known is not None and request.id in (None, known.id):
            return StateChange([], known)
    if request.id is None:
        parsed = parse_new(subjects, request.content)
        problems = compatibility_problems(
            subjects, request.subject, parsed, subjects.versions(request.subject)
        )
        if problems:
            incompatible(request.subject, problems)
    else:  # another registry has validated what is imported
        parsed = parse_content(subjects, request.content, lenient=True)
    content, normalize = request.content, _normalizes(subjects, request)
    if normalize or subjects.id_of(content) is None:  # else exactly this text has an id already
        content = to_stored(content, parsed, normalize=normalize)
    entry = SchemaVersion(
        request.subject, _version(subjects, request), _id(subjects, request, content), content
    )
    return StateChange(
        [*_replaced(subjects, entry), *_preserved_highest_id(subjects, entry), entry], entry
    )


def lookup(
    subjects: Subjects, request: SchemaRequest, *, deleted: bool = False
) -> SchemaVersion | None:
    """The newest version of the subject that holds the schema, if there is one."""
    if not request.content.text.strip():
        return None
    given = pin_references(subjects, request.content)
    newest_first = subjects.versions(request.subject, deleted=deleted)[::-1]
    for one in newest_first:
        if one.content == given:  # parsed or not: even a text that is invalid now has its id
            return one
    parsed = parse_content(subjects, given, lenient=True)
    normalize = _normalizes(subjects, request)
    stored = to_stored(given, parsed, normalize=normalize)
    for one in newest_first:
        if one.content == stored:
            return one
    # Another registry may have stored an equal schema with a different text.
    similar = [
        one for one in newest_first if replace(one.content, text="") == replace(given, text="")
    ]
    schemas = parse_all(subjects, [one.content for one in similar], lenient=True)
    for one, schema in zip(similar, schemas, strict=True):
        if _is_same(parsed, schema, one.content.text, normalize=normalize):
            return one
    return None


def compatibility_problems(
    subjects: Subjects, subject: str, parsed: ParsedSchema, earlier: Sequence[SchemaVersion]
) -> list[str]:
    """Why a schema is incompatible with earlier versions at the subject's compatibility level."""
    level = CompatibilityLevel(subjects.level(subject))
    if level is CompatibilityLevel.NONE:
        return []
    versions, schemas, unparsable = list[int](), list[ParsedSchema](), list[str]()
    compared = earlier if level.is_transitive else earlier[-1:]
    found_all = parse_all(subjects, [one.content for one in compared], lenient=True)
    for one, found in zip(compared, found_all, strict=True):
        if isinstance(found, RestError):
            # To accept the new version unchecked would break the promise of the level.
            unparsable.append(
                f"Compatibility with version {one.version} cannot be checked, because it cannot be "
                f"parsed. Delete that version, or set the subject's compatibility to NONE. {found}"
            )
        else:
            versions.append(one.version)
            schemas.append(found)
    judge = partial(check, level, parsed, schemas, versions)
    (problems,) = results_of({(level, parsed, *schemas, *versions): judge})
    return unparsable + problems


def _with_schema(subjects: Subjects, request: SchemaRequest) -> SchemaRequest:
    """The request with pinned references, and with the latest version's schema if it has none."""
    content = pin_references(subjects, request.content)
    latest = subjects.latest(request.subject)
    if not content.text.strip() and latest is not None:
        # As Confluent's registry does, so that a request may change metadata and rules alone.
        content = replace(latest.content, contract=content.contract or latest.content.contract)
    return request._replace(content=content)


def _is_same(
    given: ParsedSchema, stored: ParsedSchema | RestError, text: str, *, normalize: bool
) -> bool:
    """Whether a stored version, which has this text, is the given schema."""
    if isinstance(stored, RestError):
        return False
    return given.canonical == stored.canonical or (
        (normalize or _is_reordered(stored, text)) and given.normalized == stored.normalized
    )


def _is_reordered(stored: ParsedSchema, text: str) -> bool:
    """Whether an earlier strom printed this text: maps behind other fields, and no blank lines.

    So the declared order is lost. Today's layout, like Confluent's, has a blank line after the syntax.
    """
    return (
        stored.kind is SchemaType.PROTOBUF
        and text.startswith(("syntax = ", "edition = "))
        and "\n\n" not in text
        and text != stored.canonical
    )


def _normalizes(subjects: Subjects, request: SchemaRequest) -> bool:
    return request.normalize or subjects.setting(request.subject, "normalize") is True


def _check_subject(subject: str) -> None:
    if not subject or subject in {"__GLOBAL", "__EMPTY"} or any(map(_is_control, subject)):
        invalid_subject(subject)


def _is_control(character: str) -> bool:
    return ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0


def _check_mode(subjects: Subjects, request: SchemaRequest) -> None:
    mode = subjects.mode(request.subject)
    if mode in READONLY_MODES:
        read_only(request.subject)
    if request.id is not None and mode != "IMPORT":
        not_permitted(f"Subject {request.subject} in context {CONTEXT} is not in import mode")
    if request.id is None and mode == "IMPORT":
        not_permitted(f"Subject {request.subject} in context {CONTEXT} is not in read-write mode")


def _version(subjects: Subjects, request: SchemaRequest) -> int:
    latest = subjects.latest(request.subject, deleted=True)
    following = 1 if latest is None else latest.version + 1
    if request.version is None:
        return following
    if request.version != following and request.id is None:
        invalid_schema(
            f"The next version of '{request.subject}' is {following}, not {request.version}."
        )
    if not 0 < request.version <= HIGHEST_NUMBER:
        invalid_schema(f"Invalid version number {request.version}.")
    return request.version


def _id(subjects: Subjects, request: SchemaRequest, content: Content) -> int:
    if request.id is None:
        known = subjects.id_of(content)
        return subjects.highest_id + 1 if known is None else known
    if not 0 < request.id <= HIGHEST_NUMBER:
        invalid_schema(f"Invalid schema id {request.id}.")
    known_content = subjects.content(request.id)
    if known_content is not None and known_content != content:
        not_permitted(f"Schema id {request.id} is assigned to another schema.")
    return request.id


def _preserved_highest_id(subjects: Subjects, entry: SchemaVersion) -> list[Entry]:
    """An import may overwrite a version's record; the highest id must not be lost with the old one."""
    taken = any(
        one.version == entry.version and one.id != entry.id
        for one in subjects.versions(entry.subject, deleted=True)
    )
    return [HighestId(subjects.highest_id)] if taken else []


def _replaced(subjects: Subjects, entry: SchemaVersion) -> list[Entry]:
    """Soft-deleted versions of the same schema that this one replaces, unless others refer to them."""
    return [
        SchemaTombstone(one.subject, one.version)
        for one in subjects.versions(entry.subject, deleted=True)
        if one.deleted
        and one.id == entry.id
        and one.version < entry.version
        and not subjects.referrers((one.subject, one.version), deleted=True)
    ]
