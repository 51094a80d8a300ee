"""The ways of sharing out partitions among members.

`range` gives every member a stretch of each topic, side by side. `uniform` gives all members as equally
many partitions as their subscriptions allow, and moves as few as it can.

Given the same members and topics the result is the same; ties go to the member that comes first by its
instance id, or else by its id.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from strom.coordination.groups.consumer.uniform import balance_overlapping
from strom.coordination.groups.consumer.values import NOTHING, Partitions, TopicIdPartition
from strom.wire.kafka.schema import Uuid

Shares: TypeAlias = dict[str, Partitions]


class Applicant(NamedTuple):
    """A member that gets a share: what it may read, and what it shall have so far."""

    id: str
    instance: str | None
    topics: frozenset[Uuid]
    target: Partitions = NOTHING


Assignor: TypeAlias = Callable[[Sequence[Applicant], Mapping[Uuid, int]], Shares]
"""From the members and the numbers of partitions to the shares."""


def assign(name: str, members: Sequence[Applicant], partitions: Mapping[Uuid, int]) -> Shares:
    """Share out by the assignor of that name. Topics without a number of partitions do not exist."""
    existing = [
        one._replace(topics=frozenset(topic for topic in one.topics if topic in partitions))
        for one in sorted(members, key=_order)
    ]
    return ASSIGNORS[name](existing, partitions)


def _order(member: Applicant) -> tuple[bool, str]:
    if member.instance is not None:
        return (False, member.instance)
    return (True, member.id)


def assign_ranges(members: Sequence[Applicant], partitions: Mapping[Uuid, int]) -> Shares:
    """Each topic in record_batches of equal length; the first members get what remains."""
    shares: dict[str, set[TopicIdPartition]] = {member.id: set() for member in members}
    for topic, count in partitions.items():
        readers = [member.id for member in members if topic in member.topics]
        if not readers:
            continue
        length, extra = divmod(count, len(readers))
        start = 0
        for number, reader in enumerate(readers):
            end = start + length + (number < extra)
            shares[reader].update(TopicIdPartition(topic, index) for index in range(start, end))
            start = end
    return {member: frozenset(share) for member, share in shares.items()}


def assign_uniformly(members: Sequence[Applicant], partitions: Mapping[Uuid, int]) -> Shares:
    """As equally many for each as can be, keeping what they have."""
    if len({member.topics for member in members}) == 1:
        return _assign_to_equals(members, partitions)
    shares = {
        member.id: {one for one in member.target if _may_have(member, one, partitions)}
        for member in members
    }
    readers = {
        topic: [member.id for member in members if topic in member.topics] for topic in partitions
    }
    balance_overlapping(shares, readers, partitions)
    return {member: frozenset(share) for member, share in shares.items()}


def _may_have(member: Applicant, one: TopicIdPartition, partitions: Mapping[Uuid, int]) -> bool:
    return one.topic_id in member.topics and one.partition < partitions[one.topic_id]


def _assign_to_equals(members: Sequence[Applicant], partitions: Mapping[Uuid, int]) -> Shares:
    """All members read the same topics: everyone has a quota, and gives up what is above it."""
    everything = [
        TopicIdPartition(topic, index)
        for topic in sorted(members[0].topics)
        for index in range(partitions[topic])
    ]
    quota, extra = divmod(len(everything), len(members))
    shares: dict[str, list[TopicIdPartition]] = {}
    # Whoever has the most gets the extra ones, so that the fewest move.
    kept = {
        member.id: sorted(one for one in member.target if _may_have(member, one, partitions))
        for member in members
    }
    by_size = sorted(members, key=lambda member: -len(kept[member.id]))
    with_extra = {member.id for member in by_size[:extra]}
    for member in members:
        shares[member.id] = kept[member.id][: quota + (member.id in with_extra)]
    taken = {one for share in shares.values() for one in share}
    free = iter([one for one in everything if one not in taken])
    for member in members:
        room = quota + (member.id in with_extra) - len(shares[member.id])
        shares[member.id] += [one for _, one in zip(range(room), free, strict=False)]
    return {member: frozenset(share) for member, share in shares.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
