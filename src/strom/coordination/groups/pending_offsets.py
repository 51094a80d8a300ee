"""Offsets that groups have committed within transactions which are still open.

They come into force when the transaction commits. A commit outside of transactions that was written
later wins over them, as Kafka has it; and forgetting an offset forgets also what is pending for it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from strom.coordination.groups.records import CommittedOffset, OffsetCommitted
from strom.model.topics import TopicPartition


class OpenTransaction(NamedTuple):
    """A producer's transaction as one partition of `__consumer_offsets` knows it."""

    partition: int
    producer_id: int


class PendingOffsets:
    """Offsets by transaction, group and partition; None for one that a later commit has overtaken."""

    def __init__(self) -> None:
        self._open: dict[
            OpenTransaction, dict[tuple[str, TopicPartition], CommittedOffset | None]
        ] = {}

    def of(self, group: str) -> frozenset[TopicPartition]:
        """The partitions for which offsets of this group are pending."""
        if not self._open:
            return frozenset()
        return frozenset(partition for name, partition in self._all() if name == group)

    def offsets(self) -> Iterator[tuple[str, TopicPartition, CommittedOffset]]:
        """Every offset that may still come into force."""
        for pending in self._open.values():
            for (group, partition), offset in pending.items():
                if offset is not None:
                    yield group, partition, offset

    def add(self, transaction: OpenTransaction, record: OffsetCommitted) -> None:
        """An offset was committed as part of a transaction."""
        pending = self._open.setdefault(transaction, {})
        pending[record.group, record.partition] = record.offset

    def overtake(self, group: str, partition: TopicPartition) -> None:
        """A commit outside of transactions came later: what is pending will not come into force."""
        for pending in self._open.values():
            if (group, partition) in pending:
                pending[group, partition] = None

    def forget(self, group: str, partition: TopicPartition) -> None:
        """The offset was deleted."""
        for transaction, pending in list(self._open.items()):
            pending.pop((group, partition), None)
            if not pending:
                del self._open[transaction]

    def end(self, transaction: OpenTransaction) -> list[OffsetCommitted]:
        """The transaction has ended: what would come into force now, if it was committed."""
        pending = self._open.pop(transaction, {})
        return [
            OffsetCommitted(group, partition, offset)
            for (group, partition), offset in pending.items()
            if offset is not None
        ]

    def _all(self) -> Iterator[tuple[str, TopicPartition]]:
        for pending in self._open.values():
            yield from pending
