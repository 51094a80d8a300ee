"""The records of share groups, and their bytes in `__consumer_offsets`; None is a tombstone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, get_args

from strom.coordination.groups.group_memory import bytes_of
from strom.coordination.stored_records import RecordFormat
from strom.wire.kafka import share_group_records as stored
from strom.wire.kafka.schema import Uuid

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

    @property
    def held_bytes(self) -> int:
        """How much memory it takes."""
        return bytes_of(self.rack, self.client_id, self.client_host, *self.topics)


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

RECORDS = get_args(ShareGroupRecord)


def _member_value(subscription: ShareSubscription) -> stored.ShareMemberValue:
    return stored.ShareMemberValue(
        rack_id=subscription.rack,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topics),
    )


def _subscription(found: stored.ShareMemberValue) -> ShareSubscription:
    topics = tuple(found.subscribed_topic_names)
    return ShareSubscription(found.rack_id, found.client_id, found.client_host, topics)


def _current_value(assigned: MemberAssignment) -> stored.ShareCurrentValue:
    return stored.ShareCurrentValue(
        member_epoch=assigned.epoch,
        previous_member_epoch=assigned.previous_epoch,
        state=STABLE,
        assigned_partitions=_stored(assigned.partitions),
    )


def _current(found: stored.ShareCurrentValue) -> MemberAssignment:
    partitions = _partitions(found.assigned_partitions)
    return MemberAssignment(found.member_epoch, found.previous_member_epoch, partitions)


def _topics_value(topics: tuple[KnownTopic, ...]) -> stored.ShareStateValue:
    return stored.ShareStateValue(
        initialized_topics=[
            stored.ShareStateTopic(
                topic_id=topic.id, topic_name=topic.name, partitions=list(range(topic.partitions))
            )
            for topic in topics
        ]
    )


def _topics(found: stored.ShareStateValue) -> tuple[KnownTopic, ...]:
    return tuple(
        KnownTopic(one.topic_name, one.topic_id, max(one.partitions, default=-1) + 1)
        for one in (*found.initialized_topics, *found.initializing_topics)
    )


def _stored(partitions: Partitions) -> list[stored.ShareTopicPartitions]:
    return [
        stored.ShareTopicPartitions(topic_id=topic_id, partitions=list(indexes))
        for topic_id, indexes in partitions.items()
    ]


def _partitions(found: list[stored.ShareTopicPartitions]) -> Partitions:
    return {one.topic_id: tuple(one.partitions) for one in found}


FORMATS: tuple[RecordFormat[Any], ...] = (
    RecordFormat(
        stored.MEMBER_KEY,
        ShareMemberSubscription,
        stored.ShareMemberKey,
        stored.ShareMemberValue,
        _member_value,
        lambda found: (_subscription(found),),
    ),
    RecordFormat(
        stored.GROUP_KEY,
        ShareGroupEpoch,
        stored.ShareGroupKey,
        stored.ShareGroupValue,
        lambda epoch, hashed: stored.ShareGroupValue(epoch=epoch, metadata_hash=hashed),
        lambda found: (found.epoch, found.metadata_hash),
    ),
    RecordFormat(
        stored.TARGET_KEY,
        ShareTargetEpoch,
        stored.ShareGroupKey,
        stored.ShareTargetValue,
        lambda epoch, assigned_ms: stored.ShareTargetValue(
            assignment_epoch=epoch, assignment_timestamp=assigned_ms
        ),
        lambda found: (found.assignment_epoch, found.assignment_timestamp),
    ),
    RecordFormat(
        stored.TARGET_MEMBER_KEY,
        ShareTarget,
        stored.ShareMemberKey,
        stored.ShareTargetMemberValue,
        lambda target: stored.ShareTargetMemberValue(topic_partitions=_stored(target)),
        lambda found: (_partitions(found.topic_partitions),),
    ),
    RecordFormat(
        stored.CURRENT_KEY,
        ShareCurrent,
        stored.ShareMemberKey,
        stored.ShareCurrentValue,
        _current_value,
        lambda found: (_current(found),),
    ),
    RecordFormat(
        stored.STATE_KEY,
        ShareTopics,
        stored.ShareGroupKey,
        stored.ShareStateValue,
        _topics_value,
        lambda found: (_topics(found),),
    ),
)
