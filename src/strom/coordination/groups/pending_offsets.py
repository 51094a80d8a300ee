"""Offsets that groups have committed within transactions which are still open.

They come into force when the transaction commits, unless a commit that was written later already has; and
forgetting an offset forgets also what is pending for it. All as Kafka has it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from strom.coordination.groups.records import CommittedOffset, OffsetCommitted
from strom.model.topics import TopicPartition


class OpenTransaction(NamedTuple):
    """A producer's transaction as one partition of `__consumer_offsets` knows it."""

    partition: int
    producer_id: int


class _Pending(NamedTuple):
    """An offset, and its place in the order of all of them; None if a later commit has overtaken it."""

    place: int
    offset: CommittedOffset | None


class PendingOffsets:
    """Offsets by transaction, group and partition."""

    def __init__(self) -> None:
        self._open: dict[OpenTransaction, dict[str, dict[TopicPartition, _Pending]]] = {}
        self._places = 0

    def of(self, group: str) -> frozenset[TopicPartition]:
        """The partitions for which offsets of this group are pending."""
        return frozenset(
            partition for groups in self._open.values() for partition in groups.get(group, ())
        )

    def offsets(self) -> Iterator[tuple[str, TopicPartition, CommittedOffset]]:
        """Every offset that may still come into force."""
        for groups in self._open.values():
            for group, _, partition, offset in _in_force(groups):
                yield group, partition, offset

    def add(self, transaction: OpenTransaction, record: OffsetCommitted) -> None:
        """An offset was committed as part of a transaction."""
        self._places += 1
        pending = self._open.setdefault(transaction, {}).setdefault(record.group, {})
        pending[record.partition] = _Pending(self._places, record.offset)

    def overtake(self, group: str, partition: TopicPartition, before: int | None = None) -> None:
        """A commit that was written later counts: what is pending will not come into force."""
        for groups in self._open.values():
            found = groups.get(group, {}).get(partition)
            if found is not None and (before is None or found.place < before):
                groups[group][partition] = _Pending(found.place, None)

    def forget(self, group: str, partition: TopicPartition) -> None:
        """The offset was deleted."""
        for transaction, groups in list(self._open.items()):
            pending = groups.get(group, {})
            pending.pop(partition, None)
            if not pending:
                groups.pop(group, None)
            if not groups:
                del self._open[transaction]

    def end(self, transaction: OpenTransaction, *, committed: bool) -> list[OffsetCommitted]:
        """The transaction has ended: what comes into force now."""
        groups = self._open.pop(transaction, {})
        if not committed:
            return []
        now_counts = []
        for group, place, partition, offset in _in_force(groups):
            self.overtake(group, partition, before=place)
            now_counts.append(OffsetCommitted(group, partition, offset))
        return now_counts


def _in_force(
    groups: dict[str, dict[TopicPartition, _Pending]],
) -> Iterator[tuple[str, int, TopicPartition, CommittedOffset]]:
    for group, pending in groups.items():
        for partition, (place, offset) in pending.items():
            if offset is not None:
                yield group, place, partition, offset
