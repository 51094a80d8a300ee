"""Follows the topic that feeds an exchange as it gains partitions, is deleted or recreated."""

from collections.abc import Callable, Iterable, Mapping

from strom.broker.partition import HostedTopic, Partition
from strom.broker.queues.from_topic import Delivery, PartitionReader, Route
from strom.queues.definitions import Cursor
from strom.wire.kafka.records import Record


class TopicReader:
    """Reads all partitions of the topic, including added ones."""

    def __init__(
        self,
        vhost: str,
        exchange: str,
        deliveries: Callable[[Partition, Record], Iterable[Delivery]],
        is_open: Callable[[], bool],
    ) -> None:
        self.has_moved = False
        """Whether the cursor has changed since it was last read."""
        self._vhost = vhost
        self._exchange = exchange
        self._route = Route(exchange, deliveries, is_open, self._moved)
        self._topic_id = ""
        self._readers: list[PartitionReader] = []

    def _moved(self) -> None:
        self.has_moved = True

    def begin(self, topic: HostedTopic, *, from_first: bool) -> None:
        """Start to read a topic: from its first record, or from its end."""
        self._topic_id = topic.topic.id.hex
        for partition in topic.partitions:
            log = partition.log
            self._read(partition, log.start_offset if from_first else log.high_watermark)

    def resume(self, topic: HostedTopic | None, cursor: Cursor) -> None:
        """Continue at the cursor, if it belongs to this incarnation of the topic."""
        self._topic_id = cursor.topic_id
        if topic is not None:
            if not cursor.topic_id:  # stored before 0.1.1
                self._topic_id = topic.topic.id.hex
            if self._topic_id == topic.topic.id.hex:
                for index, partition in enumerate(topic.partitions):
                    position = cursor.positions.get(str(index))
                    if position is None:
                        break
                    self._read(partition, position, cursor.lagging.get(str(index)))
        self.follow(topic)

    def follow(self, topic: HostedTopic | None) -> None:
        """Adapt to a topic that has gained partitions, was deleted, or was recreated.

        All records of a new partition or topic are newer than the bridge: it is read from the first.
        """
        if topic is None or topic.topic.id.hex != self._topic_id:
            self.stop()
            self._readers = []
        if topic is None:
            return
        self._topic_id = topic.topic.id.hex
        for partition in topic.partitions[len(self._readers) :]:
            self._read(partition, partition.log.start_offset)
            self.has_moved = True

    def _read(
        self, partition: Partition, position: int, lagging: Mapping[str, int] | None = None
    ) -> None:
        # A power cut may have lost records that were routed; their offsets are reused.
        position = min(position, partition.log.end_offset)
        self._readers.append(PartitionReader(self._route, partition, position, lagging or {}))

    def cursor(self) -> Cursor:
        """The positions of all partitions, and of the targets that lag."""
        self.has_moved = False
        return Cursor(
            self._vhost,
            self._exchange,
            {str(index): reader.position for index, reader in enumerate(self._readers)},
            self._topic_id,
            {
                str(index): reader.lagging
                for index, reader in enumerate(self._readers)
                if reader.lagging
            },
        )

    @property
    def stopped_by_damage(self) -> int:
        """How many partitions cannot be read."""
        return sum(reader.is_stopped_by_damage for reader in self._readers)

    def stop(self) -> None:
        for reader in self._readers:
            reader.stop()
