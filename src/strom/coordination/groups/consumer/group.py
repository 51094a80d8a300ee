"""A consumer group: all of it comes from records, and only `apply` changes it."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

from strom.coordination.groups.consumer.records import (
    ConsumerRecord,
    GroupEpoch,
    MemberHas,
    MemberSaid,
    MemberTarget,
    PatternResolved,
    TargetEpoch,
)
from strom.coordination.groups.consumer.values import (
    NOTHING,
    ConsumerMember,
    Partitions,
    Resolved,
    Standing,
    Subscription,
    TopicIdPartition,
)
from strom.coordination.groups.group import Group, GroupType
from strom.coordination.groups.outcome import Outcome
from strom.coordination.groups.topics_image import TopicFacts, TopicsImage

NO_EPOCH = -1
FIRST_EPOCH = 1


class ConsumerState(Enum):
    """What a group is doing; the value is Kafka's name for it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """Something has changed, and the target assignment does not know of it yet."""
    RECONCILING = "Reconciling"
    """Not every member has what it shall have."""
    STABLE = "Stable"


class ConsumerGroup(Group):
    """Members, what they shall have and what they have."""

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
        self.targets: dict[str, Partitions] = {}
        self.patterns: dict[str, Resolved] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        """Which member has a partition, or has not said yet that it has given it up."""
        self.is_outdated = True
        """Whether topics may have changed since the group has looked at them. Not in the log."""
        self.awaited: set[str] = set()
        """Classic members that were told to join again. Not in the log."""

    def copy(self) -> "ConsumerGroup":
        """Another one that can be changed without changing this."""
        twin = ConsumerGroup(self.id)
        twin.__dict__.update(self.__dict__)
        twin.members = dict(self.members)
        twin.targets = dict(self.targets)
        twin.patterns = dict(self.patterns)
        twin.owners = dict(self.owners)
        return twin

    # --- looking -------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerState:
        """What it is doing."""
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(one.has.is_reconciled_to(self.target_epoch) for one in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def state_name(self) -> str:
        """Kafka's name for its state."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def may_expire(self) -> bool:
        """What its members read is always known."""
        return True

    def topics_of(self, said: Subscription) -> frozenset[str]:
        """The names that a member is subscribed to, by name or by pattern; they need not exist."""
        resolved = self.patterns.get(said.pattern) if said.pattern else None
        return said.topics if resolved is None else said.topics | resolved.topics

    def all_topics(self) -> frozenset[str]:
        """The names that any member is subscribed to."""
        return frozenset().union(*(self.topics_of(one.said) for one in self.members.values()))

    def reads(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic."""
        return any(topic in self.topics_of(member.said) for member in self.members.values())

    def static_member(self, instance: str) -> ConsumerMember | None:
        """The member with this instance id."""
        members = self.members.values()
        return next((one for one in members if one.said.instance == instance), None)

    def target(self, member_id: str) -> Partitions:
        """What a member shall have."""
        return self.targets.get(member_id, NOTHING)

    def assignor(self, default: str) -> str:
        """The assignor that most members ask for."""
        asked = Counter(one.said.assignor for one in self.members.values() if one.said.assignor)
        return asked.most_common(1)[0][0] if asked else default

    def uses_pattern(self, pattern: str) -> bool:
        """Whether a member is subscribed by this pattern."""
        return any(member.said.pattern == pattern for member in self.members.values())

    # --- changing ------------------------------------------------------------------------------

    def apply(self, record: ConsumerRecord) -> None:
        """Take on what a record says; that a group is gone is the affair of whoever keeps it."""
        match record:
            case GroupEpoch():
                self.epoch = FIRST_EPOCH if record.epoch is None else record.epoch
                self.metadata_hash = record.metadata_hash
            case TargetEpoch():
                self.target_epoch = NO_EPOCH if record.epoch is None else record.epoch
                self.target_made_ms = record.made_ms
            case MemberSaid():
                self._set_said(record.member, record.said)
            case MemberHas():
                self._set_has(record.member, record.has)
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

    def _set_said(self, member_id: str, said: Subscription | None) -> None:
        if said is None:
            self._set_has(member_id, None)
            self.members.pop(member_id, None)
            return
        known = self.members.get(member_id, ConsumerMember(member_id))
        self.members[member_id] = replace(known, said=said)

    def _set_has(self, member_id: str, has: Standing | None) -> None:
        known = self.members.get(member_id)
        if known is None and has is None:
            return
        known = known or ConsumerMember(member_id)
        for one in (*known.has.assigned, *known.has.revoking):
            if self.owners.get(one) == member_id:
                del self.owners[one]
        has = has or Standing()
        for one in (*has.assigned, *has.revoking):
            self.owners[one] = member_id
        self.members[member_id] = replace(known, has=has)


class Draft:
    """A group during one command: records change a copy of it, and are collected to be written."""

    def __init__(self, group: ConsumerGroup, out: Outcome) -> None:
        self.group = group
        self._original = group
        self._out = out

    def take_outdated(self) -> bool:
        """Whether the group has to look at its topics again; from now on it has."""
        was = self._original.is_outdated
        self._original.is_outdated = self.group.is_outdated = False
        return was

    def write(self, record: ConsumerRecord) -> None:
        """Have a record written, and see the group as it will be then."""
        if self.group is self._original:
            self.group = self._original.copy()
        self.group.apply(record)
        self._out.write(record)


def hash_of_topics(names: Iterable[str], topics: TopicsImage) -> int:
    """A number that changes with the existence, the id or the partitions of any of these topics."""
    found = [facts for name in sorted(names) if (facts := topics.find(name)) is not None]
    if not found:
        return 0
    return int.from_bytes(_digest(found), "big", signed=True)


def _digest(found: list[TopicFacts]) -> bytes:
    hashed = hashlib.blake2b(digest_size=8)
    for facts in found:
        hashed.update(f"{facts.name}:{facts.partitions}:".encode() + facts.id)
    return hashed.digest()
