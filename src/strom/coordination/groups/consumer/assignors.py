"""The server-side assignors `range` and `uniform` (KIP-848).

`range` gives every member a contiguous range of each topic, co-partitioned across topics. `uniform`
balances the number of partitions as far as subscriptions allow, and moves as few as possible.

With different subscriptions, `uniform` first gives unassigned partitions to the subscriber with the
fewest, starting with the topics that have the most partitions per subscriber. Then, topic by topic,
partitions move from the subscriber with the most to the one with the fewest, until no move improves the
balance of any topic.

The result is deterministic; ties go to the first member by instance id, else by member id.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from strom.coordination.groups.consumer.records import NOTHING, Partitions, TopicIdPartition
from strom.wire.kafka.schema import Uuid

MAX_ROUNDS = 16
"""The limit of rounds: overlapping subscriptions can take many for ever smaller gains."""


def balance_overlapping(
    assignments: dict[str, set[TopicIdPartition]],
    readers: Mapping[Uuid, Sequence[str]],
    partitions: Mapping[Uuid, int],
) -> None:
    """Complete and balance the assignments, in place."""
    topics = sorted(
        (topic for topic in partitions if readers[topic]),
        key=lambda topic: (-partitions[topic] / len(readers[topic]), len(readers[topic]), topic),
    )
    taken = {one for assigned in assignments.values() for one in assigned}
    for topic in topics:
        for index in range(partitions[topic]):
            one = TopicIdPartition(topic, index)
            if one not in taken:
                assignments[_least_loaded(readers[topic], assignments)].add(one)
    for _ in range(MAX_ROUNDS):
        moves = sum(_balance_topic(topic, readers[topic], assignments) for topic in topics)
        if not moves:
            return


def _least_loaded(members: Sequence[str], assignments: Mapping[str, set[TopicIdPartition]]) -> str:
    return min(members, key=lambda member: len(assignments[member]))


def _balance_topic(
    topic: Uuid, readers: Sequence[str], assignments: dict[str, set[TopicIdPartition]]
) -> int:
    """Move partitions of one topic; returns how many."""
    owned = {
        reader: sorted(one for one in assignments[reader] if one.topic_id == topic)
        for reader in readers
    }
    moves = 0
    while givers := [reader for reader in readers if owned[reader]]:
        giver = max(givers, key=lambda reader: len(assignments[reader]))
        taker = _least_loaded(readers, assignments)
        if len(assignments[giver]) - len(assignments[taker]) <= 1:
            break
        one = owned[giver].pop()
        assignments[giver].remove(one)
        assignments[taker].add(one)
        owned[taker].append(one)
        moves += 1
    return moves


Assignments: TypeAlias = dict[str, Partitions]


class MemberSpec(NamedTuple):
    """A member to assign to: its subscribed topics, and its previous target."""

    id: str
    instance: str | None
    topics: frozenset[Uuid]
    target: Partitions = NOTHING


Assignor: TypeAlias = Callable[[Sequence[MemberSpec], Mapping[Uuid, int]], Assignments]
"""From the members and the partition counts to the assignments."""


def assign(name: str, members: Sequence[MemberSpec], partitions: Mapping[Uuid, int]) -> Assignments:
    """Assign with the assignor of that name. Topics without a partition count do not exist."""
    existing = [
        one._replace(topics=frozenset(topic for topic in one.topics if topic in partitions))
        for one in sorted(members, key=_order)
    ]
    return ASSIGNORS[name](existing, partitions)


def _order(member: MemberSpec) -> tuple[bool, str]:
    if member.instance is not None:
        return (False, member.instance)
    return (True, member.id)


def assign_ranges(members: Sequence[MemberSpec], partitions: Mapping[Uuid, int]) -> Assignments:
    """Each topic in ranges of equal length; the first members get the remainder."""
    assignments: dict[str, set[TopicIdPartition]] = {member.id: set() for member in members}
    for topic, count in partitions.items():
        readers = [member.id for member in members if topic in member.topics]
        if not readers:
            continue
        length, extra = divmod(count, len(readers))
        start = 0
        for number, reader in enumerate(readers):
            end = start + length + (number < extra)
            assignments[reader].update(
                TopicIdPartition(topic, index) for index in range(start, end)
            )
            start = end
    return {member: frozenset(assigned) for member, assigned in assignments.items()}


def assign_uniformly(members: Sequence[MemberSpec], partitions: Mapping[Uuid, int]) -> Assignments:
    """Balanced assignments that keep previous ones."""
    if len({member.topics for member in members}) == 1:
        return _assign_to_equals(members, partitions)
    assignments = {
        member.id: {one for one in member.target if _may_have(member, one, partitions)}
        for member in members
    }
    readers = {
        topic: [member.id for member in members if topic in member.topics] for topic in partitions
    }
    balance_overlapping(assignments, readers, partitions)
    return {member: frozenset(assigned) for member, assigned in assignments.items()}


def _may_have(member: MemberSpec, one: TopicIdPartition, partitions: Mapping[Uuid, int]) -> bool:
    return one.topic_id in member.topics and one.partition < partitions[one.topic_id]


def _assign_to_equals(members: Sequence[MemberSpec], partitions: Mapping[Uuid, int]) -> Assignments:
    """All members have the same subscription: each has a quota, and gives up what exceeds it."""
    everything = [
        TopicIdPartition(topic, index)
        for topic in sorted(members[0].topics)
        for index in range(partitions[topic])
    ]
    quota, extra = divmod(len(everything), len(members))
    assignments: dict[str, list[TopicIdPartition]] = {}
    # The members with the most partitions get the extra ones, so that the fewest move.
    kept = {
        member.id: sorted(one for one in member.target if _may_have(member, one, partitions))
        for member in members
    }
    by_size = sorted(members, key=lambda member: -len(kept[member.id]))
    with_extra = {member.id for member in by_size[:extra]}
    for member in members:
        assignments[member.id] = kept[member.id][: quota + (member.id in with_extra)]
    taken = {one for assigned in assignments.values() for one in assigned}
    free = iter([one for one in everything if one not in taken])
    for member in members:
        room = quota + (member.id in with_extra) - len(assignments[member.id])
        assignments[member.id] += [one for _, one in zip(range(room), free, strict=False)]
    return {member: frozenset(assigned) for member, assigned in assignments.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
