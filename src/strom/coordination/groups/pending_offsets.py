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
        self._open: dict[OpenTransaction, dict[tuple[str, TopicPartition], _Pending]] = {}
        self._places = 0

    def of(self, group: str) -> frozenset[TopicPartition]:
        """The partitions for which offsets of this group are pending."""
        if not self._open:
            return frozenset()
        return frozenset(
            partition
            for pending in self._open.values()
            for name, partition in pending
            if name == group
        )

    def offsets(self) -> Iterator[tuple[str, TopicPartition, CommittedOffset]]:
        """Every offset that may still come into force."""
        for pending in self._open.values():
            for (group, partition), (_, offset) in pending.items():
                if offset is not None:
                    yield group, partition, offset

    def add(self, transaction: OpenTransaction, record: OffsetCommitted) -> None:
        """An offset was committed as part of a transaction."""
        self._places += 1
        pending = self._open.setdefault(transaction, {})
        pending[record.group, record.partition] = _Pending(self._places, record.offset)

    def overtake(self, group: str, partition: TopicPartition, before: int | None = None) -> None:
        """A commit that was written later counts: what is pending will not come into force."""
        for pending in self._open.values():
            found = pending.get((group, partition))
            if found is not None and (before is None or found.place < before):
                pending[group, partition] = _Pending(found.place, None)

    def forget(self, group: str, partition: TopicPartition) -> None:
        """The offset was deleted."""
        for transaction, pending in list(self._open.items()):
            pending.pop((group, partition), None)
            if not pending:
                del self._open[transaction]

    def end(self, transaction: OpenTransaction, *, committed: bool) -> list[OffsetCommitted]:
        """The transaction has ended: what comes into force now."""
        pending = self._open.pop(transaction, {})
        if not committed:
            return []
        for (group, partition), (place, offset) in pending.items():
            if offset is not None:
                self.overtake(group, partition, before=place)
        return [
            OffsetCommitted(group, partition, offset)
            for (group, partition), (_, offset) in pending.items()
            if offset is not None
        ]
