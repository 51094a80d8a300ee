"""The records of share groups, and their bytes in `__consumer_offsets`; None is a tombstone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from strom.wire.kafka import share_group_records as stored
from strom.wire.kafka.codec import decode as decode_struct
from strom.wire.kafka.codec import encode as encode_struct
from strom.wire.kafka.offsets_topic import version_of
from strom.wire.kafka.schema import Struct, Uuid

S = TypeVar("S", bound=Struct)

STABLE = 0
"""The only state of a member in Kafka."""

Partitions: TypeAlias = Mapping[Uuid, tuple[int, ...]]
"""Partitions by the id of their topic."""


@dataclass(frozen=True)
class ShareMemberSubscription:
    """The subscription of a member; None if it was removed."""

    group: str
    member: str
    subscription: "ShareSubscription | None"


class ShareSubscription(NamedTuple):
    """The subscription and client metadata of a member."""

    rack: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class ShareGroupEpoch:
    """The epoch of a group, bumped by every change of members or topics; None: deleted."""

    group: str
    epoch: int | None
    topics_hash: int = 0


@dataclass(frozen=True)
class ShareTargetEpoch:
    """The epoch of the target assignment."""

    group: str
    epoch: int | None
    assigned_ms: int = 0


@dataclass(frozen=True)
class ShareTarget:
    group: str
    member: str
    partitions: Partitions | None


class MemberAssignment(NamedTuple):
    """The current assignment of a member: its epoch, the previous one, and its partitions."""

    epoch: int
    previous_epoch: int
    partitions: Partitions


@dataclass(frozen=True)
class ShareCurrent:
    group: str
    member: str
    assigned: MemberAssignment | None


class KnownTopic(NamedTuple):
    """A topic for which the group has share state."""

    name: str
    id: Uuid
    partitions: int


@dataclass(frozen=True)
class ShareTopics:
    """The topics for which a group has share state."""

    group: str
    topics: tuple[KnownTopic, ...] | None


ShareGroupRecord: TypeAlias = (
    ShareMemberSubscription
    | ShareGroupEpoch
    | ShareTargetEpoch
    | ShareTarget
    | ShareCurrent
    | ShareTopics
)

RECORDS = (
    ShareMemberSubscription,
    ShareGroupEpoch,
    ShareTargetEpoch,
    ShareTarget,
    ShareCurrent,
    ShareTopics,
)
KEY_VERSIONS = (
    stored.MEMBER_KEY,
    stored.GROUP_KEY,
    stored.TARGET_KEY,
    stored.TARGET_MEMBER_KEY,
    stored.CURRENT_KEY,
    stored.STATE_KEY,
)


def encode(record: ShareGroupRecord) -> tuple[bytes, bytes | None]:
    match record:
        case ShareMemberSubscription():
            value = record.subscription and _said_value(record.subscription)
            return _member_key(record.group, record.member, stored.MEMBER_KEY), _value(value)
        case ShareGroupEpoch():
            value = None
            if record.epoch is not None:
                value = stored.ShareGroupValue(epoch=record.epoch, metadata_hash=record.topics_hash)
            return _group_key(record.group, stored.GROUP_KEY), _value(value)
        case ShareTargetEpoch():
            value = None
            if record.epoch is not None:
                value = stored.ShareTargetValue(
                    assignment_epoch=record.epoch, assignment_timestamp=record.assigned_ms
                )
            return _group_key(record.group, stored.TARGET_KEY), _value(value)
        case ShareTarget():
            value = None
            if record.partitions is not None:
                value = stored.ShareTargetMemberValue(topic_partitions=_stored(record.partitions))
            return _member_key(record.group, record.member, stored.TARGET_MEMBER_KEY), _value(value)
        case ShareCurrent():
            value = record.assigned and _assigned_value(record.assigned)
            return _member_key(record.group, record.member, stored.CURRENT_KEY), _value(value)
        case ShareTopics():
            value = None if record.topics is None else _topics_value(record.topics)
            return _group_key(record.group, stored.STATE_KEY), _value(value)


def decode(version: int, key: bytes, value: bytes | None) -> ShareGroupRecord:
    """The record for a key of that version, and a value; ProtocolError if they are malformed."""
    if version in (stored.MEMBER_KEY, stored.TARGET_MEMBER_KEY, stored.CURRENT_KEY):
        named = decode_struct(stored.ShareMemberKey, 0, memoryview(key), 2)
        return _decode_of_member(version, named.group_id, named.member_id, value)
    group = decode_struct(stored.ShareGroupKey, 0, memoryview(key), 2).group_id
    return _decode_of_group(version, group, value)


def _decode_of_member(
    version: int, group: str, member: str, value: bytes | None
) -> ShareGroupRecord:
    if version == stored.MEMBER_KEY:
        if value is None:
            return ShareMemberSubscription(group, member, None)
        subscription = _read(stored.ShareMemberValue, value)
        topics = tuple(subscription.subscribed_topic_names)
        introduction = ShareSubscription(
            subscription.rack_id, subscription.client_id, subscription.client_host, topics
        )
        return ShareMemberSubscription(group, member, introduction)
    if version == stored.TARGET_MEMBER_KEY:
        if value is None:
            return ShareTarget(group, member, None)
        target = _read(stored.ShareTargetMemberValue, value)
        return ShareTarget(group, member, _partitions(target.topic_partitions))
    if value is None:
        return ShareCurrent(group, member, None)
    assigned = _read(stored.ShareCurrentValue, value)
    partitions = _partitions(assigned.assigned_partitions)
    return ShareCurrent(
        group,
        member,
        MemberAssignment(assigned.member_epoch, assigned.previous_member_epoch, partitions),
    )


def _decode_of_group(version: int, group: str, value: bytes | None) -> ShareGroupRecord:
    if version == stored.GROUP_KEY:
        if value is None:
            return ShareGroupEpoch(group, None)
        found = _read(stored.ShareGroupValue, value)
        return ShareGroupEpoch(group, found.epoch, found.metadata_hash)
    if version == stored.TARGET_KEY:
        if value is None:
            return ShareTargetEpoch(group, None)
        target = _read(stored.ShareTargetValue, value)
        return ShareTargetEpoch(group, target.assignment_epoch, target.assignment_timestamp)
    if value is None:
        return ShareTopics(group, None)
    topics = _read(stored.ShareStateValue, value)
    known = [*topics.initialized_topics, *topics.initializing_topics]
    return ShareTopics(
        group,
        tuple(
            KnownTopic(one.topic_name, one.topic_id, max(one.partitions, default=-1) + 1)
            for one in known
        ),
    )


def _read(kind: type[S], value: bytes) -> S:
    return decode_struct(kind, version_of(value), memoryview(value), 2)


def _group_key(group: str, kind: int) -> bytes:
    return kind.to_bytes(2, "big") + encode_struct(stored.ShareGroupKey(group_id=group), 0)


def _member_key(group: str, member: str, kind: int) -> bytes:
    key = stored.ShareMemberKey(group_id=group, member_id=member)
    return kind.to_bytes(2, "big") + encode_struct(key, 0)


def _value(value: Struct | None) -> bytes | None:
    if value is None:
        return None
    version = stored.VALUE_VERSION
    return version.to_bytes(2, "big") + encode_struct(value, version)


def _said_value(subscription: ShareSubscription) -> Struct:
    return stored.ShareMemberValue(
        rack_id=subscription.rack,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topics),
    )


def _assigned_value(assigned: MemberAssignment) -> Struct:
    return stored.ShareCurrentValue(
        member_epoch=assigned.epoch,
        previous_member_epoch=assigned.previous_epoch,
        state=STABLE,
        assigned_partitions=_stored(assigned.partitions),
    )


def _topics_value(topics: tuple[KnownTopic, ...]) -> Struct:
    return stored.ShareStateValue(
        initialized_topics=[
            stored.ShareStateTopic(
                topic_id=topic.id, topic_name=topic.name, partitions=list(range(topic.partitions))
            )
            for topic in topics
        ]
    )


def _stored(partitions: Partitions) -> list[stored.ShareTopicPartitions]:
    return [
        stored.ShareTopicPartitions(topic_id=topic_id, partitions=list(indexes))
        for topic_id, indexes in partitions.items()
    ]


def _partitions(found: list[stored.ShareTopicPartitions]) -> Partitions:
    return {one.topic_id: tuple(one.partitions) for one in found}
