"""A position in a topic: the next offset to read in each partition."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class TopicOffsets:
    """One offset per partition; 0 for a partition that is not listed, since it was added later."""

    next: tuple[int, ...] = ()

    @classmethod
    def of(cls, positions: Mapping[int, int]) -> Self:
        size = max(positions, default=-1) + 1
        return cls(tuple(positions.get(partition, 0) for partition in range(size)))

    def __getitem__(self, partition: int) -> int:
        return self.next[partition] if partition < len(self.next) else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicOffsets) and self._trimmed() == other._trimmed()

    def __hash__(self) -> int:
        return hash(self._trimmed())

    def __le__(self, other: "TopicOffsets") -> bool:
        """Whether no partition is ahead of the other position."""
        return all(self[partition] <= other[partition] for partition in self._partitions(other))

    def __sub__(self, other: "TopicOffsets") -> int:
        """The number of offsets between the other position and this one."""
        return sum(self[partition] - other[partition] for partition in self._partitions(other))

    def __str__(self) -> str:
        return ",".join(map(str, self.next)) or "0"

    def at_most(self, start: "TopicOffsets", records: int) -> "TopicOffsets":
        """This position, limited to `records` after `start`.

        Partitions are limited in proportion to their lag. One that is behind `start` stays.
        """
        partitions = self._partitions(start)
        lags = [max(0, self[partition] - start[partition]) for partition in partitions]
        total = sum(lags)
        if total <= records:
            return self
        taken = [one * records // total for one in lags]
        by_remainder = sorted(partitions, key=lambda one: lags[one] * records % total)
        for partition in by_remainder[len(partitions) - (records - sum(taken)) :]:
            taken[partition] += 1
        return TopicOffsets(tuple(min(start[one], self[one]) + taken[one] for one in partitions))

    def towards(self, end: "TopicOffsets", steps: int) -> "list[TopicOffsets]":
        """`steps` + 1 positions from this one to `end`, both inclusive, about evenly spaced."""
        size = self._partitions(end)
        return [
            TopicOffsets(tuple(self[p] + (end[p] - self[p]) * step // steps for p in size))
            for step in range(steps + 1)
        ]

    def _partitions(self, other: "TopicOffsets") -> range:
        return range(max(len(self.next), len(other.next)))

    def _trimmed(self) -> tuple[int, ...]:
        size = len(self.next)
        while size and self.next[size - 1] == 0:
            size -= 1
        return self.next[:size]
