"""The committed offsets of all groups. Only `replay` and the ends of transactions change them."""

from collections.abc import Callable, Iterator, Mapping

from strom.coordination.groups.pending_offsets import OpenTransaction, PendingOffsets
from strom.coordination.groups.records import (
    CommittedOffset,
    OffsetCommitted,
    OffsetDeleted,
)
from strom.model.topics import TopicPartition
from strom.wire.kafka.schema import Uuid

NOTHING: Mapping[TopicPartition, CommittedOffset] = {}


class CommittedOffsets:
    """Committed offsets by group and partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending = PendingOffsets()

    def of(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._by_group.get(group, NOTHING)

    def pending(self, group: str) -> frozenset[TopicPartition]:
        """The partitions with an offset in an open transaction."""
        return self._pending.of(group)

    def tombstones_of_topics(
        self, are_gone: Callable[[str, Uuid], bool]
    ) -> Iterator[tuple[str, list[OffsetDeleted]]]:
        """Every group with offsets of such topics, with the tombstones for them."""
        gone: dict[str, dict[TopicPartition, None]] = {}
        for group, partition, offset in [*self._everything(), *self._pending.offsets()]:
            if are_gone(partition.topic, offset.topic_id):
                gone.setdefault(group, {})[partition] = None
        for group, partitions in gone.items():
            yield group, [OffsetDeleted(group, partition) for partition in partitions]

    def _everything(self) -> Iterator[tuple[str, TopicPartition, CommittedOffset]]:
        for group, committed in self._by_group.items():
            for partition, offset in committed.items():
                yield group, partition, offset

    def tombstones(self, group: str) -> list[OffsetDeleted]:
        """The tombstones for all offsets of a group, committed or pending."""
        everything = {*self.of(group), *self._pending.of(group)}
        return [OffsetDeleted(group, partition) for partition in sorted(everything)]

    def expired(
        self,
        group: str,
        *,
        keeps: Callable[[str], bool],
        empty_since_ms: int,
        now_ms: int,
        retention_ms: int,
    ) -> list[OffsetDeleted]:
        """The tombstones for expired offsets of topics that the group does not keep (KIP-211).

        The retention begins when the group became empty, if known, else with the commit.
        """
        pending = self._pending.of(group)
        return [
            OffsetDeleted(group, partition)
            for partition, committed in self.of(group).items()
            if partition not in pending
            and not keeps(partition.topic)
            and now_ms >= _expires_ms(committed, empty_since_ms, retention_ms)
        ]

    def replay(
        self, record: OffsetCommitted | OffsetDeleted, transaction: OpenTransaction | None = None
    ) -> None:
        """Apply a record from the log; in a transaction, it is pending."""
        match record:
            case OffsetCommitted() if transaction is not None:
                self._pending.add(transaction, record)
            case OffsetCommitted():
                self._by_group.setdefault(record.group, {})[record.partition] = record.offset
                self._pending.supersede(record.group, record.partition)
            case OffsetDeleted():
                self._pending.forget(record.group, record.partition)
                committed = self._by_group.get(record.group, {})
                committed.pop(record.partition, None)
                if not committed:
                    self._by_group.pop(record.group, None)

    def end_transaction(self, transaction: OpenTransaction, *, committed: bool) -> None:
        """Apply a marker: pending offsets are committed or dropped."""
        for record in self._pending.end(transaction, committed=committed):
            self._by_group.setdefault(record.group, {})[record.partition] = record.offset


def _expires_ms(committed: CommittedOffset, empty_since_ms: int, retention_ms: int) -> int:
    if committed.expires_ms is not None:
        return committed.expires_ms
    return max(committed.committed_ms, empty_since_ms) + retention_ms
