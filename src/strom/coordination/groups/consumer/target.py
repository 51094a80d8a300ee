"""The target assignment: what every member shall have, for one epoch of the group."""

from strom.coordination.groups.consumer.assignors import Applicant, assign
from strom.coordination.groups.consumer.group import Draft, hash_of_topics
from strom.coordination.groups.consumer.records import (
    GroupEpoch,
    MemberTarget,
    PatternResolved,
    TargetEpoch,
)
from strom.coordination.groups.consumer.topic_pattern import TopicPattern
from strom.coordination.groups.consumer.values import NOTHING, Resolved
from strom.coordination.groups.topics_image import TopicsImage


def raise_epoch(draft: Draft, topics: TopicsImage) -> None:
    """Something has changed: begin the next epoch."""
    group = draft.group
    hashed = hash_of_topics(group.all_topics(), topics)
    draft.write(GroupEpoch(group.id, group.epoch + 1, hashed))


def raise_epoch_if_topics_changed(draft: Draft, topics: TopicsImage) -> None:
    """Begin the next epoch if topics that are read have come, grown or gone."""
    if hash_of_topics(draft.group.all_topics(), topics) != draft.group.metadata_hash:
        raise_epoch(draft, topics)


def may_share_out(draft: Draft, interval_ms: int, now_ms: int) -> bool:
    """Whether there is a newer epoch than the target's, and the last target is old enough."""
    group = draft.group
    if group.epoch <= group.target_epoch:
        return False
    return not group.target_made_ms or now_ms >= group.target_made_ms + interval_ms


def share_out(draft: Draft, topics: TopicsImage, default_assignor: str, now_ms: int) -> None:
    """Make the target assignment of the present epoch."""
    group = draft.group
    found = [facts for name in group.all_topics() if (facts := topics.find(name)) is not None]
    ids = {facts.name: facts.id for facts in found}
    members = [
        Applicant(
            member.id,
            member.said.instance,
            frozenset(ids[name] for name in group.topics_of(member.said) if name in ids),
            group.target(member.id),
        )
        for member in group.members.values()
    ]
    partitions = {facts.id: facts.partitions for facts in found}
    shares = assign(group.assignor(default_assignor), members, partitions)
    for member in members:
        share = shares.get(member.id, NOTHING)
        if share != group.targets.get(member.id):
            draft.write(MemberTarget(group.id, member.id, share))
    draft.write(TargetEpoch(group.id, group.epoch, now_ms))


def resolve_patterns(draft: Draft, topics: TopicsImage, now_ms: int) -> None:
    """Find anew the topics of every pattern in use, and forget those that nobody uses."""
    names: list[str] | None = None
    group = draft.group
    for pattern in sorted(group.patterns):
        if not group.uses_pattern(pattern):
            draft.write(PatternResolved(group.id, pattern, None))
    for pattern in sorted({one.said.pattern for one in group.members.values() if one.said.pattern}):
        names = names if names is not None else [facts.name for facts in topics]
        found = TopicPattern(pattern).matching(names)
        known = draft.group.patterns.get(pattern)
        if known is None or known.topics != found:
            resolved = Resolved(topics=found, resolved_ms=now_ms)
            draft.write(PatternResolved(group.id, pattern, resolved))
