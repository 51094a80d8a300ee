"""The records of consumer groups; a value of None is a tombstone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias, TypeVar

from strom.coordination.groups.consumer.values import (
    ClassicMetadata,
    CurrentAssignment,
    MemberState,
    Owned,
    Partitions,
    ResolvedPattern,
    Subscription,
    TopicIdPartition,
)
from strom.model.errors import ProtocolError
from strom.wire.kafka import consumer_group_topic as stored
from strom.wire.kafka.codec import decode as decode_struct
from strom.wire.kafka.codec import encode as encode_struct
from strom.wire.kafka.offsets_topic import version_of
from strom.wire.kafka.schema import Struct, Uuid


@dataclass(frozen=True)
class GroupEpoch:
    """The epoch of a group, and a hash of its subscribed topics."""

    group: str
    epoch: int | None
    metadata_hash: int = 0


@dataclass(frozen=True)
class MemberSubscription:
    group: str
    member: str
    subscription: Subscription | None


@dataclass(frozen=True)
class TargetEpoch:
    """The epoch of the target assignment, and when it was computed."""

    group: str
    epoch: int | None
    made_ms: int = 0


@dataclass(frozen=True)
class MemberTarget:
    group: str
    member: str
    partitions: Partitions | None


@dataclass(frozen=True)
class MemberCurrent:
    group: str
    member: str
    current: CurrentAssignment | None


@dataclass(frozen=True)
class PatternResolved:
    group: str
    pattern: str
    resolved: ResolvedPattern | None


ConsumerRecord: TypeAlias = (
    GroupEpoch | MemberSubscription | TargetEpoch | MemberTarget | MemberCurrent | PatternResolved
)

RECORDS = (
    GroupEpoch,
    MemberSubscription,
    TargetEpoch,
    MemberTarget,
    MemberCurrent,
    PatternResolved,
)
KEY_VERSIONS = (
    stored.EPOCH_KIND,
    stored.MEMBER_KIND,
    stored.TARGET_EPOCH_KIND,
    stored.TARGET_KIND,
    stored.CURRENT_KIND,
    stored.PATTERN_KIND,
)


def encode(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    match record:
        case GroupEpoch():
            return _group_key(stored.EPOCH_KIND, record.group), _epoch_value(record)
        case MemberSubscription():
            return _member_key(stored.MEMBER_KIND, record), _member_value(record.subscription)
        case TargetEpoch():
            return _group_key(stored.TARGET_EPOCH_KIND, record.group), _target_epoch_value(record)
        case MemberTarget():
            return _member_key(stored.TARGET_KIND, record), _target_value(record.partitions)
        case MemberCurrent():
            return _member_key(stored.CURRENT_KIND, record), _current_value(record.current)
        case PatternResolved():
            key = stored.ConsumerGroupPatternKey(group=record.group, pattern=record.pattern)
            return _key(stored.PATTERN_KIND, key), _pattern_value(record.resolved)


def decode(kind: int, key: bytes, value: bytes | None) -> ConsumerRecord:
    """The record for a key of that type, and a value; ProtocolError if they are malformed."""
    if kind in (stored.EPOCH_KIND, stored.TARGET_EPOCH_KIND):
        group = _decode_key(stored.ConsumerGroupKey, key).group
        if kind == stored.EPOCH_KIND:
            return _decode_epoch(group, value)
        return _decode_target_epoch(group, value)
    if kind == stored.PATTERN_KIND:
        named = _decode_key(stored.ConsumerGroupPatternKey, key)
        return PatternResolved(named.group, named.pattern, _decode_pattern(value))
    who = _decode_key(stored.ConsumerGroupMemberKey, key)
    if kind == stored.MEMBER_KIND:
        return MemberSubscription(who.group, who.member, _decode_member(value))
    if kind == stored.TARGET_KIND:
        return MemberTarget(who.group, who.member, _decode_target(value))
    return MemberCurrent(who.group, who.member, _decode_current(value))


# --- keys ----------------------------------------------------------------------------------------


def _key(kind: int, key: Struct) -> bytes:
    return kind.to_bytes(2, "big") + encode_struct(key, stored.VERSION)


def _group_key(kind: int, group: str) -> bytes:
    return _key(kind, stored.ConsumerGroupKey(group=group))


def _member_key(kind: int, record: MemberSubscription | MemberTarget | MemberCurrent) -> bytes:
    who = stored.ConsumerGroupMemberKey(group=record.group, member=record.member)
    return _key(kind, who)


S = TypeVar("S", bound=Struct)


def _decode_key(schema: type[S], key: bytes) -> S:
    return decode_struct(schema, stored.VERSION, memoryview(key), 2)


# --- values --------------------------------------------------------------------------------------


def _value(value: Struct) -> bytes:
    return stored.VERSION.to_bytes(2, "big") + encode_struct(value, stored.VERSION)


def _decode_value(schema: type[S], value: bytes) -> S:
    return decode_struct(schema, version_of(value), memoryview(value), 2)


def _epoch_value(record: GroupEpoch) -> bytes | None:
    if record.epoch is None:
        return None
    return _value(stored.EpochValue(epoch=record.epoch, metadata_hash=record.metadata_hash))


def _decode_epoch(group: str, value: bytes | None) -> GroupEpoch:
    if value is None:
        return GroupEpoch(group, None)
    found = _decode_value(stored.EpochValue, value)
    return GroupEpoch(group, found.epoch, found.metadata_hash)


def _target_epoch_value(record: TargetEpoch) -> bytes | None:
    if record.epoch is None:
        return None
    return _value(stored.TargetEpochValue(epoch=record.epoch, timestamp=record.made_ms))


def _decode_target_epoch(group: str, value: bytes | None) -> TargetEpoch:
    if value is None:
        return TargetEpoch(group, None)
    found = _decode_value(stored.TargetEpochValue, value)
    return TargetEpoch(group, found.epoch, found.timestamp)


def _member_value(subscription: Subscription | None) -> bytes | None:
    if subscription is None:
        return None
    classic = None
    if subscription.classic is not None:
        classic = stored.ClassicMemberValue(
            session_timeout_ms=subscription.classic.session_timeout_ms,
            protocols=[
                stored.ClassicProtocolValue(name=name, metadata=metadata)
                for name, metadata in subscription.classic.protocols
            ],
        )
    return _value(
        stored.MemberValue(
            instance_id=subscription.instance,
            rack_id=subscription.rack,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            subscribed_topic_names=sorted(subscription.topics),
            subscribed_topic_regex=subscription.pattern,
            rebalance_timeout_ms=subscription.rebalance_timeout_ms,
            server_assignor=subscription.assignor,
            classic=classic,
        )
    )


def _decode_member(value: bytes | None) -> Subscription | None:
    if value is None:
        return None
    found = _decode_value(stored.MemberValue, value)
    classic = None
    if found.classic is not None:
        classic = ClassicMetadata(
            session_timeout_ms=found.classic.session_timeout_ms,
            protocols=tuple((one.name, one.metadata) for one in found.classic.protocols),
        )
    return Subscription(
        instance=found.instance_id,
        rack=found.rack_id,
        client_id=found.client_id,
        client_host=found.client_host,
        topics=frozenset(found.subscribed_topic_names),
        pattern=found.subscribed_topic_regex,
        rebalance_timeout_ms=found.rebalance_timeout_ms,
        assignor=found.server_assignor,
        classic=classic,
    )


def _target_value(partitions: Partitions | None) -> bytes | None:
    if partitions is None:
        return None
    topics = [
        stored.TargetPartitionsValue(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic(partitions)
    ]
    return _value(stored.TargetValue(topics=topics))


def _decode_target(value: bytes | None) -> Partitions | None:
    if value is None:
        return None
    return frozenset(
        TopicIdPartition(topic.topic_id, index)
        for topic in _decode_value(stored.TargetValue, value).topics
        for index in topic.partitions
    )


def _current_value(current: CurrentAssignment | None) -> bytes | None:
    if current is None:
        return None
    return _value(
        stored.CurrentValue(
            epoch=current.epoch,
            previous_epoch=current.previous_epoch,
            state=current.state,
            assigned=_with_epochs(current.assigned),
            revoking=_with_epochs(current.revoking),
        )
    )


def _with_epochs(owned: Owned) -> list[stored.CurrentPartitionsValue]:
    return [
        stored.CurrentPartitionsValue(
            topic_id=topic_id,
            partitions=indexes,
            epochs=[owned[TopicIdPartition(topic_id, index)] for index in indexes],
        )
        for topic_id, indexes in by_topic(owned)
    ]


def _decode_current(value: bytes | None) -> CurrentAssignment | None:
    if value is None:
        return None
    found = _decode_value(stored.CurrentValue, value)
    try:
        state = MemberState(found.state)
    except ValueError:
        raise ProtocolError(f"unknown member state {found.state}") from None
    return CurrentAssignment(
        epoch=found.epoch,
        previous_epoch=found.previous_epoch,
        state=state,
        assigned=_decode_owned(found.assigned, found.epoch),
        revoking=_decode_owned(found.revoking, found.epoch),
    )


def _decode_owned(topics: Iterable[stored.CurrentPartitionsValue], epoch: int) -> Owned:
    owned: dict[TopicIdPartition, int] = {}
    for topic in topics:
        # Kafka before 4.3 does not store these epochs; the member epoch stands in for them.
        epochs = topic.epochs or [epoch] * len(topic.partitions)
        if len(epochs) != len(topic.partitions):
            raise ProtocolError("the numbers of epochs and partitions differ")
        for index, since in zip(topic.partitions, epochs, strict=True):
            owned[TopicIdPartition(topic.topic_id, index)] = since
    return owned


def _pattern_value(resolved: ResolvedPattern | None) -> bytes | None:
    if resolved is None:
        return None
    return _value(
        stored.PatternValue(
            topics=sorted(resolved.topics),
            version=resolved.version,
            timestamp=resolved.resolved_ms,
        )
    )


def _decode_pattern(value: bytes | None) -> ResolvedPattern | None:
    if value is None:
        return None
    found = _decode_value(stored.PatternValue, value)
    return ResolvedPattern(
        topics=frozenset(found.topics), version=found.version, resolved_ms=found.timestamp
    )


def by_topic(
    partitions: Iterable[TopicIdPartition] | Mapping[TopicIdPartition, int],
) -> list[tuple[Uuid, list[int]]]:
    """Partitions grouped by topic, in order."""
    return [
        (topic_id, [one.partition for one in ones])
        for topic_id, ones in groupby(sorted(partitions), key=lambda one: one.topic_id)
    ]
