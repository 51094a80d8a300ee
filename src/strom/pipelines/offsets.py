"""A position in a topic: the next offset to read, in each partition."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Offsets:
    """One offset per partition. A partition that is not listed stands at 0: it did not exist yet."""

    next: tuple[int, ...] = ()

    @classmethod
    def of(cls, positions: Mapping[int, int]) -> Self:
        """From a mapping of partitions to offsets."""
        size = max(positions, default=-1) + 1
        return cls(tuple(positions.get(partition, 0) for partition in range(size)))

    def __getitem__(self, partition: int) -> int:
        return self.next[partition] if partition < len(self.next) else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Offsets) and self._trimmed() == other._trimmed()

    def __hash__(self) -> int:
        return hash(self._trimmed())

    def __le__(self, other: "Offsets") -> bool:
        """Whether this position is nowhere beyond the other."""
        return all(self[partition] <= other[partition] for partition in self._of_both(other))

    def __sub__(self, other: "Offsets") -> int:
        """How many offsets lie between."""
        return sum(self[partition] - other[partition] for partition in self._of_both(other))

    def __str__(self) -> str:
        return ",".join(map(str, self.next)) or "0"

    def at_most(self, start: "Offsets", records: int) -> "Offsets":
        """This position, or nearer to `start`, so that exactly so many records lie between.

        Every partition gets its share of them. Where this position is behind `start`, it stays.
        """
        partitions = self._of_both(start)
        waiting = [max(0, self[partition] - start[partition]) for partition in partitions]
        total = sum(waiting)
        if total <= records:
            return self
        taken = [one * records // total for one in waiting]
        by_remainder = sorted(partitions, key=lambda one: waiting[one] * records % total)
        for partition in by_remainder[len(partitions) - (records - sum(taken)) :]:
            taken[partition] += 1
        return Offsets(tuple(min(start[one], self[one]) + taken[one] for one in partitions))

    def towards(self, end: "Offsets", steps: int) -> "list[Offsets]":
        """Positions from this one to `end`, about evenly apart; both are among them."""
        size = self._of_both(end)
        return [
            Offsets(tuple(self[p] + (end[p] - self[p]) * step // steps for p in size))
            for step in range(steps + 1)
        ]

    def _of_both(self, other: "Offsets") -> range:
        return range(max(len(self.next), len(other.next)))

    def _trimmed(self) -> tuple[int, ...]:
        size = len(self.next)
        while size and self.next[size - 1] == 0:
            size -= 1
        return self.next[:size]
