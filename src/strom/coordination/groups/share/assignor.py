"""Kafka's `simple` assignor of share groups: every partition has a member, and every member a partition.

With at most as many members as partitions, each partition goes to one member. With more members,
partitions are shared. Members keep previous assignments as far as the balance allows.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from strom.coordination.groups.share.records import Partitions
from strom.wire.kafka.schema import Uuid


class OnePartition(NamedTuple):
    """A partition by its topic's id."""

    topic_id: Uuid
    number: int


def assign_simple(
    wanted: Mapping[str, AbstractSet[Uuid]],
    partitions: Mapping[Uuid, int],
    before: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    """The assignments, from the topics of each member and the partition count of each topic."""
    every = [
        OnePartition(topic_id, number)
        for topic_id in sorted(partitions)
        for number in range(partitions[topic_id])
    ]
    if not wanted or not every:
        return {member: {} for member in wanted}
    plan = _Plan(wanted, before, readers=-(-len(wanted) // len(every)), every=every)
    for one in every:
        plan.keep(one)
    for one in every:
        plan.fill(one)
    for member in sorted(wanted):
        plan.assign_idle(member)
    return plan.result()


class _Plan:
    def __init__(
        self,
        wanted: Mapping[str, AbstractSet[Uuid]],
        before: Mapping[str, Partitions],
        readers: int,
        every: list[OnePartition],
    ) -> None:
        self._wanted = wanted
        self._before = before
        self._readers = readers
        self._most = -(-len(every) * readers // len(wanted))
        """How many partitions a member gets if all have the same subscription."""
        self._readers_of: dict[OnePartition, set[str]] = {one: set() for one in every}
        self._of_member: dict[str, set[OnePartition]] = {member: set() for member in wanted}

    def keep(self, one: OnePartition) -> None:
        """Keep a partition with its previous members, as far as the balance allows."""
        for member in sorted(self._wanted):
            has_it = one.number in self._before.get(member, {}).get(one.topic_id, ())
            if has_it and len(self._of_member[member]) < self._most:
                self._give(one, member)

    def fill(self, one: OnePartition) -> None:
        """Assign a partition to more members until it has enough."""
        while len(self._readers_of[one]) < self._readers:
            member = self._least_busy(one)
            if member is None:
                return
            self._give(one, member)

    def assign_idle(self, member: str) -> None:
        """Assign the partition with the fewest members to a member without partitions."""
        if self._of_member[member]:
            return
        may_read = [one for one in self._readers_of if one.topic_id in self._wanted[member]]
        if may_read:
            one = min(may_read, key=lambda each: (len(self._readers_of[each]), each))
            self._readers_of[one].add(member)
            self._of_member[member].add(one)

    def result(self) -> dict[str, Partitions]:
        """The partitions of every member, in order."""
        assignments: dict[str, Partitions] = {}
        for member, its in self._of_member.items():
            by_topic: dict[Uuid, tuple[int, ...]] = {}
            for topic_id, number in sorted(its):
                by_topic[topic_id] = (*by_topic.get(topic_id, ()), number)
            assignments[member] = by_topic
        return assignments

    def _least_busy(self, one: OnePartition) -> str | None:
        free = [
            member
            for member, topics in self._wanted.items()
            if one.topic_id in topics and member not in self._readers_of[one]
        ]
        return min(free, key=lambda member: (len(self._of_member[member]), member), default=None)

    def _give(self, one: OnePartition, member: str) -> None:
        if one.topic_id in self._wanted[member] and len(self._readers_of[one]) < self._readers:
            self._readers_of[one].add(member)
            self._of_member[member].add(one)
