"""The records that an at-least-once sink need not send again."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from strom.connect.api import (
    ConnectorSettings,
    SinkContext,
    SinkRecord,
    SinkTask,
    TopicPartition,
)

S = TypeVar("S", bound=ConnectorSettings)


class SentSinceFlush:
    """The records that the external system has received since the last flush.

    After a failure the runtime puts everything since the last flush again. This skips what was already
    sent, so that only a crash causes duplicates.
    """

    def __init__(self) -> None:
        self._next: dict[tuple[str, int], int] = {}
        self._apart: set[tuple[str, int, int]] = set()
        self._topic_ids: dict[str, str] = {}

    def __contains__(self, record: object) -> bool:
        if not isinstance(record, SinkRecord):
            return False
        origin = record.origin
        return record.offset < self._next.get(origin, -1) or (*origin, record.offset) in self._apart

    def note_up_to(self, record: SinkRecord) -> None:
        """Mark this record, and all before it in its partition, as sent."""
        self._next[record.origin] = record.offset + 1

    def note_apart(self, records: Iterable[SinkRecord]) -> None:
        """Mark these records as sent, but not those before them."""
        self._apart.update((*record.origin, record.offset) for record in records)

    def note_all(self, records: Iterable[SinkRecord]) -> None:
        """Mark all records of a call as sent."""
        self._next.update((record.origin, record.offset + 1) for record in records)
        self._apart.clear()

    def open(self, partitions: Sequence[TopicPartition], context: SinkContext) -> None:
        """Clear the marks of recreated topics: their offsets belong to other records now."""
        for topic in {partition.topic for partition in partitions}:
            topic_id = context.topic_id(topic)
            if topic_id is None or self._topic_ids.setdefault(topic, topic_id) == topic_id:
                continue
            self._topic_ids[topic] = topic_id
            self._next = {one: at for one, at in self._next.items() if one[0] != topic}
            self._apart = {one for one in self._apart if one[0] != topic}

    def clear(self) -> None:
        """Clear all marks after a flush."""
        self._next.clear()
        self._apart.clear()


class UnbufferedSinkTask(SinkTask[S]):
    """A task whose `put` returns when the external system has the records, so that `flush` is free."""

    def __init__(self, settings: S, context: SinkContext) -> None:
        super().__init__(settings, context)
        self._sent = SentSinceFlush()

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Start from the group's offsets; of a recreated topic, nothing counts as sent."""
        self._sent.open(partitions, self.context)
        return {}

    def flush(self) -> None:
        self._sent.clear()
