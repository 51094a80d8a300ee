"""Compatibility and mode, of single subjects and of all."""

from collections.abc import Mapping
from typing import Any

from strom.registry.changes import Change
from strom.registry.records import (
    Configured,
    Entry,
    HighestId,
    ModeSet,
    SchemaGone,
    SubjectCleared,
)
from strom.registry.refusals import (
    LEVELS,
    MODES,
    invalid_level,
    invalid_mode,
    not_permitted,
    still_referenced,
    subject_not_found,
)
from strom.registry.registering import READONLY_MODES
from strom.registry.subjects import DEFAULT_LEVEL, Subjects

IMPORT = "IMPORT"


def set_config(
    subjects: Subjects, subject: str | None, given: Mapping[str, Any]
) -> Change[dict[str, Any]]:
    """Change what is given and keep the rest; what was given comes back."""
    changed: dict[str, Any] = {}
    if given.get("compatibility") is not None:
        changed["compatibilityLevel"] = str(given["compatibility"]).upper()
        if changed["compatibilityLevel"] not in LEVELS:
            invalid_level()
    if given.get("normalize") is not None:
        changed["normalize"] = bool(given["normalize"])
    if subjects.mode(subject) in READONLY_MODES:
        not_permitted(f"{_named(subject)} is in read-only mode.")
    settings = (subjects.config(subject) or {}) | changed
    answer = {("compatibility" if k == "compatibilityLevel" else k): v for k, v in changed.items()}
    return Change([Configured(subject, settings)], answer)


def delete_config(subjects: Subjects, subject: str | None) -> Change[dict[str, Any]]:
    """Let the default hold again; what was set comes back."""
    config = subjects.config(subject)
    if config is None:
        if subject is not None:
            subject_not_found(subject)
        return Change([], {"compatibilityLevel": DEFAULT_LEVEL})
    if subjects.mode(subject) in READONLY_MODES:
        not_permitted(f"{_named(subject)} is in read-only mode.")
    return Change([Configured(subject, None)], shown_config(config))


def shown_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """What was set, as it is told."""
    return {name: value for name, value in config.items() if value is not None}


def set_mode(
    subjects: Subjects, subject: str | None, mode: str, *, force: bool = False
) -> Change[dict[str, str]]:
    """Say what may be done. Importing needs an empty place, for ids are brought along."""
    mode = mode.upper()
    if mode not in MODES:
        invalid_mode()
    entries: list[Entry] = []
    if mode == IMPORT and subjects.mode(subject) != IMPORT and not force:
        entries = _emptied(subjects, subject)
    return Change([*entries, ModeSet(subject, mode)], {"mode": mode})


def delete_mode(subjects: Subjects, subject: str | None) -> Change[dict[str, str]]:
    """Let the mode of all, or the default, hold again; the mode that was set comes back."""
    mode = subjects.own_mode(subject)
    if mode is None:
        if subject is not None:
            subject_not_found(subject)
        return Change([], {"mode": subjects.mode(None)})
    return Change([ModeSet(subject, None)], {"mode": mode})


def _emptied(subjects: Subjects, subject: str | None) -> list[Entry]:
    names = subjects.subjects(deleted=True) if subject is None else [subject]
    if any(subjects.versions(name) for name in names):
        not_permitted("Schemas cannot be imported where there are some already.")
    gone = [one for name in names for one in subjects.versions(name, deleted=True)]
    if not gone:
        return []
    for one in gone:
        if subjects.referrers((one.subject, one.version), deleted=True):
            still_referenced(one.subject, one.version)
    return [
        *(SchemaGone(one.subject, one.version) for one in gone),
        HighestId(subjects.highest_id),
        SubjectCleared(subject),
    ]


def _named(subject: str | None) -> str:
    return "The registry" if subject is None else f"Subject '{subject}'"
