"""The committed offsets of all groups. Only `replay` and the ends of transactions change them."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from strom.coordination.groups.pending_offsets import OpenTransaction, PendingOffsets
from strom.coordination.groups.records import (
    CommittedOffset,
    OffsetCommitted,
    OffsetDeleted,
)
from strom.model.topics import TopicPartition
from strom.wire.kafka.schema import Uuid

RECORDS_AT_ONCE = 100
"""Records that are written in one step: about a millisecond."""
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
        """Tombstones for the offsets of such topics, each time for some of one group, or none.

        Transactions may end in between: pending offsets come first, so that those which become
        committed ones are found as such.
        """
        for group in self._pending.groups():
            yield from _tombstones_of(group, self._pending.in_force(group), are_gone)
        for group in list(self._by_group):
            yield from _tombstones_of(group, self.of(group).items(), are_gone)

    def tombstones(self, group: str) -> list[OffsetDeleted]:
        """The tombstones for all offsets of a group, committed or pending."""
        everything = {*self.of(group), *self._pending.of(group)}
        return [OffsetDeleted(group, partition) for partition in sorted(everything)]

    def expired(
        self,
        group: str,
        partitions: Iterable[TopicPartition],
        *,
        keeps: Callable[[str], bool],
        empty_since_ms: int,
        now_ms: int,
        retention_ms: int,
    ) -> list[OffsetDeleted]:
        """The tombstones for those of these offsets that are expired (KIP-211).

        Offsets of topics that the group keeps do not expire.

        The retention begins when the group became empty, if known, else with the commit.
        """
        offsets = self.of(group)
        return [
            OffsetDeleted(group, partition)
            for partition in partitions
            if (committed := offsets.get(partition)) is not None
            and not self._pending.has(group, partition)
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


def _tombstones_of(
    group: str,
    offsets: Iterable[tuple[TopicPartition, CommittedOffset]],
    are_gone: Callable[[str, Uuid], bool],
) -> Iterator[tuple[str, list[OffsetDeleted]]]:
    """Tombstones for those offsets whose topics are gone, some at a time; at least once."""
    found = (one for one, offset in offsets if are_gone(one.topic, offset.topic_id))
    partitions = list(dict.fromkeys(found))
    for first in range(0, max(1, len(partitions)), RECORDS_AT_ONCE):
        some = partitions[first : first + RECORDS_AT_ONCE]
        yield group, [OffsetDeleted(group, partition) for partition in some]


def _expires_ms(committed: CommittedOffset, empty_since_ms: int, retention_ms: int) -> int:
    if committed.expires_ms is not None:
        return committed.expires_ms
    return max(committed.committed_ms, empty_since_ms) + retention_ms
