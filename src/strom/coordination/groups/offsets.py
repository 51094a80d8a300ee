"""How far every group has read. Only `replay` and the ends of transactions change it."""

from collections.abc import Callable, Iterator, Mapping

from strom.coordination.groups.pending_offsets import OpenTransaction, PendingOffsets
from strom.coordination.groups.records import (
    CommittedOffset,
    OffsetCommitted,
    OffsetGone,
)
from strom.model.topics import TopicPartition
from strom.wire.kafka.schema import Uuid

NOTHING: Mapping[TopicPartition, CommittedOffset] = {}


class Offsets:
    """Committed offsets by group and partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending = PendingOffsets()

    def of(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Everything that a group has committed."""
        return self._by_group.get(group, NOTHING)

    def pending(self, group: str) -> frozenset[TopicPartition]:
        """The partitions for which an open transaction holds another offset of the group."""
        return self._pending.of(group)

    def of_topics_that(
        self, are_gone: Callable[[str, Uuid], bool]
    ) -> Iterator[tuple[str, list[OffsetGone]]]:
        """Every group that has read such a topic, with the records that forget it."""
        gone: dict[str, dict[TopicPartition, None]] = {}
        for group, partition, offset in [*self._everything(), *self._pending.offsets()]:
            if are_gone(partition.topic, offset.topic_id):
                gone.setdefault(group, {})[partition] = None
        for group, partitions in gone.items():
            yield group, [OffsetGone(group, partition) for partition in partitions]

    def _everything(self) -> Iterator[tuple[str, TopicPartition, CommittedOffset]]:
        for group, committed in self._by_group.items():
            for partition, offset in committed.items():
                yield group, partition, offset

    def all_gone(self, group: str) -> list[OffsetGone]:
        """The records that forget everything a group has committed, or would have."""
        everything = {*self.of(group), *self._pending.of(group)}
        return [OffsetGone(group, partition) for partition in sorted(everything)]

    def expired(
        self,
        group: str,
        *,
        keeps: Callable[[str], bool],
        empty_since_ms: int,
        now_ms: int,
        retention_ms: int,
    ) -> list[OffsetGone]:
        """The records that forget what has outlived its time, of topics that the group does not keep.

        The time counts from when the group became empty, if that is known, else from the commit.
        """
        pending = self._pending.of(group)
        return [
            OffsetGone(group, partition)
            for partition, committed in self.of(group).items()
            if partition not in pending
            and not keeps(partition.topic)
            and now_ms >= _end_of_life(committed, empty_since_ms, retention_ms)
        ]

    def replay(
        self, record: OffsetCommitted | OffsetGone, transaction: OpenTransaction | None = None
    ) -> None:
        """Take a record that is in the log into the state; in a transaction, it is pending."""
        match record:
            case OffsetCommitted() if transaction is not None:
                self._pending.add(transaction, record)
            case OffsetCommitted():
                self._by_group.setdefault(record.group, {})[record.partition] = record.offset
                self._pending.overtake(record.group, record.partition)
            case OffsetGone():
                self._pending.forget(record.group, record.partition)
                committed = self._by_group.get(record.group, {})
                committed.pop(record.partition, None)
                if not committed:
                    self._by_group.pop(record.group, None)

    def end_transaction(self, transaction: OpenTransaction, *, committed: bool) -> None:
        """A marker is in the log: what was pending comes into force, or is dropped."""
        for record in self._pending.end(transaction, committed=committed):
            self._by_group.setdefault(record.group, {})[record.partition] = record.offset


def _end_of_life(committed: CommittedOffset, empty_since_ms: int, retention_ms: int) -> int:
    if committed.expires_ms is not None:
        return committed.expires_ms
    return max(committed.committed_ms, empty_since_ms) + retention_ms
