"""Offsets that groups have committed in transactions that are still open.

As in Kafka, they take effect when the transaction commits, unless a later commit already has; and
deleting an offset also deletes what is pending for it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from strom.coordination.groups.records import CommittedOffset, OffsetCommitted
from strom.model.topics import TopicPartition


class OpenTransaction(NamedTuple):
    """A producer's transaction in one partition of `__consumer_offsets`."""

    partition: int
    producer_id: int


class _Pending(NamedTuple):
    """An offset and its sequence number; None if a later commit has superseded it."""

    sequence: int
    offset: CommittedOffset | None


class PendingOffsets:
    """Offsets by transaction, group and partition."""

    def __init__(self) -> None:
        self._open: dict[OpenTransaction, dict[str, dict[TopicPartition, _Pending]]] = {}
        self._sequence = 0

    def of(self, group: str) -> frozenset[TopicPartition]:
        """The partitions with pending offsets of this group."""
        return frozenset(
            partition for groups in self._open.values() for partition in groups.get(group, ())
        )

    def offsets(self) -> Iterator[tuple[str, TopicPartition, CommittedOffset]]:
        """Every offset that may still take effect."""
        for groups in self._open.values():
            for group, _, partition, offset in _in_force(groups):
                yield group, partition, offset

    def add(self, transaction: OpenTransaction, record: OffsetCommitted) -> None:
        self._sequence += 1
        pending = self._open.setdefault(transaction, {}).setdefault(record.group, {})
        pending[record.partition] = _Pending(self._sequence, record.offset)

    def supersede(self, group: str, partition: TopicPartition, before: int | None = None) -> None:
        """A later commit supersedes pending offsets, optionally only those before a sequence number."""
        for groups in self._open.values():
            found = groups.get(group, {}).get(partition)
            if found is not None and (before is None or found.sequence < before):
                groups[group][partition] = _Pending(found.sequence, None)

    def forget(self, group: str, partition: TopicPartition) -> None:
        for transaction, groups in list(self._open.items()):
            pending = groups.get(group, {})
            pending.pop(partition, None)
            if not pending:
                groups.pop(group, None)
            if not groups:
                del self._open[transaction]

    def end(self, transaction: OpenTransaction, *, committed: bool) -> list[OffsetCommitted]:
        """End a transaction; returns the offsets that take effect."""
        groups = self._open.pop(transaction, {})
        if not committed:
            return []
        effective = []
        for group, sequence, partition, offset in _in_force(groups):
            self.supersede(group, partition, before=sequence)
            effective.append(OffsetCommitted(group, partition, offset))
        return effective


def _in_force(
    groups: dict[str, dict[TopicPartition, _Pending]],
) -> Iterator[tuple[str, int, TopicPartition, CommittedOffset]]:
    for group, pending in groups.items():
        for partition, (sequence, offset) in pending.items():
            if offset is not None:
                yield group, sequence, partition, offset
