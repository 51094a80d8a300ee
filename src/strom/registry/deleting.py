"""Deletes versions and subjects: first softly (hidden, but still readable by id), then permanently."""

from dataclasses import replace

from strom.registry.records import (
    ConfigSet,
    Entry,
    HighestId,
    ModeSet,
    SchemaTombstone,
    SchemaVersion,
    StateChange,
    SubjectDeleted,
)
from strom.registry.refusals import (
    read_only,
    still_referenced,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from strom.registry.registering import READONLY_MODES
from strom.registry.subjects import LATEST, Subjects


def delete_version(
    subjects: Subjects, subject: str, version: int, *, permanent: bool
) -> StateChange[int]:
    """Delete one version, or the latest; responds with its number."""
    # Deleted ones are found too, but the latest is a deleted one only if no other is left.
    deleted = version != LATEST or subjects.latest(subject) is None
    entry = existing_version(subjects, subject, version, deleted=deleted)
    if entry.deleted and not permanent:
        version_soft_deleted(subject, entry.version)
    _check_mode(subjects, subject)
    if subjects.referrers((subject, entry.version), deleted=permanent):
        still_referenced(subject, entry.version)
    if not permanent:
        return StateChange([replace(entry, deleted=True)], entry.version)
    if not entry.deleted:
        version_not_soft_deleted(subject, entry.version)
    entries: list[Entry] = [SchemaTombstone(subject, entry.version), HighestId(subjects.highest_id)]
    if len(subjects.versions(subject, deleted=True)) == 1:
        entries += _settings_removed(subjects, subject)
    return StateChange(entries, entry.version)


def delete_subject(subjects: Subjects, subject: str, *, permanent: bool) -> StateChange[list[int]]:
    """Delete all versions of a subject; responds with their numbers."""
    all_versions = subjects.versions(subject, deleted=True)
    if not all_versions:
        subject_not_found(subject)
    gone = all_versions if permanent else subjects.versions(subject)
    if not gone:
        subject_soft_deleted(subject)
    _check_mode(subjects, subject)
    for one in gone:
        if _is_referenced(subjects, one, deleted=permanent):
            still_referenced(subject, one.version)
        if permanent and not one.deleted:
            subject_not_soft_deleted(subject)
    numbers = [one.version for one in gone]
    if not permanent:
        # Up to the highest version, deleted ones included: this record replaces an earlier
        # DELETE_SUBJECT record with the same key, which may cover later versions.
        return StateChange([SubjectDeleted(subject, all_versions[-1].version)], numbers)
    # Newest first, because versions may refer to earlier ones of the same subject.
    entries: list[Entry] = [SchemaTombstone(subject, number) for number in reversed(numbers)]
    entries += [HighestId(subjects.highest_id), *_settings_removed(subjects, subject)]
    return StateChange(entries, numbers)


def existing_version(
    subjects: Subjects, subject: str, version: int, *, deleted: bool
) -> SchemaVersion:
    """The version, or RestError that names what does not exist: the subject or the version."""
    if version == LATEST:
        found = subjects.latest(subject, deleted=deleted)
    else:
        found = subjects.version(subject, version, deleted=deleted)
    if found is None:
        if not subjects.versions(subject, deleted=deleted):
            subject_not_found(subject)
        version_not_found(version)
    return found


def _is_referenced(subjects: Subjects, entry: SchemaVersion, *, deleted: bool) -> bool:
    referrers = subjects.referrers((entry.subject, entry.version), deleted=deleted)
    return any(one.subject != entry.subject for one in referrers)


def _check_mode(subjects: Subjects, subject: str) -> None:
    if subjects.mode(subject) in READONLY_MODES:
        read_only(subject)


def _settings_removed(subjects: Subjects, subject: str) -> list[Entry]:
    entries: list[Entry] = []
    if subjects.own_mode(subject) is not None:
        entries.append(ModeSet(subject, None))
    if subjects.config(subject) is not None:
        entries.append(ConfigSet(subject, None))
    return entries
