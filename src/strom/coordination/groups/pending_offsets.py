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
        self._transactions: dict[str, dict[TopicPartition, set[OpenTransaction]]] = {}
        """Those in `_open`, by group and partition: thousands may be open."""
        self._sequence = 0

    def of(self, group: str) -> frozenset[TopicPartition]:
        """The partitions with pending offsets of this group."""
        return frozenset(self._transactions.get(group, ()))

    def has(self, group: str, partition: TopicPartition) -> bool:
        """Whether it is one of these."""
        return partition in self._transactions.get(group, ())

    def groups(self) -> list[str]:
        """The groups with pending offsets."""
        return list(self._transactions)

    def in_force(self, group: str) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        """Every offset of a group that may still take effect."""
        for partition, transactions in self._transactions.get(group, {}).items():
            for transaction in transactions:
                offset = self._open[transaction][group][partition].offset
                if offset is not None:
                    yield partition, offset

    def add(self, transaction: OpenTransaction, record: OffsetCommitted) -> None:
        self._sequence += 1
        pending = self._open.setdefault(transaction, {}).setdefault(record.group, {})
        pending[record.partition] = _Pending(self._sequence, record.offset)
        partitions = self._transactions.setdefault(record.group, {})
        partitions.setdefault(record.partition, set()).add(transaction)

    def supersede(self, group: str, partition: TopicPartition, before: int | None = None) -> None:
        """A later commit supersedes pending offsets, optionally only those before a sequence number."""
        for transaction in self._transactions.get(group, {}).get(partition, ()):
            pending = self._open[transaction][group]
            found = pending[partition]
            if before is None or found.sequence < before:
                pending[partition] = _Pending(found.sequence, None)

    def forget(self, group: str, partition: TopicPartition) -> None:
        partitions = self._transactions.get(group, {})
        for transaction in partitions.pop(partition, ()):
            groups = self._open[transaction]
            del groups[group][partition]
            if not groups[group]:
                del groups[group]
            if not groups:
                del self._open[transaction]
        if not partitions:
            self._transactions.pop(group, None)

    def end(self, transaction: OpenTransaction, *, committed: bool) -> list[OffsetCommitted]:
        """End a transaction; returns the offsets that take effect."""
        groups = self._open.pop(transaction, {})
        for group, pending in groups.items():
            for partition in pending:
                self._remove(transaction, group, partition)
        if not committed:
            return []
        effective = []
        for group, pending in groups.items():
            for partition, (sequence, offset) in pending.items():
                if offset is not None:
                    self.supersede(group, partition, before=sequence)
                    effective.append(OffsetCommitted(group, partition, offset))
        return effective

    def _remove(self, transaction: OpenTransaction, group: str, partition: TopicPartition) -> None:
        partitions = self._transactions[group]
        partitions[partition].discard(transaction)
        if not partitions[partition]:
            del partitions[partition]
        if not partitions:
            del self._transactions[group]
