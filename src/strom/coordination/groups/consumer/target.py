"""The target assignment of all members, for one epoch of the group.

That of a large group is computed in steps, while its members send heartbeats, join and leave.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from strom.coordination.groups.consumer.assignors import MemberSpec, assign
from strom.coordination.groups.consumer.group import ConsumerGroup, GroupDraft, hash_of_topics
from strom.coordination.groups.consumer.records import (
    NOTHING,
    ConsumerMember,
    GroupEpoch,
    MemberTarget,
    Partitions,
    PatternResolved,
    ResolvedPattern,
    TargetEpoch,
)
from strom.coordination.groups.consumer.topic_pattern import TopicPattern
from strom.coordination.groups.topics_image import TopicsImage
from strom.model.steps import PausingSteps


def raise_epoch(draft: GroupDraft, topics: TopicsImage) -> None:
    """Begin the next group epoch."""
    group = draft.group
    hashed = hash_of_topics(group.all_topics(), topics)
    draft.write(GroupEpoch(group.id, group.epoch + 1, hashed))


def raise_epoch_if_topics_changed(draft: GroupDraft, topics: TopicsImage) -> None:
    """Begin the next group epoch if subscribed topics were created, extended or deleted."""
    if hash_of_topics(draft.group.all_topics(), topics) != draft.group.metadata_hash:
        raise_epoch(draft, topics)


def can_assign(draft: GroupDraft, interval_ms: int, now_ms: int) -> bool:
    """Whether the group epoch is newer than the target's, and the interval has passed."""
    group = draft.group
    if group.epoch <= group.target_epoch:
        return False
    return not group.target_made_ms or now_ms >= group.target_made_ms + interval_ms


def takes_long(group: ConsumerGroup, topics: TopicsImage, limit: int) -> bool:
    """Whether an assignment looks at more subscribed topics of members and partitions than the limit."""
    subscribed = sum(len(group.topics_of(one.subscription)) for one in group.members.values())
    if subscribed > limit:
        return True
    found = filter(None, map(topics.find, group.all_topics()))
    return subscribed + sum(topic.partitions for topic in found) > limit


Identity: TypeAlias = tuple[bool, str]


def _identity(member: ConsumerMember) -> Identity:
    """A static member keeps it when it returns with another id."""
    instance = member.subscription.instance
    return (True, member.id) if instance is None else (False, instance)


class ComputedTarget(NamedTuple):
    """The target assignment of an epoch."""

    epoch: int
    assignments: Mapping[Identity, Partitions]

    def fits(self, group: ConsumerGroup) -> bool:
        """Whether the group, which may have changed since, can have this target.

        A later epoch of the group will get a target of its own; until then, members that are new have
        nothing. A new member in the same epoch would have nothing for good.
        """
        if self.epoch <= group.target_epoch:
            return False
        identities = map(_identity, group.members.values())
        return self.epoch < group.epoch or all(one in self.assignments for one in identities)


def compute_target(
    group: ConsumerGroup, topics: TopicsImage, default_assignor: str
) -> PausingSteps[ComputedTarget]:
    """Compute the target assignment of the current epoch. The group must not change meanwhile."""
    names: set[str] = set()
    for member in group.members.values():
        names |= group.topics_of(member.subscription)
        yield None
    found = [topic for name in names if (topic := topics.find(name)) is not None]
    ids = {topic.name: topic.id for topic in found}
    members = []
    for member in group.members.values():
        readable = frozenset(filter(None, map(ids.get, group.topics_of(member.subscription))))
        target = group.target(member.id)
        members.append(MemberSpec(member.id, member.subscription.instance, readable, target))
        yield None
    partitions = {topic.id: topic.partitions for topic in found}
    assignments = yield from assign(group.assignor(default_assignor), members, partitions)
    return ComputedTarget(
        group.epoch,
        {_identity(one): assignments.get(one.id, NOTHING) for one in group.members.values()},
    )


def write_target(draft: GroupDraft, target: ComputedTarget, now_ms: int) -> None:
    """Write the target of each member, if it has changed, and then the epoch."""
    group = draft.group
    for member in group.members.values():
        assigned = target.assignments.get(_identity(member), NOTHING)
        if assigned != group.targets.get(member.id):
            draft.write(MemberTarget(group.id, member.id, assigned))
    draft.write(TargetEpoch(group.id, target.epoch, now_ms))


def resolve_patterns(draft: GroupDraft, topics: TopicsImage, now_ms: int) -> None:
    """Resolve all patterns in use, and delete those that no member uses."""
    names: list[str] | None = None
    group = draft.group
    for pattern in sorted(group.patterns):
        if not group.uses_pattern(pattern):
            draft.write(PatternResolved(group.id, pattern, None))
    for pattern in sorted(
        {one.subscription.pattern for one in group.members.values() if one.subscription.pattern}
    ):
        names = names if names is not None else [topic.name for topic in topics]
        found = TopicPattern(pattern).matching(names)
        known = draft.group.patterns.get(pattern)
        if known is None or known.topics != found:
            resolved = ResolvedPattern(topics=found, resolved_ms=now_ms)
            draft.write(PatternResolved(group.id, pattern, resolved))
