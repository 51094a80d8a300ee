"""Registering schemas, finding them again, and whether one may follow another."""

from collections.abc import Sequence
from typing import NamedTuple

from strom.registry.changes import Change
from strom.registry.compatibility import Level, check
from strom.registry.formats import Parsed
from strom.registry.meanings import meaning, stored
from strom.registry.records import Content, Entry, HighestId, SchemaGone, SchemaVersion
from strom.registry.refusals import (
    Refusal,
    incompatible,
    invalid_schema,
    invalid_subject,
    not_permitted,
)
from strom.registry.subjects import Subjects

READONLY_MODES = {"READONLY", "READONLY_OVERRIDE"}
HIGHEST_NUMBER = 2**31 - 1


class SchemaRequest(NamedTuple):
    """A schema that shall be a version of a subject."""

    subject: str
    content: Content
    normalize: bool = False
    id: int | None = None
    """Given with an import only."""
    version: int | None = None


def register(subjects: Subjects, request: SchemaRequest) -> Change[SchemaVersion]:
    """Make the schema a version of the subject, unless it is one already."""
    _check_subject(request.subject)
    _check_mode(subjects, request)
    parsed = meaning(subjects, request.content)
    content = stored(request.content, parsed, normalize=_normalizes(subjects, request))
    if request.version is None:
        known = find(subjects, request.subject, parsed, content)
        if known is not None and request.id in (None, known.id):
            return Change([], known)
    if request.id is None:
        problems = compatibility_problems(
            subjects, request.subject, parsed, subjects.versions(request.subject)
        )
        if problems:
            incompatible(request.subject, problems)
    entry = SchemaVersion(
        request.subject, _version(subjects, request), _id(subjects, request, content), content
    )
    return Change([*_forgotten(subjects, entry), *_kept_highest(subjects, entry), entry], entry)


def lookup(
    subjects: Subjects, request: SchemaRequest, *, deleted: bool = False
) -> SchemaVersion | None:
    """The version of the subject that the schema is; None if it is none."""
    parsed = meaning(subjects, request.content)
    content = stored(request.content, parsed, normalize=_normalizes(subjects, request))
    return find(subjects, request.subject, parsed, content, deleted=deleted)


def find(
    subjects: Subjects, subject: str, parsed: Parsed, content: Content, *, deleted: bool = False
) -> SchemaVersion | None:
    """The newest version of the subject with this content."""
    newest_first = subjects.versions(subject, deleted=deleted)[::-1]
    for one in newest_first:
        if one.content == content:
            return one
    # A registry of elsewhere may have written the same schema in other words.
    for one in newest_first:
        if (one.content.kind, one.content.references) != (content.kind, content.references):
            continue
        if one.content.contract == content.contract and _canonical(subjects, one) in (
            parsed.canonical,
            content.text,
        ):
            return one
    return None


def compatibility_problems(
    subjects: Subjects, subject: str, parsed: Parsed, earlier: Sequence[SchemaVersion]
) -> list[str]:
    """Why a schema may not follow earlier versions under the subject's compatibility."""
    level = Level(subjects.level(subject))
    if level is Level.NONE:
        return []
    counted = earlier if level.transitive else earlier[-1:]
    return check(
        level,
        parsed,
        [meaning(subjects, one.content) for one in counted],
        [one.version for one in counted],
    )


def _canonical(subjects: Subjects, entry: SchemaVersion) -> str | None:
    try:
        return meaning(subjects, entry.content).canonical
    except Refusal:  # its languages are stricter here than where it was registered
        return None


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
        not_permitted(f"Subject '{request.subject}' is in read-only mode.")
    if request.id is not None and mode != "IMPORT":
        not_permitted(f"Subject '{request.subject}' is not in import mode: an id cannot be chosen.")
    if request.id is None and mode == "IMPORT":
        not_permitted(f"Subject '{request.subject}' is in import mode: a schema must bring its id.")


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
        invalid_schema(f"{request.version} is no version.")
    return request.version


def _id(subjects: Subjects, request: SchemaRequest, content: Content) -> int:
    if request.id is None:
        known = subjects.id_of(content)
        return subjects.highest_id + 1 if known is None else known
    if not 0 < request.id <= HIGHEST_NUMBER:
        invalid_schema(f"{request.id} is no id of a schema.")
    known_content = subjects.content(request.id)
    if known_content is not None and known_content != content:
        not_permitted(f"The id {request.id} belongs to another schema.")
    return request.id


def _kept_highest(subjects: Subjects, entry: SchemaVersion) -> list[Entry]:
    """An import may take a version's place in the log; the highest id is not to go with the old one."""
    taken = any(
        one.version == entry.version and one.id != entry.id
        for one in subjects.versions(entry.subject, deleted=True)
    )
    return [HighestId(subjects.highest_id)] if taken else []


def _forgotten(subjects: Subjects, entry: SchemaVersion) -> list[Entry]:
    """Soft-deleted versions with the same schema go for good, as it is back; unless others need them."""
    return [
        SchemaGone(one.subject, one.version)
        for one in subjects.versions(entry.subject, deleted=True)
        if one.deleted
        and one.id == entry.id
        and one.version < entry.version
        and not subjects.referrers((one.subject, one.version), deleted=True)
    ]
