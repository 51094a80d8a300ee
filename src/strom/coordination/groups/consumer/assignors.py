"""The server-side assignors `range` and `uniform` (KIP-848).

`range` gives every member a contiguous range of each topic, co-partitioned across topics. `uniform`
balances the number of partitions as far as subscriptions allow, and moves as few as possible.

With different subscriptions, `uniform` first gives unassigned partitions to the subscriber with the
fewest, starting with the topics that have the most partitions per subscriber. Then, topic by topic,
partitions move from the subscriber with the most to the one with the fewest, until no move improves the
balance of any topic.

The result is deterministic; ties go to the first member by instance id, else by member id.

The work is done in steps, each over one topic or one member: a large group takes a tenth of a second.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple, TypeAlias

from strom.coordination.groups.consumer.records import NOTHING, Partitions, TopicIdPartition
from strom.model.steps import PausingSteps
from strom.wire.kafka.schema import Uuid

MAX_ROUNDS = 16
"""The limit of rounds: overlapping subscriptions can take many for ever smaller gains."""


class OverlappingBalance:
    """Completes and balances assignments of members with different subscriptions, in place.

    A group can have thousands of partitions and hundreds of members: no loop is over both, but one
    over the topics and their subscribers.
    """

    def __init__(
        self,
        assignments: dict[str, set[TopicIdPartition]],
        readers: Mapping[Uuid, Sequence[str]],
        partitions: Mapping[Uuid, int],
    ) -> None:
        self._assignments = assignments
        self._readers = {topic: readers[topic] for topic in partitions if readers[topic]}
        self._partitions = partitions
        self._load = {member: len(assigned) for member, assigned in assignments.items()}
        self._owned: dict[Uuid, dict[str, list[TopicIdPartition]]] = {
            topic: {} for topic in self._readers
        }
        for member, assigned in assignments.items():
            for one in assigned:
                self._owned[one.topic_id].setdefault(member, []).append(one)

    def complete(self) -> PausingSteps[None]:
        """Assign what is unassigned, then balance the topics, one after another."""
        partitions, readers = self._partitions, self._readers
        topics = sorted(
            readers,
            key=lambda topic: (
                -partitions[topic] / len(readers[topic]),
                len(readers[topic]),
                topic,
            ),
        )
        for topic in topics:
            self._fill(topic)
            yield None
        for _ in range(MAX_ROUNDS):
            moves = 0
            for topic in topics:
                moves += self._balance(topic)
                yield None
            if not moves:
                return

    def _fill(self, topic: Uuid) -> None:
        """Each unassigned partition of a topic goes to the reader with the fewest partitions."""
        taken = {one.partition for its in self._owned[topic].values() for one in its}
        readers = self._readers[topic]
        by_load = [(self._load[reader], order) for order, reader in enumerate(readers)]
        heapify(by_load)
        for index in range(self._partitions[topic]):
            if index not in taken:
                load, order = by_load[0]
                self._give(TopicIdPartition(topic, index), readers[order])
                heapreplace(by_load, (load + 1, order))

    def _balance(self, topic: Uuid) -> int:
        """Move partitions of one topic; returns how many."""
        owned, load = self._owned[topic], self._load
        readers = self._readers[topic]
        if max(map(load.__getitem__, owned)) - min(map(load.__getitem__, readers)) <= 1:
            return 0
        # A giver never has so few partitions that it becomes a taker, nor a taker a giver: what the
        # heaps do not know of each other's moves makes no difference.
        for its in owned.values():
            its.sort()
        givers = [(-load[one], order) for order, one in enumerate(readers) if one in owned]
        takers = [(load[one], order) for order, one in enumerate(readers)]
        heapify(givers)
        heapify(takers)
        moves = 0
        while givers and -givers[0][0] - takers[0][0] > 1:
            giver, taker = readers[givers[0][1]], readers[takers[0][1]]
            one = owned[giver].pop()
            self._assignments[giver].remove(one)
            load[giver] -= 1
            self._give(one, taker)
            moves += 1
            if owned[giver]:
                heapreplace(givers, (-load[giver], givers[0][1]))
            else:
                del owned[giver]
                heappop(givers)
            heapreplace(takers, (load[taker], takers[0][1]))
        return moves

    def _give(self, one: TopicIdPartition, member: str) -> None:
        self._assignments[member].add(one)
        self._load[member] += 1
        self._owned[one.topic_id].setdefault(member, []).append(one)


Assignments: TypeAlias = dict[str, Partitions]


class MemberSpec(NamedTuple):
    """A member to assign to: its subscribed topics, and its previous target."""

    id: str
    instance: str | None
    topics: frozenset[Uuid]
    target: Partitions = NOTHING


Assignor: TypeAlias = Callable[
    [Sequence[MemberSpec], Mapping[Uuid, int]], PausingSteps[Assignments]
]
"""From the members and the partition counts to the assignments."""


def assign(
    name: str, members: Sequence[MemberSpec], partitions: Mapping[Uuid, int]
) -> PausingSteps[Assignments]:
    """Assign with the assignor of that name. Topics without a partition count do not exist."""
    existing = []
    for one in sorted(members, key=_order):
        # `intersection` would look at all topics, not only at those of the member.
        topics = frozenset(filter(partitions.__contains__, one.topics))
        existing.append(one._replace(topics=topics))
        yield None
    return (yield from ASSIGNORS[name](existing, partitions))


def _order(member: MemberSpec) -> tuple[bool, str]:
    if member.instance is not None:
        return (False, member.instance)
    return (True, member.id)


def assign_ranges(
    members: Sequence[MemberSpec], partitions: Mapping[Uuid, int]
) -> PausingSteps[Assignments]:
    """Each topic in ranges of equal length; the first members get the remainder."""
    assignments: dict[str, set[TopicIdPartition]] = {}
    readers_of: dict[Uuid, list[str]] = {}
    for member in members:
        assignments[member.id] = set()
        for topic in member.topics:
            readers_of.setdefault(topic, []).append(member.id)
        yield None
    for topic, readers in readers_of.items():
        count = partitions[topic]
        length, extra = divmod(count, len(readers))
        start = 0
        for number, reader in enumerate(readers):
            end = start + length + (number < extra)
            assignments[reader].update(
                TopicIdPartition(topic, index) for index in range(start, end)
            )
            start = end
        yield None
    return {member: frozenset(assigned) for member, assigned in assignments.items()}


def assign_uniformly(
    members: Sequence[MemberSpec], partitions: Mapping[Uuid, int]
) -> PausingSteps[Assignments]:
    """Balanced assignments that keep previous ones."""
    if len({member.topics for member in members}) == 1:
        return (yield from _assign_to_equals(members, partitions))
    assignments: dict[str, set[TopicIdPartition]] = {}
    readers: dict[Uuid, list[str]] = {topic: [] for topic in partitions}
    for member in members:
        assignments[member.id] = {
            one for one in member.target if _may_have(member, one, partitions)
        }
        for topic in member.topics:
            readers[topic].append(member.id)
        yield None
    yield from OverlappingBalance(assignments, readers, partitions).complete()
    return {member: frozenset(assigned) for member, assigned in assignments.items()}


def _may_have(member: MemberSpec, one: TopicIdPartition, partitions: Mapping[Uuid, int]) -> bool:
    return one.topic_id in member.topics and one.partition < partitions[one.topic_id]


def _assign_to_equals(
    members: Sequence[MemberSpec], partitions: Mapping[Uuid, int]
) -> PausingSteps[Assignments]:
    """All members have the same subscription: each has a quota, and gives up what exceeds it."""
    everything = [
        TopicIdPartition(topic, index)
        for topic in sorted(members[0].topics)
        for index in range(partitions[topic])
    ]
    yield None
    quota, extra = divmod(len(everything), len(members))
    assignments: dict[str, list[TopicIdPartition]] = {}
    # The members with the most partitions get the extra ones, so that the fewest move.
    kept = {}
    for member in members:
        kept[member.id] = sorted(one for one in member.target if _may_have(member, one, partitions))
        yield None
    by_size = sorted(members, key=lambda member: -len(kept[member.id]))
    with_extra = {member.id for member in by_size[:extra]}
    for member in members:
        assignments[member.id] = kept[member.id][: quota + (member.id in with_extra)]
    taken = {one for assigned in assignments.values() for one in assigned}
    free = iter([one for one in everything if one not in taken])
    yield None
    for member in members:
        room = quota + (member.id in with_extra) - len(assignments[member.id])
        assignments[member.id] += [one for _, one in zip(range(room), free, strict=False)]
    return {member: frozenset(assigned) for member, assigned in assignments.items()}


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
