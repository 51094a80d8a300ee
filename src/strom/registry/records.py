"""The records of the topic `_schemas`, byte for byte as Confluent's registry writes their keys.

Keys must be equal for compaction to find them, so that a registry of Confluent's can go on with a topic
of ours, and ours with one of theirs. What a record says that is not understood here is left alone.

    SCHEMA          one version of a subject; without a value it is gone for good
    DELETE_SUBJECT  all versions of a subject up to one are soft-deleted
    CLEAR_SUBJECT   what is soft-deleted of a subject, or of all, is forgotten
    CONFIG, MODE    of a subject or of all; without a value the default holds again
    NOOP            Confluent's mark of having read to the end. Ours carries the highest id ever given:
                    what was deleted for good disappears by compaction, and its id may not be given again
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from strom.registry.formats.schema import Kind, Reference


class Record(NamedTuple):
    """A key and a value, or none, as bytes."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Content:
    """What makes two schemas the same: they have one id."""

    kind: Kind
    text: str
    references: tuple[Reference, ...] = ()
    contract: str = ""
    """Metadata and rules of a data contract, which are kept as they came: JSON, or nothing."""


@dataclass(frozen=True)
class SchemaVersion:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    content: Content
    deleted: bool = False


@dataclass(frozen=True)
class SchemaGone:
    """A version that was deleted for good."""

    subject: str
    version: int


@dataclass(frozen=True)
class SubjectDeleted:
    """All versions up to this one are soft-deleted."""

    subject: str
    version: int


@dataclass(frozen=True)
class SubjectCleared:
    """Soft-deleted versions are forgotten; of all subjects, if none is named."""

    subject: str | None


@dataclass(frozen=True)
class Configured:
    """Compatibility and the like of a subject, or of all; no settings: the default holds again."""

    subject: str | None
    settings: Mapping[str, Any] | None = field(hash=False)


@dataclass(frozen=True)
class ModeSet:
    """What may be done to a subject, or to all; no mode: the default holds again."""

    subject: str | None
    mode: str | None


@dataclass(frozen=True)
class HighestId:
    """No id up to this one may be given again."""

    id: int


Entry = (
    SchemaVersion | SchemaGone | SubjectDeleted | SubjectCleared | Configured | ModeSet | HighestId
)


def encode(entry: Entry) -> Record:
    """An entry as the record that is written."""
    match entry:
        case SchemaVersion(subject, version):
            return _record("SCHEMA", subject, _schema_value(entry), version)
        case SchemaGone(subject, version):
            return _record("SCHEMA", subject, None, version)
        case SubjectDeleted(subject, version):
            return _record("DELETE_SUBJECT", subject, {"subject": subject, "version": version})
        case SubjectCleared(subject):
            return _record("CLEAR_SUBJECT", subject, _with_subject(subject))
        case Configured(subject, settings):
            value = None if settings is None else {**_with_subject(subject), **settings}
            return _record("CONFIG", subject, value)
        case ModeSet(subject, mode):
            value = None if mode is None else {**_with_subject(subject), "mode": mode}
            return _record("MODE", subject, value)
        case HighestId(schema_id):
            return _record("NOOP", None, {"maxId": schema_id})


def decode(record: Record) -> Entry | None:
    """The entry that a record holds; None for what is not understood."""
    try:
        key = json.loads(record.key)
        value = None if record.value is None else json.loads(record.value)
        if not isinstance(key, dict) or not isinstance(value, dict | None):
            return None
        return _decode(key, value)
    except (ValueError, KeyError, TypeError):
        return None


def _decode(key: dict[str, Any], value: dict[str, Any] | None) -> Entry | None:
    subject = key.get("subject")
    match key["keytype"]:
        case "SCHEMA" if value is None:
            return SchemaGone(str(subject), int(key["version"]))
        case "SCHEMA" if value is not None:
            return _schema_version(str(subject), int(key["version"]), value)
        case "DELETE_SUBJECT" if value is not None:
            return SubjectDeleted(str(subject), int(value["version"]))
        case "CLEAR_SUBJECT" if value is not None:
            return SubjectCleared(subject)
        case "CONFIG":
            return Configured(subject, None if value is None else _without_subject(value))
        case "MODE":
            return ModeSet(subject, None if value is None else str(value["mode"]))
        case "NOOP" if value is not None:
            return HighestId(int(value["maxId"]))
    return None


def _record(
    keytype: str, subject: str | None, value: Mapping[str, Any] | None, version: int | None = None
) -> Record:
    key: dict[str, Any] = {"keytype": keytype, **_with_subject(subject)}
    if version is not None:
        key["version"] = version
    key["magic"] = 1 if keytype == "SCHEMA" else 0
    return Record(_bytes(key), None if value is None else _bytes(value))


def _bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _with_subject(subject: str | None) -> dict[str, Any]:
    return {} if subject is None else {"subject": subject}


def _without_subject(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if name != "subject"}


def _schema_value(entry: SchemaVersion) -> dict[str, Any]:
    content = entry.content
    value: dict[str, Any] = {"subject": entry.subject, "version": entry.version, "id": entry.id}
    if content.kind is not Kind.AVRO:
        value["schemaType"] = content.kind.value
    if content.references:
        value["references"] = [reference._asdict() for reference in content.references]
    if content.contract:
        value |= json.loads(content.contract)
    return {**value, "schema": content.text, "deleted": entry.deleted}


def _schema_version(subject: str, version: int, value: dict[str, Any]) -> SchemaVersion:
    return SchemaVersion(
        subject, version, int(value["id"]), content_of(value), bool(value.get("deleted"))
    )


def content_of(value: Mapping[str, Any]) -> Content:
    """The content that a JSON object of a record or of a request describes."""
    contract = {name: value[name] for name in ("metadata", "ruleSet") if value.get(name)}
    return Content(
        Kind(value.get("schemaType") or "AVRO"),
        str(value["schema"]),
        tuple(
            Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in value.get("references") or ()
        ),
        json.dumps(contract, ensure_ascii=False, sort_keys=True) if contract else "",
    )
