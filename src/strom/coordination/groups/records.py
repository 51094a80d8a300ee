"""The records of classic groups and of offsets, and their bytes in `__consumer_offsets`.

Each record holds the whole state for its key, so that the topic can be compacted. The bytes are
Kafka's, so that its tools can read them.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from strom.coordination.stored_records import decode_key, decode_value, encode_key, encode_value
from strom.model.topics import TopicPartition
from strom.wire.kafka import offsets_topic as stored
from strom.wire.kafka.schema import NO_UUID, Uuid

NO_LEADER_EPOCH = -1


class MemberMetadata(NamedTuple):
    id: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, kw_only=True)
class GroupMetadata:
    """A group with the assignments of a generation; without members it is an empty group."""

    group: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    """When it entered its state."""
    members: tuple[MemberMetadata, ...] = ()


@dataclass(frozen=True)
class GroupDeleted:
    group: str


@dataclass(frozen=True, kw_only=True)
class CommittedOffset:
    """A committed offset: the next one to read."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    committed_ms: int
    expires_ms: int | None = None
    """Set only by OffsetCommit before version 5, where clients chose the retention."""
    topic_id: Uuid = NO_UUID
    """So that a recreated topic does not inherit the offset."""


@dataclass(frozen=True)
class OffsetCommitted:
    group: str
    partition: TopicPartition
    offset: CommittedOffset


@dataclass(frozen=True)
class OffsetDeleted:
    group: str
    partition: TopicPartition


class GroupRecord(Protocol):
    """Any record of a group, also those of the group types (see `log_format.py`)."""

    @property
    def group(self) -> str: ...


ClassicRecord: TypeAlias = GroupMetadata | GroupDeleted | OffsetCommitted | OffsetDeleted

KEY_VERSIONS = (*stored.OFFSET_KEY_VERSIONS, stored.GROUP_KEY_VERSION)

_OFFSET_KEY_PREFIXES = frozenset(
    version.to_bytes(2, "big") for version in stored.OFFSET_KEY_VERSIONS
)


def encode(record: ClassicRecord) -> tuple[bytes, bytes | None]:
    match record:
        case GroupMetadata():
            return _group_key(record.group), _group_value(record)
        case GroupDeleted():
            return _group_key(record.group), None
        case OffsetCommitted():
            return _offset_key(record.group, record.partition), _offset_value(record.offset)
        case OffsetDeleted():
            return _offset_key(record.group, record.partition), None


def decode(version: int, key: bytes, value: bytes | None) -> ClassicRecord:
    """The record for a key of that version, and a value; ProtocolError if they are malformed."""
    if version == stored.GROUP_KEY_VERSION:
        return _decode_group(key, value)
    return _decode_offset(key, version, value)


def is_offset_key(key: bytes) -> bool:
    """Whether a key is that of a committed offset."""
    return key[:2] in _OFFSET_KEY_PREFIXES


def _group_key(group: str) -> bytes:
    version = stored.GROUP_KEY_VERSION
    return encode_key(version, stored.GroupKey(group=group), version)


def _offset_key(group: str, partition: TopicPartition) -> bytes:
    key = stored.OffsetKey(group=group, topic=partition.topic, partition=partition.partition)
    return encode_key(stored.OFFSET_KEY_VERSION, key, stored.OFFSET_KEY_VERSION)


def _group_value(record: GroupMetadata) -> bytes:
    value = stored.GroupValue(
        protocol_type=record.protocol_type,
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader,
        current_state_timestamp=record.since_ms,
        members=[
            stored.GroupValueMember(
                member_id=member.id,
                group_instance_id=member.instance,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in record.members
        ],
    )
    return encode_value(value, stored.GROUP_VALUE_VERSION)


def _offset_value(committed: CommittedOffset) -> bytes:
    value = stored.OffsetValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_ms,
        expire_timestamp=-1 if committed.expires_ms is None else committed.expires_ms,
        topic_id=committed.topic_id,
    )
    if committed.expires_ms is not None:
        return encode_value(value, stored.OFFSET_VALUE_VERSION_WITH_EXPIRY)
    return encode_value(value, stored.OFFSET_VALUE_VERSION)


def _decode_group(key: bytes, value: bytes | None) -> ClassicRecord:
    group = decode_key(stored.GroupKey, key, stored.GROUP_KEY_VERSION).group
    if value is None:
        return GroupDeleted(group)
    found = decode_value(stored.GroupValue, value)
    return GroupMetadata(
        group=group,
        protocol_type=found.protocol_type,
        generation=found.generation,
        protocol=found.protocol,
        leader=found.leader,
        since_ms=found.current_state_timestamp,
        members=tuple(
            MemberMetadata(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                # Version 0 has no rebalance timeout.
                member.session_timeout
                if member.rebalance_timeout < 0
                else member.rebalance_timeout,
                member.session_timeout,
                member.subscription,
                member.assignment,
            )
            for member in found.members
        ),
    )


def _decode_offset(key: bytes, version: int, value: bytes | None) -> ClassicRecord:
    named = decode_key(stored.OffsetKey, key, version)
    partition = TopicPartition(named.topic, named.partition)
    if value is None:
        return OffsetDeleted(named.group, partition)
    found = decode_value(stored.OffsetValue, value)
    committed = CommittedOffset(
        offset=found.offset,
        leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        committed_ms=found.commit_timestamp,
        expires_ms=found.expire_timestamp if found.expire_timestamp >= 0 else None,
        topic_id=found.topic_id,
    )
    return OffsetCommitted(named.group, partition, committed)
