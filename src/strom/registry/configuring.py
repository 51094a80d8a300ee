"""Compatibility and mode, per subject and global (subject None)."""

from collections.abc import Mapping
from typing import Any

from strom.registry.compatibility import CompatibilityLevel
from strom.registry.records import (
    ConfigSet,
    Entry,
    HighestId,
    ModeSet,
    SchemaTombstone,
    StateChange,
    SubjectCleared,
)
from strom.registry.refusals import (
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
) -> StateChange[dict[str, Any]]:
    """Update the given settings and keep the others; responds with what was given."""
    changed: dict[str, Any] = {}
    if given.get("compatibility") is not None:
        changed["compatibilityLevel"] = str(given["compatibility"]).upper()
        if changed["compatibilityLevel"] not in list(CompatibilityLevel):
            invalid_level()
    if given.get("normalize") is not None:
        changed["normalize"] = bool(given["normalize"])
    if subjects.mode(subject) in READONLY_MODES:
        not_permitted(f"{_scope_name(subject)} is in read-only mode.")
    settings = (subjects.config(subject) or {}) | changed
    response = {
        ("compatibility" if k == "compatibilityLevel" else k): v for k, v in changed.items()
    }
    return StateChange([ConfigSet(subject, settings)], response)


def delete_config(subjects: Subjects, subject: str | None) -> StateChange[dict[str, Any]]:
    """Remove the settings, so that the default applies again; responds with the removed settings."""
    config = subjects.config(subject)
    if config is None:
        if subject is not None:
            subject_not_found(subject)
        return StateChange([], {"compatibilityLevel": DEFAULT_LEVEL})
    if subjects.mode(subject) in READONLY_MODES:
        not_permitted(f"{_scope_name(subject)} is in read-only mode.")
    return StateChange([ConfigSet(subject, None)], shown_config(config))


def shown_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as the REST interface shows them."""
    return {name: value for name, value in config.items() if value is not None}


def set_mode(
    subjects: Subjects, subject: str | None, mode: str, *, force: bool = False
) -> StateChange[dict[str, str]]:
    """Set the mode.

    IMPORT needs an empty subject (or registry), because imported schemas bring their ids.
    """
    mode = mode.upper()
    if mode not in MODES:
        invalid_mode()
    entries: list[Entry] = []
    if mode == IMPORT and subjects.mode(subject) != IMPORT and not force:
        entries = _clear_soft_deleted(subjects, subject)
    return StateChange([*entries, ModeSet(subject, mode)], {"mode": mode})


def delete_mode(subjects: Subjects, subject: str | None) -> StateChange[dict[str, str]]:
    """Remove the mode, so that the global mode or the default applies again.

    Responds with the removed one.
    """
    mode = subjects.own_mode(subject)
    if mode is None:
        if subject is not None:
            subject_not_found(subject)
        return StateChange([], {"mode": subjects.mode(None)})
    return StateChange([ModeSet(subject, None)], {"mode": mode})


def _clear_soft_deleted(subjects: Subjects, subject: str | None) -> list[Entry]:
    names = subjects.subjects(deleted=True) if subject is None else [subject]
    if any(subjects.versions(name) for name in names):
        not_permitted("Cannot switch to import mode: there are schemas already.")
    gone = [one for name in names for one in subjects.versions(name, deleted=True)]
    if not gone:
        return []
    for one in gone:
        if subjects.referrers((one.subject, one.version), deleted=True):
            still_referenced(one.subject, one.version)
    return [
        *(SchemaTombstone(one.subject, one.version) for one in gone),
        HighestId(subjects.highest_id),
        SubjectCleared(subject),
    ]


def _scope_name(subject: str | None) -> str:
    return "The registry" if subject is None else f"Subject '{subject}'"
