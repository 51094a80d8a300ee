"""The records of consumer groups, and the values in them; a value of None is a tombstone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias, get_args

from strom.coordination.groups.group_memory import bytes_of, bytes_of_pairs
from strom.coordination.stored_records import RecordFormat
from strom.model.errors import ProtocolError
from strom.wire.kafka import consumer_group_topic as stored
from strom.wire.kafka.schema import Uuid

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""A static member leaves temporarily: its partitions stay assigned to it."""


class TopicIdPartition(NamedTuple):
    """A partition by topic id, which a recreated topic does not share."""

    topic_id: Uuid
    partition: int


Partitions: TypeAlias = frozenset[TopicIdPartition]
Owned: TypeAlias = Mapping[TopicIdPartition, int]
"""Partitions with the epoch in which the member got them."""

NOTHING: Partitions = frozenset()


class MemberState(IntEnum):
    """The reconciliation state of a member; the numbers are Kafka's."""

    STABLE = 0
    """It has the target assignment of its epoch."""
    UNREVOKED = 1
    """It must revoke partitions; its epoch waits for that."""
    UNRELEASED = 2
    """It is in the target epoch, but other members have not released all of its partitions."""


@dataclass(frozen=True, kw_only=True)
class ClassicMetadata:
    """The additional state of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, kw_only=True)
class Subscription:
    """The subscription and client metadata of a member."""

    instance: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str | None = ""
    """A regular expression for more topics; empty for none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None

    @cached_property
    def held_bytes(self) -> int:
        """How much memory it takes."""
        client = (self.instance, self.rack, self.client_id, self.client_host)
        metadata = () if self.classic is None else self.classic.protocols
        subscribed = bytes_of(self.pattern, self.assignor, *self.topics)
        return bytes_of(*client) + subscribed + bytes_of_pairs(metadata)


@dataclass(frozen=True, kw_only=True)
class CurrentAssignment:
    """The current assignment of a member."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    """Partitions to revoke, which it may still own."""

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has exactly the target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(frozen=True)
class ConsumerMember:
    id: str
    subscription: Subscription = field(default_factory=Subscription)
    current: CurrentAssignment = field(default_factory=CurrentAssignment)


@dataclass(frozen=True, kw_only=True)
class ResolvedPattern:
    """The topics that match a pattern."""

    topics: frozenset[str]
    version: int = 0
    """Unused here; Kafka stores the offset of its metadata log."""
    resolved_ms: int


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

RECORDS = get_args(ConsumerRecord)


def is_tombstone(record: ConsumerRecord) -> bool:
    return _BY_RECORD[type(record)].is_tombstone(record)


def _member_value(subscription: Subscription) -> stored.MemberValue:
    classic = None
    if subscription.classic is not None:
        classic = stored.ClassicMemberValue(
            session_timeout_ms=subscription.classic.session_timeout_ms,
            protocols=[
                stored.ClassicProtocolValue(name=name, metadata=metadata)
                for name, metadata in subscription.classic.protocols
            ],
        )
    return stored.MemberValue(
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


def _subscription(found: stored.MemberValue) -> Subscription:
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


def _target_value(partitions: Partitions) -> stored.TargetValue:
    return stored.TargetValue(
        topics=[
            stored.TargetPartitionsValue(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(partitions)
        ]
    )


def _partitions(found: stored.TargetValue) -> Partitions:
    return frozenset(
        TopicIdPartition(topic.topic_id, index)
        for topic in found.topics
        for index in topic.partitions
    )


def _current_value(current: CurrentAssignment) -> stored.CurrentValue:
    return stored.CurrentValue(
        epoch=current.epoch,
        previous_epoch=current.previous_epoch,
        state=current.state,
        assigned=_with_epochs(current.assigned),
        revoking=_with_epochs(current.revoking),
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


def _current(found: stored.CurrentValue) -> CurrentAssignment:
    try:
        state = MemberState(found.state)
    except ValueError:
        raise ProtocolError(f"unknown member state {found.state}") from None
    return CurrentAssignment(
        epoch=found.epoch,
        previous_epoch=found.previous_epoch,
        state=state,
        assigned=_owned(found.assigned, found.epoch),
        revoking=_owned(found.revoking, found.epoch),
    )


def _owned(topics: Iterable[stored.CurrentPartitionsValue], epoch: int) -> Owned:
    owned: dict[TopicIdPartition, int] = {}
    for topic in topics:
        # Kafka before 4.3 does not store these epochs; the member epoch stands in for them.
        epochs = topic.epochs or [epoch] * len(topic.partitions)
        if len(epochs) != len(topic.partitions):
            raise ProtocolError("the numbers of epochs and partitions differ")
        for index, since in zip(topic.partitions, epochs, strict=True):
            owned[TopicIdPartition(topic.topic_id, index)] = since
    return owned


def _pattern_value(resolved: ResolvedPattern) -> stored.PatternValue:
    return stored.PatternValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.resolved_ms
    )


def _resolved(found: stored.PatternValue) -> ResolvedPattern:
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


FORMATS: tuple[RecordFormat[Any], ...] = (
    RecordFormat(
        stored.EPOCH_KIND,
        GroupEpoch,
        stored.ConsumerGroupKey,
        stored.EpochValue,
        lambda epoch, hashed: stored.EpochValue(epoch=epoch, metadata_hash=hashed),
        lambda found: (found.epoch, found.metadata_hash),
    ),
    RecordFormat(
        stored.MEMBER_KIND,
        MemberSubscription,
        stored.ConsumerGroupMemberKey,
        stored.MemberValue,
        _member_value,
        lambda found: (_subscription(found),),
    ),
    RecordFormat(
        stored.TARGET_EPOCH_KIND,
        TargetEpoch,
        stored.ConsumerGroupKey,
        stored.TargetEpochValue,
        lambda epoch, made_ms: stored.TargetEpochValue(epoch=epoch, timestamp=made_ms),
        lambda found: (found.epoch, found.timestamp),
    ),
    RecordFormat(
        stored.TARGET_KIND,
        MemberTarget,
        stored.ConsumerGroupMemberKey,
        stored.TargetValue,
        _target_value,
        lambda found: (_partitions(found),),
    ),
    RecordFormat(
        stored.CURRENT_KIND,
        MemberCurrent,
        stored.ConsumerGroupMemberKey,
        stored.CurrentValue,
        _current_value,
        lambda found: (_current(found),),
    ),
    RecordFormat(
        stored.PATTERN_KIND,
        PatternResolved,
        stored.ConsumerGroupPatternKey,
        stored.PatternValue,
        _pattern_value,
        lambda found: (_resolved(found),),
    ),
)
_BY_RECORD = {one.record: one for one in FORMATS}
