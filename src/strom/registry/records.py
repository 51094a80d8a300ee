"""The records of the topic `_schemas`, with keys byte for byte as Confluent's registry writes them.

Compaction compares keys, so equal bytes let Confluent's registry continue with a topic of ours, and ours
with one of theirs. Records of unknown types are ignored.

    SCHEMA          one version of a subject; a tombstone deletes it permanently
    DELETE_SUBJECT  all versions of a subject up to one are soft-deleted
    CLEAR_SUBJECT   the soft-deleted versions of a subject, or of all, are dropped
    CONFIG, MODE    of a subject, or global; a tombstone restores the default
    NOOP            Confluent's marker for having read to the end. Ours carries the highest id assigned so
                    far: compaction removes permanently deleted schemas, but their ids are not reused
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from strom.registry.formats.schema import Reference, SchemaType


class TopicRecord(NamedTuple):
    """The key and value of a record; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Content:
    """What identifies a schema: equal contents share one id."""

    kind: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    contract: str = ""
    """Metadata and rules of a data contract, stored as received: JSON, or empty."""


@dataclass(frozen=True)
class SchemaVersion:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    content: Content
    deleted: bool = False


@dataclass(frozen=True)
class SchemaTombstone:
    """A permanently deleted version."""

    subject: str
    version: int


@dataclass(frozen=True)
class SubjectDeleted:
    """All versions up to this one are soft-deleted."""

    subject: str
    version: int


@dataclass(frozen=True)
class SubjectCleared:
    """Drops the soft-deleted versions, of all subjects if none is named."""

    subject: str | None


@dataclass(frozen=True)
class ConfigSet:
    """Compatibility and other settings of a subject, or global; None restores the default."""

    subject: str | None
    settings: Mapping[str, Any] | None = field(hash=False)


@dataclass(frozen=True)
class ModeSet:
    """The mode of a subject, or global; None restores the default."""

    subject: str | None
    mode: str | None


@dataclass(frozen=True)
class HighestId:
    """No id up to this one may be assigned again."""

    id: int


Entry = (
    SchemaVersion
    | SchemaTombstone
    | SubjectDeleted
    | SubjectCleared
    | ConfigSet
    | ModeSet
    | HighestId
)

Response = TypeVar("Response", covariant=True)


class StateChange(NamedTuple, Generic[Response]):
    """The decision on a request: the entries to write, and the response once they are durable."""

    entries: list[Entry]
    response: Response


def encode(entry: Entry) -> TopicRecord:
    """The record of an entry."""
    match entry:
        case SchemaVersion(subject, version):
            return _record("SCHEMA", subject, _schema_value(entry), version)
        case SchemaTombstone(subject, version):
            return _record("SCHEMA", subject, None, version)
        case SubjectDeleted(subject, version):
            return _record("DELETE_SUBJECT", subject, {"subject": subject, "version": version})
        case SubjectCleared(subject):
            return _record("CLEAR_SUBJECT", subject, _with_subject(subject))
        case ConfigSet(subject, settings):
            value = None if settings is None else {**_with_subject(subject), **settings}
            return _record("CONFIG", subject, value)
        case ModeSet(subject, mode):
            value = None if mode is None else {**_with_subject(subject), "mode": mode}
            return _record("MODE", subject, value)
        case HighestId(schema_id):
            return _record("NOOP", None, {"maxId": schema_id})


def decode(record: TopicRecord) -> Entry | None:
    """The entry of a record; None if its type is unknown."""
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
            return SchemaTombstone(str(subject), int(key["version"]))
        case "SCHEMA" if value is not None:
            return _schema_version(str(subject), int(key["version"]), value)
        case "DELETE_SUBJECT" if value is not None:
            return SubjectDeleted(str(subject), int(value["version"]))
        case "CLEAR_SUBJECT" if value is not None:
            return SubjectCleared(subject)
        case "CONFIG":
            return ConfigSet(subject, None if value is None else _without_subject(value))
        case "MODE":
            return ModeSet(subject, None if value is None else str(value["mode"]))
        case "NOOP" if value is not None:
            return HighestId(int(value["maxId"]))
    return None


def _record(
    keytype: str, subject: str | None, value: Mapping[str, Any] | None, version: int | None = None
) -> TopicRecord:
    key: dict[str, Any] = {"keytype": keytype, **_with_subject(subject)}
    if version is not None:
        key["version"] = version
    key["magic"] = 1 if keytype == "SCHEMA" else 0
    return TopicRecord(to_json_bytes(key), None if value is None else to_json_bytes(value))


def to_json_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _with_subject(subject: str | None) -> dict[str, Any]:
    return {} if subject is None else {"subject": subject}


def _without_subject(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if name != "subject"}


def _schema_value(entry: SchemaVersion) -> dict[str, Any]:
    place = {"subject": entry.subject, "version": entry.version, "id": entry.id}
    return {**place, **content_to_json(entry.content), "deleted": entry.deleted}


def _schema_version(subject: str, version: int, value: dict[str, Any]) -> SchemaVersion:
    return SchemaVersion(
        subject, version, int(value["id"]), content_of(value), bool(value.get("deleted"))
    )


def content_of(value: Mapping[str, Any]) -> Content:
    """The content in the JSON object of a record or a request."""
    contract = {name: value[name] for name in ("metadata", "ruleSet") if value.get(name)}
    return Content(
        SchemaType(value.get("schemaType") or "AVRO"),
        str(value["schema"]),
        tuple(
            Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in value.get("references") or ()
        ),
        json.dumps(contract, ensure_ascii=False, sort_keys=True) if contract else "",
    )


def content_to_json(content: Content) -> dict[str, Any]:
    """The JSON object of a content, in records and responses; AVRO is the default of `schemaType`."""
    fields: dict[str, Any] = {}
    if content.kind is not SchemaType.AVRO:
        fields["schemaType"] = content.kind.value
    if content.references:
        fields["references"] = [reference._asdict() for reference in content.references]
    if content.contract:
        fields |= json.loads(content.contract)
    return {**fields, "schema": content.text}
