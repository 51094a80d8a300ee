"""Kafka's `simple` assignor of share groups: every partition has a member, and every member a partition.

With at most as many members as partitions, each partition goes to one member. With more members,
partitions are shared. Members keep previous assignments as far as the balance allows.

The work is done in steps, each over one topic or one member: a large group takes tens of milliseconds.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush, heapreplace
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
    plan = _Plan(wanted, -(-len(wanted) // len(every)), every, partitions)
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
        partitions: Mapping[Uuid, int],
    ) -> None:
        self._wanted = wanted
        self._partitions = partitions
        self._readers = readers
        self._most = -(-len(every) * readers // len(wanted))
        """How many partitions a member gets if all have the same subscription."""
        self._readers_of: dict[OnePartition, set[str]] = {one: set() for one in every}
        self._of_member: dict[str, set[OnePartition]] = {member: set() for member in wanted}
        self._heaps: dict[Uuid, list[tuple[int, OnePartition]]] = {}

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
        subscribers: dict[Uuid, list[str]] = {}
        for member, topics in self._wanted.items():
            for topic_id in topics:
                subscribers.setdefault(topic_id, []).append(member)
            yield None
        filled, least_busy = None, list[tuple[int, str]]()
        for one in self._readers_of:
            if one.topic_id != filled:
                filled = one.topic_id
                least_busy = [
                    (len(self._of_member[member]), member) for member in subscribers.get(filled, ())
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
        """Assign the partition with the fewest members to a member without partitions.

        After `fill` nothing else changes how many members a partition has.
        """
        if self._of_member[member]:
            return
        heaps = list(filter(None, map(self._by_readers, self._wanted[member])))
        if heaps:
            heap = min(heaps, key=lambda each: each[0])
            readers, one = heap[0]
            heapreplace(heap, (readers + 1, one))
            self._readers_of[one].add(member)
            self._of_member[member].add(one)

    def _by_readers(self, topic_id: Uuid) -> list[tuple[int, OnePartition]]:
        """The partitions of a topic as a heap, those with the fewest members first."""
        heap = self._heaps.get(topic_id)
        if heap is None:
            count = self._partitions.get(topic_id, 0)
            every = (OnePartition(topic_id, number) for number in range(count))
            heap = self._heaps[topic_id] = [(len(self._readers_of[one]), one) for one in every]
            heapify(heap)
        return heap

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
