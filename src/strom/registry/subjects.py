"""The state of all subjects: what the records of `_schemas`, in their order, add up to.

Only `apply` changes it, at start-up and at run time alike. Whatever compaction leaves out, the state is
the same: a record with a key says all that is to say about it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from strom.registry.formats.schema import Reference
from strom.registry.records import (
    Configured,
    Content,
    Entry,
    HighestId,
    ModeSet,
    SchemaGone,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
)

DEFAULT_LEVEL = "BACKWARD"
READWRITE = "READWRITE"
READONLY_OVERRIDE = "READONLY_OVERRIDE"
Value = TypeVar("Value")
Place = tuple[str, int]
"""Subject and version."""


class Subjects:
    """All versions of all subjects, their ids, and the settings of subjects."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, SchemaVersion]] = {}
        self._contents: dict[int, Content] = {}
        self._places: dict[int, set[Place]] = {}
        self._ids: dict[Content, int] = {}
        self._referrers: dict[Place, set[Place]] = {}
        self._configs: dict[str | None, dict[str, object]] = {}
        self._modes: dict[str | None, str] = {}
        self.highest_id = 0
        """The highest id that was ever given."""

    # ── what happens ─────────────────────────────────────────────────────────────────────────────

    def apply(self, entry: Entry) -> None:
        """Let an entry of the log happen."""
        match entry:
            case SchemaVersion():
                self._put(entry)
            case SchemaGone(subject, version):
                self._remove(subject, version)
            case SubjectDeleted(subject, last):
                for one in self.versions(subject):
                    if one.version <= last:
                        self._put(replace(one, deleted=True))
            case SubjectCleared(subject):
                self._clear(subject)
            case Configured(subject, settings):
                _set(self._configs, subject, settings if settings is None else dict(settings))
            case ModeSet(subject, mode):
                _set(self._modes, subject, mode)
            case HighestId(schema_id):
                self.highest_id = max(self.highest_id, schema_id)

    def _put(self, entry: SchemaVersion) -> None:
        known = self._contents.get(entry.id)
        if known is not None and known != entry.content:
            return  # an id has one meaning; Confluent's registry leaves such a record out as well
        self._remove(entry.subject, entry.version)
        self._versions.setdefault(entry.subject, {})[entry.version] = entry
        self._contents[entry.id] = entry.content
        self._places.setdefault(entry.id, set()).add((entry.subject, entry.version))
        # The first id stays the content's, should a log of elsewhere have given it two.
        self._ids.setdefault(entry.content, entry.id)
        self.highest_id = max(self.highest_id, entry.id)
        for reference in entry.content.references:
            place = (reference.subject, reference.version)
            self._referrers.setdefault(place, set()).add((entry.subject, entry.version))

    def _clear(self, subject: str | None) -> None:
        for name in self.subjects(deleted=True) if subject is None else [subject]:
            for one in self.versions(name, deleted=True):
                if one.deleted:
                    self._remove(name, one.version)

    def _remove(self, subject: str, version: int) -> None:
        versions = self._versions.get(subject, {})
        entry = versions.pop(version, None)
        if entry is None:
            return
        if not versions:
            del self._versions[subject]
        places = self._places[entry.id]
        places.discard((subject, version))
        if not places:
            del self._places[entry.id], self._contents[entry.id]
            if self._ids.get(entry.content) == entry.id:
                del self._ids[entry.content]
        for reference in entry.content.references:
            self._referrers.get((reference.subject, reference.version), set()).discard(
                (subject, version)
            )

    # ── what is there ────────────────────────────────────────────────────────────────────────────

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """The subjects that have a version, in the order of their names."""
        return sorted(
            subject
            for subject, versions in self._versions.items()
            if deleted or any(not one.deleted for one in versions.values())
        )

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaVersion]:
        """The versions of a subject, oldest first."""
        return [
            one
            for _, one in sorted(self._versions.get(subject, {}).items())
            if deleted or not one.deleted
        ]

    def version(self, subject: str, version: int, *, deleted: bool = False) -> SchemaVersion | None:
        """One version of a subject."""
        found = self._versions.get(subject, {}).get(version)
        return found if found is not None and (deleted or not found.deleted) else None

    def latest(self, subject: str, *, deleted: bool = False) -> SchemaVersion | None:
        """The newest version of a subject."""
        versions = self.versions(subject, deleted=deleted)
        return versions[-1] if versions else None

    def content(self, schema_id: int) -> Content | None:
        """What an id means; soft-deleted schemas are still found, for data written with them lives on."""
        return self._contents.get(schema_id)

    def contents(self) -> list[Content]:
        """Every schema that has an id, soft-deleted ones included."""
        return list(self._contents.values())

    def id_of(self, content: Content) -> int | None:
        """The id of a content, whatever subject it is of."""
        return self._ids.get(content)

    def places(self, schema_id: int, *, deleted: bool = False) -> list[SchemaVersion]:
        """Where a schema is a version, by subject."""
        found = (self._versions[name][number] for name, number in self._places.get(schema_id, ()))
        return sorted(
            (one for one in found if deleted or not one.deleted),
            key=lambda one: (one.subject, one.version),
        )

    def referrers(self, place: Place, *, deleted: bool = False) -> list[SchemaVersion]:
        """The versions that refer to one."""
        found = (self._versions[name][number] for name, number in self._referrers.get(place, ()))
        return sorted(
            (one for one in found if deleted or not one.deleted),
            key=lambda one: (one.id, one.subject, one.version),
        )

    def referenced(self, reference: Reference) -> Content | None:
        """What a reference stands for; it may have been soft-deleted since."""
        found = self.version(reference.subject, reference.version, deleted=True)
        return None if found is None else found.content

    def everything(self, *, deleted: bool = False) -> Iterator[SchemaVersion]:
        """All versions, by subject."""
        for subject in self.subjects(deleted=True):
            yield from self.versions(subject, deleted=deleted)

    def config(self, subject: str | None) -> dict[str, object] | None:
        """What was set for a subject, or for all; None if nothing was."""
        return self._configs.get(subject)

    def setting(self, subject: str | None, name: str) -> object | None:
        """A setting that holds for a subject: its own, or that of all."""
        for scope in (subject, None):
            value = self._configs.get(scope, {}).get(name)
            if value is not None:
                return value
        return None

    def level(self, subject: str | None) -> str:
        """The compatibility that holds for a subject."""
        return str(self.setting(subject, "compatibilityLevel") or DEFAULT_LEVEL)

    def own_mode(self, subject: str | None) -> str | None:
        """The mode that was set for a subject, or for all; None if none was."""
        return self._modes.get(subject)

    def mode(self, subject: str | None) -> str:
        """The mode that holds for a subject."""
        of_all = self._modes.get(None, READWRITE)
        return of_all if of_all == READONLY_OVERRIDE else self._modes.get(subject, of_all)

    def snapshot(self) -> tuple[object, ...]:
        """All that is there, as a value to compare with another."""
        return (
            tuple(self.everything(deleted=True)),
            sorted(self._configs.items(), key=str),
            sorted(self._modes.items(), key=str),
            self.highest_id,
        )


def _set(settings: dict[str | None, Value], subject: str | None, value: Value | None) -> None:
    if value is None:
        settings.pop(subject, None)
    else:
        settings[subject] = value
