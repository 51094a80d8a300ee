"""Ranges of records, and SQL conditions that select them among parsed rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from strom.pipelines.offsets import TopicOffsets

Record = tuple[int, int]
"""A record's partition and offset."""


@dataclass(frozen=True)
class RecordRange:
    """The offsets between two positions, numbered through, partition after partition."""

    start: TopicOffsets
    end: TopicOffsets

    @property
    def size(self) -> int:
        """The number of offsets in between; not all of them need have a record."""
        return self.end - self.start

    def __contains__(self, record: Record) -> bool:
        partition, offset = record
        return self.start[partition] <= offset < self.end[partition]

    def record(self, index: int) -> Record:
        """The record at an index."""
        ((partition, offset, _),) = self._parts(index, index + 1)
        return partition, offset

    def condition(self, low: int, high: int) -> str:
        """The condition for the records from index `low` up to, not including, `high`."""
        return _any_of(
            f"_partition = {partition} AND _offset >= {first} AND _offset < {after}"
            for partition, first, after in self._parts(low, high)
        )

    def _parts(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        before = 0
        for partition in range(len(self.end.next)):
            first, after = self.start[partition], self.end[partition]
            part_low, part_high = max(low - before, 0), min(high - before, after - first)
            if part_low < part_high:
                yield partition, first + part_low, first + part_high
            before += after - first


def one_of(records: Iterable[Record], *, partition: str, offset: str) -> str:
    """The condition for these records, by the names of the two columns."""
    by_partition = groupby(sorted(records), key=lambda record: record[0])
    return _any_of(
        f"{partition} = {number} AND {offset} IN ({', '.join(str(one[1]) for one in same)})"
        for number, same in by_partition
    )


def in_slices(sizes: Sequence[tuple[int, int, int]], most_bytes: int) -> Iterator[str]:
    """Conditions for slices within a limit in bytes, of records with partition, offset and size."""
    spans: dict[int, tuple[int, int]] = {}
    held = 0
    for partition, offset, size in sorted(sizes):
        if spans and held + size > most_bytes:
            yield _within(spans)
            spans, held = {}, 0
        first, _ = spans.get(partition, (offset, offset))
        spans[partition] = first, offset
        held += size
    if spans:
        yield _within(spans)


def _within(spans: Mapping[int, tuple[int, int]]) -> str:
    return _any_of(
        f"_partition = {partition} AND _offset BETWEEN {first} AND {last}"
        for partition, (first, last) in spans.items()
    )


def _any_of(conditions: Iterable[str]) -> str:
    return " OR ".join(f"({one})" for one in conditions) or "false"
