"""How far every group has read. Only `replay` changes it."""

from collections.abc import Callable, Iterator, Mapping

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

    def of(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Everything that a group has committed."""
        return self._by_group.get(group, NOTHING)

    def of_topics_that(
        self, are_gone: Callable[[str, Uuid], bool]
    ) -> Iterator[tuple[str, list[OffsetGone]]]:
        """Every group that has read such a topic, with the records that forget it."""
        for group, committed in list(self._by_group.items()):
            gone = [
                OffsetGone(group, partition)
                for partition, one in committed.items()
                if are_gone(partition.topic, one.topic_id)
            ]
            if gone:
                yield group, gone

    def all_gone(self, group: str) -> list[OffsetGone]:
        """The records that forget everything a group has committed."""
        return [OffsetGone(group, partition) for partition in self.of(group)]

    def expired(
        self, group: str, *, empty_since_ms: int, now_ms: int, retention_ms: int
    ) -> list[OffsetGone]:
        """The records that forget what has outlived its time, in a group without members.

        The time counts from when the group became empty, if it ever had members, else from the commit.
        """
        return [
            OffsetGone(group, partition)
            for partition, committed in self.of(group).items()
            if now_ms >= _end_of_life(committed, empty_since_ms, retention_ms)
        ]

    def replay(self, record: OffsetCommitted | OffsetGone) -> None:
        """Take a record that is in the log into the state."""
        match record:
            case OffsetCommitted():
                self._by_group.setdefault(record.group, {})[record.partition] = record.offset
            case OffsetGone():
                committed = self._by_group.get(record.group, {})
                committed.pop(record.partition, None)
                if not committed:
                    self._by_group.pop(record.group, None)


def _end_of_life(committed: CommittedOffset, empty_since_ms: int, retention_ms: int) -> int:
    if committed.expires_ms is not None:
        return committed.expires_ms
    return max(committed.committed_ms, empty_since_ms) + retention_ms
