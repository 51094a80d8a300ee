"""The records of share partitions, and their bytes in `__share_group_state`.

A snapshot holds the whole state of a partition, an update only changes. So the topic cannot be
compacted by key; records before the oldest needed snapshot are deleted instead. The bytes are Kafka's.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from strom.coordination.groups.share.partitions.ranges import RecordState, StateBatch
from strom.coordination.stored_records import decode_key, decode_value, encode_key, encode_value
from strom.model.errors import CorruptData, ProtocolError
from strom.wire.kafka import share_state_topic as stored
from strom.wire.kafka.offsets_topic import version_of
from strom.wire.kafka.schema import Uuid


class ShareKey(NamedTuple):
    """A share partition: a partition within a share group."""

    group: str
    topic_id: Uuid
    partition: int


@dataclass(frozen=True, kw_only=True)
class _ShareState:
    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    finished_count: int
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ShareSnapshot(_ShareState):
    """The whole state of a share partition."""

    state_epoch: int
    """Bumped by every reset of the partition, to fence stale updates."""
    created_ms: int
    written_ms: int


@dataclass(frozen=True, kw_only=True)
class ShareUpdate(_ShareState):
    """What has changed since the snapshot of that epoch."""


@dataclass(frozen=True)
class ShareStateDeleted:
    key: ShareKey


ShareRecord: TypeAlias = ShareSnapshot | ShareUpdate | ShareStateDeleted


def encode(record: ShareRecord) -> tuple[bytes, bytes | None]:
    named = stored.StateKey(
        group_id=record.key.group, topic_id=record.key.topic_id, partition=record.key.partition
    )
    if isinstance(record, ShareStateDeleted):
        return encode_key(stored.SNAPSHOT_KEY, named), None
    kind = stored.SNAPSHOT_KEY
    value: stored.SnapshotValue | stored.UpdateValue
    if isinstance(record, ShareSnapshot):
        value = stored.SnapshotValue(
            state_epoch=record.state_epoch,
            create_timestamp=record.created_ms,
            write_timestamp=record.written_ms,
        )
    else:
        kind, value = stored.UPDATE_KEY, stored.UpdateValue()
    value.snapshot_epoch = record.snapshot_epoch
    value.leader_epoch = record.leader_epoch
    value.start_offset = record.start_offset
    value.delivery_complete_count = record.finished_count
    value.state_batches = [_stored(batch) for batch in record.batches]
    return encode_key(kind, named), encode_value(value, stored.VALUE_VERSION)


def decode(key: bytes | None, value: bytes | None) -> ShareRecord | None:
    """The record for a key and a value; None for an unknown type."""
    try:
        kind = version_of(key or b"")
        if kind not in (stored.SNAPSHOT_KEY, stored.UPDATE_KEY):
            return None
        named = decode_key(stored.StateKey, key or b"")
        share_key = ShareKey(named.group_id, named.topic_id, named.partition)
        if value is None:
            return ShareStateDeleted(share_key) if kind == stored.SNAPSHOT_KEY else None
        if kind == stored.UPDATE_KEY:
            return ShareUpdate(**_common(share_key, decode_value(stored.UpdateValue, value)))
        found = decode_value(stored.SnapshotValue, value)
        return ShareSnapshot(
            **_common(share_key, found),
            state_epoch=found.state_epoch,
            created_ms=found.create_timestamp,
            written_ms=found.write_timestamp,
        )
    except (ProtocolError, ValueError) as error:
        raise CorruptData(f"unreadable record of a share group {key!r}: {error}") from error


def _common(key: ShareKey, found: stored.SnapshotValue | stored.UpdateValue) -> dict[str, Any]:
    return {
        "key": key,
        "snapshot_epoch": found.snapshot_epoch,
        "leader_epoch": found.leader_epoch,
        "start_offset": found.start_offset,
        "finished_count": found.delivery_complete_count,
        "batches": _batches(found.state_batches),
    }


def _stored(batch: StateBatch) -> stored.StateBatchValue:
    return stored.StateBatchValue(
        first_offset=batch.first,
        last_offset=batch.last,
        delivery_state=batch.state,
        delivery_count=batch.deliveries,
    )


def _batches(found: list[stored.StateBatchValue]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(
            one.first_offset,
            one.last_offset,
            RecordState(one.delivery_state),
            one.delivery_count,
        )
        for one in found
    )
