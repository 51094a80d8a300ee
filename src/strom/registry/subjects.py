"""The state of all subjects: what the records of `_schemas` add up to, in their order.

Only `apply` changes it, at start-up and at run time alike. Compaction does not change the result,
because a record fully describes the state of its key.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from strom.registry.formats.schema import Reference
from strom.registry.records import (
    ConfigSet,
    Content,
    Entry,
    HighestId,
    ModeSet,
    SchemaTombstone,
    SchemaVersion,
    SubjectCleared,
    SubjectDeleted,
)

DEFAULT_LEVEL = "BACKWARD"
LATEST = -1
"""In place of a version's number: the latest one."""
READWRITE = "READWRITE"
READONLY_OVERRIDE = "READONLY_OVERRIDE"
Value = TypeVar("Value")
VersionKey = tuple[str, int]
"""Subject and version."""


class Subjects:
    """All versions of all subjects, their ids, and the settings of subjects."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, SchemaVersion]] = {}
        self._contents: dict[int, Content] = {}
        self._places: dict[int, set[VersionKey]] = {}
        self._ids: dict[Content, int] = {}
        self._referrers: dict[VersionKey, set[VersionKey]] = {}
        self._configs: dict[str | None, dict[str, object]] = {}
        self._modes: dict[str | None, str] = {}
        self.highest_id = 0
        """The highest id that was ever assigned."""

    # ── changes ──────────────────────────────────────────────────────────────────────────────────

    def apply(self, entry: Entry) -> None:
        match entry:
            case SchemaVersion():
                self._put(entry)
            case SchemaTombstone(subject, version):
                self._remove(subject, version)
            case SubjectDeleted(subject, last):
                for one in self.versions(subject):
                    if one.version <= last:
                        self._put(replace(one, deleted=True))
            case SubjectCleared(subject):
                self._clear(subject)
            case ConfigSet(subject, settings):
                _set(self._configs, subject, settings if settings is None else dict(settings))
            case ModeSet(subject, mode):
                _set(self._modes, subject, mode)
            case HighestId(schema_id):
                self.highest_id = max(self.highest_id, schema_id)

    def _put(self, entry: SchemaVersion) -> None:
        known = self._contents.get(entry.id)
        if known is not None and known != entry.content:
            return  # an id denotes one content; Confluent's registry ignores such a record too
        self._remove(entry.subject, entry.version)
        self._versions.setdefault(entry.subject, {})[entry.version] = entry
        self._contents[entry.id] = entry.content
        self._places.setdefault(entry.id, set()).add((entry.subject, entry.version))
        # Another registry may have assigned two ids to one content: the first one stays.
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
        versions_with_id = self._places[entry.id]
        versions_with_id.discard((subject, version))
        if not versions_with_id:
            del self._places[entry.id], self._contents[entry.id]
            if self._ids.get(entry.content) == entry.id:
                del self._ids[entry.content]
        for reference in entry.content.references:
            self._referrers.get((reference.subject, reference.version), set()).discard(
                (subject, version)
            )

    # ── queries ──────────────────────────────────────────────────────────────────────────────────

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """The subjects that have a version, sorted by name."""
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
        found = self._versions.get(subject, {}).get(version)
        return found if found is not None and (deleted or not found.deleted) else None

    def latest(self, subject: str, *, deleted: bool = False) -> SchemaVersion | None:
        versions = self.versions(subject, deleted=deleted)
        return versions[-1] if versions else None

    def content(self, schema_id: int) -> Content | None:
        """The content of an id.

        Soft-deleted ones included, because data written with them may still be read.
        """
        return self._contents.get(schema_id)

    def contents(self) -> list[Content]:
        """Every schema that has an id, soft-deleted ones included."""
        return list(self._contents.values())

    def id_of(self, content: Content) -> int | None:
        """The id of a content, under any subject."""
        return self._ids.get(content)

    def versions_with_id(self, schema_id: int, *, deleted: bool = False) -> list[SchemaVersion]:
        """The versions that have this schema id, by subject."""
        found = (self._versions[name][number] for name, number in self._places.get(schema_id, ()))
        return sorted(
            (one for one in found if deleted or not one.deleted),
            key=lambda one: (one.subject, one.version),
        )

    def referrers(self, place: VersionKey, *, deleted: bool = False) -> list[SchemaVersion]:
        """The versions that refer to this one."""
        found = (self._versions[name][number] for name, number in self._referrers.get(place, ()))
        return sorted(
            (one for one in found if deleted or not one.deleted),
            key=lambda one: (one.id, one.subject, one.version),
        )

    def referenced(self, reference: Reference) -> Content | None:
        """The content that a reference denotes, even if it has been soft-deleted."""
        found = self.version(reference.subject, reference.version, deleted=True)
        return None if found is None else found.content

    def all_versions(self, *, deleted: bool = False) -> Iterator[SchemaVersion]:
        """All versions of all subjects, by subject."""
        for subject in self.subjects(deleted=True):
            yield from self.versions(subject, deleted=deleted)

    def config(self, subject: str | None) -> dict[str, object] | None:
        """The settings of a subject, or the global ones; None if there are none."""
        return self._configs.get(subject)

    def setting(self, subject: str | None, name: str) -> object | None:
        """A setting that applies to a subject: its own, or the global one."""
        for scope in (subject, None):
            value = self._configs.get(scope, {}).get(name)
            if value is not None:
                return value
        return None

    def level(self, subject: str | None) -> str:
        """The compatibility level that applies to a subject."""
        return str(self.setting(subject, "compatibilityLevel") or DEFAULT_LEVEL)

    def own_mode(self, subject: str | None) -> str | None:
        """The mode set on a subject, or globally; None if none is set."""
        return self._modes.get(subject)

    def mode(self, subject: str | None) -> str:
        """The mode that applies to a subject."""
        of_all = self._modes.get(None, READWRITE)
        return of_all if of_all == READONLY_OVERRIDE else self._modes.get(subject, of_all)

    def snapshot(self) -> tuple[object, ...]:
        """The whole state as a comparable value."""
        return (
            tuple(self.all_versions(deleted=True)),
            sorted(self._configs.items(), key=str),
            sorted(self._modes.items(), key=str),
            self.highest_id,
        )


def _set(settings: dict[str | None, Value], subject: str | None, value: Value | None) -> None:
    if value is None:
        settings.pop(subject, None)
    else:
        settings[subject] = value
