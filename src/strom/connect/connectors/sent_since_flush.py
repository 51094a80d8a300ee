"""What a sink at least once need not send again."""

from collections.abc import Iterable, Sequence

from strom.connect.api import SinkContext, SinkRecord, TopicPartition


class SentSinceFlush:
    """The records that the other side has since the last flush.

    After a failure the runtime brings everything since then once more. Most of it was taken already, and
    this knows it: only a crash makes such a sink repeat itself.
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
        """This one, and all before it in its partition, were sent."""
        self._next[record.origin] = record.offset + 1

    def note_apart(self, records: Iterable[SinkRecord]) -> None:
        """These were sent, but perhaps not those before them."""
        self._apart.update((*record.origin, record.offset) for record in records)

    def note_all(self, records: Iterable[SinkRecord]) -> None:
        """All of a call's records were sent."""
        self._next.update((record.origin, record.offset + 1) for record in records)
        self._apart.clear()

    def open(self, partitions: Sequence[TopicPartition], context: SinkContext) -> None:
        """Forget what was sent of a topic that was recreated: its offsets are those of other records."""
        for topic in {partition.topic for partition in partitions}:
            topic_id = context.topic_id(topic)
            if topic_id is None or self._topic_ids.setdefault(topic, topic_id) == topic_id:
                continue
            self._topic_ids[topic] = topic_id
            self._next = {one: at for one, at in self._next.items() if one[0] != topic}
            self._apart = {one for one in self._apart if one[0] != topic}

    def clear(self) -> None:
        """A flush was made: what comes from here on is new, whatever its offsets are."""
        self._next.clear()
        self._apart.clear()
