"""Kafka's `simple` assignor of share groups: every partition has a member, and every member a partition.

With at most as many members as partitions, each partition goes to one member. With more members,
partitions are shared. Members keep previous assignments as far as the balance allows.

The work is done in steps, each over one topic or one member: a large group takes tens of milliseconds.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from strom.coordination.groups.share.records import Partitions
from strom.model.steps import PausingSteps
from strom.wire.kafka.schema import Uuid


class OnePartition(NamedTuple):
    """A partition by its topic's id."""

    topic_id: Uuid
    number: int


def assign_simple(
    wanted: Mapping[str, AbstractSet[Uuid]],
    partitions: Mapping[Uuid, int],
    before: Mapping[str, Partitions],
) -> PausingSteps[dict[str, Partitions]]:
    """The assignments, from the topics of each member and the partition count of each topic."""
    every = [
        OnePartition(topic_id, number)
        for topic_id in sorted(partitions)
        for number in range(partitions[topic_id])
    ]
    if not wanted or not every:
        return {member: {} for member in wanted}
    plan = _Plan(wanted, readers=-(-len(wanted) // len(every)), every=every)
    yield from plan.keep(before)
    yield from plan.fill()
    for member in sorted(wanted):
        plan.assign_idle(member)
        yield None
    return (yield from plan.result())


class _Plan:
    def __init__(
        self,
        wanted: Mapping[str, AbstractSet[Uuid]],
        readers: int,
        every: list[OnePartition],
    ) -> None:
        self._wanted = wanted
        self._readers = readers
        self._most = -(-len(every) * readers // len(wanted))
        """How many partitions a member gets if all have the same subscription."""
        self._readers_of: dict[OnePartition, set[str]] = {one: set() for one in every}
        self._of_member: dict[str, set[OnePartition]] = {member: set() for member in wanted}

    def keep(self, before: Mapping[str, Partitions]) -> PausingSteps[None]:
        """Keep partitions with their previous members, as far as the balance allows."""
        members: dict[OnePartition, list[str]] = {}
        for member in sorted(self._wanted):
            for topic_id, numbers in before.get(member, {}).items():
                for number in numbers:
                    members.setdefault(OnePartition(topic_id, number), []).append(member)
            yield None
        for one in self._readers_of:
            for member in members.get(one, ()):
                if len(self._of_member[member]) < self._most:
                    self._give(one, member)
            yield None

    def fill(self) -> PausingSteps[None]:
        """Assign partitions to more members until they have enough, the least busy ones first."""
        topic_id, least_busy = None, list[tuple[int, str]]()
        for one in self._readers_of:
            if one.topic_id != topic_id:
                topic_id = one.topic_id
                least_busy = [
                    (len(self._of_member[member]), member)
                    for member, topics in self._wanted.items()
                    if topic_id in topics
                ]
                heapify(least_busy)
            has_it_already = []
            while least_busy and len(self._readers_of[one]) < self._readers:
                busy, member = heappop(least_busy)
                if member in self._readers_of[one]:
                    has_it_already.append((busy, member))
                else:
                    self._give(one, member)
                    has_it_already.append((busy + 1, member))
            for item in has_it_already:
                heappush(least_busy, item)
            yield None

    def assign_idle(self, member: str) -> None:
        """Assign the partition with the fewest members to a member without partitions."""
        if self._of_member[member]:
            return
        may_read = [one for one in self._readers_of if one.topic_id in self._wanted[member]]
        if may_read:
            one = min(may_read, key=lambda each: (len(self._readers_of[each]), each))
            self._readers_of[one].add(member)
            self._of_member[member].add(one)

    def result(self) -> PausingSteps[dict[str, Partitions]]:
        """The partitions of every member, in order."""
        assignments: dict[str, Partitions] = {}
        for member, its in self._of_member.items():
            by_topic: dict[Uuid, list[int]] = {}
            for topic_id, number in sorted(its):
                by_topic.setdefault(topic_id, []).append(number)
            assignments[member] = {topic: tuple(numbers) for topic, numbers in by_topic.items()}
            yield None
        return assignments

    def _give(self, one: OnePartition, member: str) -> None:
        if one.topic_id in self._wanted[member] and len(self._readers_of[one]) < self._readers:
            self._readers_of[one].add(member)
            self._of_member[member].add(one)
