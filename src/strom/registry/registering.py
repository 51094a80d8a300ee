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


class Wish(NamedTuple):
    """A schema that shall be a version of a subject."""

    subject: str
    content: Content
    normalize: bool = False
    id: int | None = None
    """Given with an import only."""
    version: int | None = None


def register(subjects: Subjects, wish: Wish) -> Change[SchemaVersion]:
    """Make the schema a version of the subject, unless it is one already."""
    _check_subject(wish.subject)
    _check_mode(subjects, wish)
    parsed = meaning(subjects, wish.content)
    content = stored(wish.content, parsed, normalize=_normalizes(subjects, wish))
    if wish.version is None:
        known = find(subjects, wish.subject, parsed, content)
        if known is not None and wish.id in (None, known.id):
            return Change([], known)
    if wish.id is None:
        problems = compatibility_problems(
            subjects, wish.subject, parsed, subjects.versions(wish.subject)
        )
        if problems:
            incompatible(wish.subject, problems)
    entry = SchemaVersion(
        wish.subject, _version(subjects, wish), _id(subjects, wish, content), content
    )
    return Change([*_forgotten(subjects, entry), *_kept_highest(subjects, entry), entry], entry)


def lookup(subjects: Subjects, wish: Wish, *, deleted: bool = False) -> SchemaVersion | None:
    """The version of the subject that the schema is; None if it is none."""
    parsed = meaning(subjects, wish.content)
    content = stored(wish.content, parsed, normalize=_normalizes(subjects, wish))
    return find(subjects, wish.subject, parsed, content, deleted=deleted)


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


def _normalizes(subjects: Subjects, wish: Wish) -> bool:
    return wish.normalize or subjects.setting(wish.subject, "normalize") is True


def _check_subject(subject: str) -> None:
    if not subject or subject in {"__GLOBAL", "__EMPTY"} or any(map(_is_control, subject)):
        invalid_subject(subject)


def _is_control(character: str) -> bool:
    return ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0


def _check_mode(subjects: Subjects, wish: Wish) -> None:
    mode = subjects.mode(wish.subject)
    if mode in READONLY_MODES:
        not_permitted(f"Subject '{wish.subject}' is in read-only mode.")
    if wish.id is not None and mode != "IMPORT":
        not_permitted(f"Subject '{wish.subject}' is not in import mode: an id cannot be chosen.")
    if wish.id is None and mode == "IMPORT":
        not_permitted(f"Subject '{wish.subject}' is in import mode: a schema must bring its id.")


def _version(subjects: Subjects, wish: Wish) -> int:
    latest = subjects.latest(wish.subject, deleted=True)
    following = 1 if latest is None else latest.version + 1
    if wish.version is None:
        return following
    if wish.version != following and wish.id is None:
        invalid_schema(f"The next version of '{wish.subject}' is {following}, not {wish.version}.")
    if not 0 < wish.version <= HIGHEST_NUMBER:
        invalid_schema(f"{wish.version} is no version.")
    return wish.version


def _id(subjects: Subjects, wish: Wish, content: Content) -> int:
    if wish.id is None:
        known = subjects.id_of(content)
        return subjects.highest_id + 1 if known is None else known
    if not 0 < wish.id <= HIGHEST_NUMBER:
        invalid_schema(f"{wish.id} is no id of a schema.")
    known_content = subjects.content(wish.id)
    if known_content is not None and known_content != content:
        not_permitted(f"The id {wish.id} belongs to another schema.")
    return wish.id


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
