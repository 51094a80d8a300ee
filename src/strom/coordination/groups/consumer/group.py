"""A consumer group: its state comes from records, and only `apply` changes it."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

from strom.coordination.groups.commands import GroupOutcome
from strom.coordination.groups.consumer.records import (
    NOTHING,
    ConsumerMember,
    ConsumerRecord,
    CurrentAssignment,
    GroupEpoch,
    MemberCurrent,
    MemberSubscription,
    MemberTarget,
    Partitions,
    PatternResolved,
    ResolvedPattern,
    Subscription,
    TargetEpoch,
    TopicIdPartition,
)
from strom.coordination.groups.group import Group, GroupType
from strom.coordination.groups.topics_image import TopicInfo, TopicsImage

NO_EPOCH = -1
FIRST_EPOCH = 1


class ConsumerState(Enum):
    """The state of a group; the value is Kafka's name."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The group epoch is newer than the target assignment."""
    RECONCILING = "Reconciling"
    """Not all members have reconciled to the target assignment."""
    STABLE = "Stable"


class ConsumerGroup(Group):
    """Members with their target and current assignments."""

    kind = GroupType.CONSUMER
    protocol_type = "consumer"
    since_ms = -1

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_made_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self._held_bytes = 0
        self.targets: dict[str, Partitions] = {}
        self.patterns: dict[str, ResolvedPattern] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        """The member that owns a partition, or has not confirmed its revocation yet."""
        self.awaited: set[str] = set()
        """Classic members that must rejoin. Not in the log."""

    def copy(self) -> "ConsumerGroup":
        """A copy that can be changed independently."""
        twin = ConsumerGroup(self.id)
        twin.__dict__.update(self.__dict__)
        twin.members = dict(self.members)
        twin.targets = dict(self.targets)
        twin.patterns = dict(self.patterns)
        twin.owners = dict(self.owners)
        return twin

    # --- queries ------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(one.current.is_reconciled_to(self.target_epoch) for one in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def may_expire(self) -> bool:
        """Always: the subscriptions are known."""
        return True

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def member_bytes(self, member_id: str, instance: str | None) -> int:
        found = self.members.get(member_id)
        if found is None and instance is not None:
            found = self.static_member(instance)
        return 0 if found is None else found.subscription.held_bytes

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        """The topics of a subscription, by name or by pattern; they need not exist."""
        resolved = self.patterns.get(subscription.pattern) if subscription.pattern else None
        return subscription.topics if resolved is None else subscription.topics | resolved.topics

    def all_topics(self) -> frozenset[str]:
        """The topics of all subscriptions."""
        return frozenset().union(
            *(self.topics_of(one.subscription) for one in self.members.values())
        )

    def reads(self, topic: str) -> bool:
        return any(topic in self.topics_of(member.subscription) for member in self.members.values())

    def static_member(self, instance: str) -> ConsumerMember | None:
        members = self.members.values()
        return next((one for one in members if one.subscription.instance == instance), None)

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NOTHING)

    def assignor(self, default: str) -> str:
        """The assignor that most members prefer."""
        asked = Counter(
            one.subscription.assignor for one in self.members.values() if one.subscription.assignor
        )
        return asked.most_common(1)[0][0] if asked else default

    def uses_pattern(self, pattern: str) -> bool:
        """Whether a member subscribes with this pattern."""
        return any(member.subscription.pattern == pattern for member in self.members.values())

    # --- replay --------------------------------------------------------------------------------

    def apply(self, record: ConsumerRecord) -> None:
        """Apply a record; the caller handles the tombstone of the group."""
        match record:
            case GroupEpoch():
                self.epoch = FIRST_EPOCH if record.epoch is None else record.epoch
                self.metadata_hash = record.metadata_hash
            case TargetEpoch():
                self.target_epoch = NO_EPOCH if record.epoch is None else record.epoch
                self.target_made_ms = record.made_ms
            case MemberSubscription():
                self._set_subscription(record.member, record.subscription)
            case MemberCurrent():
                self._set_current(record.member, record.current)
            case MemberTarget():
                if record.partitions is None:
                    self.targets.pop(record.member, None)
                else:
                    self.targets[record.member] = record.partitions
            case PatternResolved():
                if record.resolved is None:
                    self.patterns.pop(record.pattern, None)
                else:
                    self.patterns[record.pattern] = record.resolved

    def _set_subscription(self, member_id: str, subscription: Subscription | None) -> None:
        self._held_bytes -= self.member_bytes(member_id, None)
        if subscription is None:
            self._set_current(member_id, None)
            self.members.pop(member_id, None)
            return
        known = self.members.get(member_id, ConsumerMember(member_id))
        self.members[member_id] = replace(known, subscription=subscription)
        self._held_bytes += subscription.held_bytes

    def _set_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        known = self.members.get(member_id)
        if known is None and current is None:
            return
        known = known or ConsumerMember(member_id)
        for one in (*known.current.assigned, *known.current.revoking):
            if self.owners.get(one) == member_id:
                del self.owners[one]
        current = current or CurrentAssignment()
        for one in (*current.assigned, *current.revoking):
            self.owners[one] = member_id
        self.members[member_id] = replace(known, current=current)


class GroupDraft:
    """A group during one command: records are applied to a copy, and collected for writing."""

    def __init__(self, group: ConsumerGroup, out: GroupOutcome) -> None:
        self.group = group
        self._original = group
        self._out = out

    def take_outdated(self) -> bool:
        """Whether topics must be checked again; resets the flag."""
        was = self._original.is_outdated
        self._original.is_outdated = self.group.is_outdated = False
        return was

    def write(self, record: ConsumerRecord) -> None:
        """Write a record, and apply it to the copy."""
        if self.group is self._original:
            self.group = self._original.copy()
        self.group.apply(record)
        self._out.write(record)


def hash_of_topics(names: Iterable[str], topics: TopicsImage) -> int:
    """A hash over the existence, ids and partition counts of these topics."""
    found = [topic for name in sorted(names) if (topic := topics.find(name)) is not None]
    if not found:
        return 0
    return int.from_bytes(_digest(found), "big", signed=True)


def _digest(found: list[TopicInfo]) -> bytes:
    hashed = hashlib.blake2b(digest_size=8)
    for topic in found:
        hashed.update(f"{topic.name}:{topic.partitions}:".encode() + topic.id)
    return hashed.digest()
