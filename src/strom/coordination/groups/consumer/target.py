"""The target assignment of all members, for one epoch of the group."""

from strom.coordination.groups.consumer.assignors import MemberSpec, assign
from strom.coordination.groups.consumer.group import GroupDraft, hash_of_topics
from strom.coordination.groups.consumer.records import (
    NOTHING,
    GroupEpoch,
    MemberTarget,
    PatternResolved,
    ResolvedPattern,
    TargetEpoch,
)
from strom.coordination.groups.consumer.topic_pattern import TopicPattern
from strom.coordination.groups.topics_image import TopicsImage


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


def assign_targets(
    draft: GroupDraft, topics: TopicsImage, default_assignor: str, now_ms: int
) -> None:
    """Compute the target assignment of the current epoch."""
    group = draft.group
    found = [topic for name in group.all_topics() if (topic := topics.find(name)) is not None]
    ids = {topic.name: topic.id for topic in found}
    members = [
        MemberSpec(
            member.id,
            member.subscription.instance,
            frozenset(filter(None, map(ids.get, group.topics_of(member.subscription)))),
            group.target(member.id),
        )
        for member in group.members.values()
    ]
    partitions = {topic.id: topic.partitions for topic in found}
    assignments = assign(group.assignor(default_assignor), members, partitions)
    for member in members:
        assigned = assignments.get(member.id, NOTHING)
        if assigned != group.targets.get(member.id):
            draft.write(MemberTarget(group.id, member.id, assigned))
    draft.write(TargetEpoch(group.id, group.epoch, now_ms))


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
