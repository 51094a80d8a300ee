"""The records of share partitions, and their bytes in `__share_group_state`.

A snapshot holds the whole state of a partition, an update only changes. So the topic cannot be
compacted by key; records before the oldest needed snapshot are deleted instead. The bytes are Kafka's.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from strom.coordination.groups.share.partitions.ranges import RecordState, StateBatch
from strom.model.errors import CorruptData, ProtocolError
from strom.wire.kafka import share_state_topic as stored
from strom.wire.kafka.codec import decode as decode_struct
from strom.wire.kafka.codec import encode as encode_struct
from strom.wire.kafka.offsets_topic import version_of
from strom.wire.kafka.schema import Struct, Uuid


class ShareKey(NamedTuple):
    """A share partition: a partition within a share group."""

    group: str
    topic_id: Uuid
    partition: int


@dataclass(frozen=True, kw_only=True)
class ShareSnapshot:
    """The whole state of a share partition."""

    key: ShareKey
    snapshot_epoch: int
    state_epoch: int
    """Bumped by every reset of the partition, to fence stale updates."""
    leader_epoch: int
    start_offset: int
    finished_count: int
    created_ms: int
    written_ms: int
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ShareUpdate:
    """What has changed since the snapshot of that epoch."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    finished_count: int
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True)
class ShareStateDeleted:
    key: ShareKey


ShareRecord: TypeAlias = ShareSnapshot | ShareUpdate | ShareStateDeleted


def encode(record: ShareRecord) -> tuple[bytes, bytes | None]:
    match record:
        case ShareSnapshot():
            value: Struct = stored.SnapshotValue(
                snapshot_epoch=record.snapshot_epoch,
                state_epoch=record.state_epoch,
                leader_epoch=record.leader_epoch,
                start_offset=record.start_offset,
                delivery_complete_count=record.finished_count,
                create_timestamp=record.created_ms,
                write_timestamp=record.written_ms,
                state_batches=[_stored(batch) for batch in record.batches],
            )
            return _key(record.key, stored.SNAPSHOT_KEY), _value(value)
        case ShareUpdate():
            value = stored.UpdateValue(
                snapshot_epoch=record.snapshot_epoch,
                leader_epoch=record.leader_epoch,
                start_offset=record.start_offset,
                delivery_complete_count=record.finished_count,
                state_batches=[_stored(batch) for batch in record.batches],
            )
            return _key(record.key, stored.UPDATE_KEY), _value(value)
        case ShareStateDeleted():
            return _key(record.key, stored.SNAPSHOT_KEY), None


def decode(key: bytes | None, value: bytes | None) -> ShareRecord | None:
    """The record for a key and a value; None for an unknown type."""
    try:
        kind = version_of(key or b"")
        if kind not in (stored.SNAPSHOT_KEY, stored.UPDATE_KEY):
            return None
        named = decode_struct(stored.StateKey, 0, memoryview(key or b""), 2)
        share_key = ShareKey(named.group_id, named.topic_id, named.partition)
        if value is None:
            return ShareStateDeleted(share_key) if kind == stored.SNAPSHOT_KEY else None
        if kind == stored.SNAPSHOT_KEY:
            return _snapshot(share_key, value)
        return _update(share_key, value)
    except (ProtocolError, ValueError) as error:
        raise CorruptData(f"unreadable record of a share group {key!r}: {error}") from error


def _snapshot(key: ShareKey, value: bytes) -> ShareSnapshot:
    found = decode_struct(stored.SnapshotValue, version_of(value), memoryview(value), 2)
    return ShareSnapshot(
        key=key,
        snapshot_epoch=found.snapshot_epoch,
        state_epoch=found.state_epoch,
        leader_epoch=found.leader_epoch,
        start_offset=found.start_offset,
        finished_count=found.delivery_complete_count,
        created_ms=found.create_timestamp,
        written_ms=found.write_timestamp,
        batches=_batches(found.state_batches),
    )


def _update(key: ShareKey, value: bytes) -> ShareUpdate:
    found = decode_struct(stored.UpdateValue, version_of(value), memoryview(value), 2)
    return ShareUpdate(
        key=key,
        snapshot_epoch=found.snapshot_epoch,
        leader_epoch=found.leader_epoch,
        start_offset=found.start_offset,
        finished_count=found.delivery_complete_count,
        batches=_batches(found.state_batches),
    )


def _key(key: ShareKey, kind: int) -> bytes:
    named = stored.StateKey(group_id=key.group, topic_id=key.topic_id, partition=key.partition)
    return kind.to_bytes(2, "big") + encode_struct(named, 0)


def _value(value: Struct) -> bytes:
    version = stored.VALUE_VERSION
    return version.to_bytes(2, "big") + encode_struct(value, version)


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
