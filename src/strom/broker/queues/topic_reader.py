"""The topic that feeds an exchange, with whatever happens to it: it grows, goes, and comes again."""

from collections.abc import Callable, Iterable, Mapping

from strom.broker.partition import Partition
from strom.broker.queues.from_topic import Delivery, PartitionReader, Route
from strom.broker.topics import HostedTopic
from strom.queues.definitions import Cursor
from strom.wire.kafka.records import Record


class TopicReader:
    """Reads all partitions of the topic, and those that are added."""

    def __init__(
        self,
        vhost: str,
        exchange: str,
        deliveries: Callable[[Partition, Record], Iterable[Delivery]],
        is_open: Callable[[], bool],
    ) -> None:
        self.has_moved = False
        """Whether the cursor is another than was last asked for."""
        self._vhost = vhost
        self._exchange = exchange
        self._route = Route(exchange, deliveries, is_open, self._moved)
        self._topic_id = ""
        self._readers: list[PartitionReader] = []

    def _moved(self) -> None:
        self.has_moved = True

    def begin(self, topic: HostedTopic, *, from_first: bool) -> None:
        """Read a topic for the first time: from its first record on, or what comes from now on."""
        self._topic_id = topic.topic.id.hex
        for partition in topic.partitions:
            log = partition.log
            self._read(partition, log.start_offset if from_first else log.high_watermark)

    def resume(self, topic: HostedTopic | None, cursor: Cursor) -> None:
        """Go on where the cursor says, if it is about this very topic."""
        self._topic_id = cursor.topic_id
        if topic is not None:
            if not cursor.topic_id:  # written before cursors had one
                self._topic_id = topic.topic.id.hex
            if self._topic_id == topic.topic.id.hex:
                for index, partition in enumerate(topic.partitions):
                    position = cursor.positions.get(str(index))
                    if position is None:
                        break
                    self._read(partition, position, cursor.lagging.get(str(index)))
        self.follow(topic)

    def follow(self, topic: HostedTopic | None) -> None:
        """The topic may have more partitions, be gone, or be another one of the same name.

        Everything in a new partition, and in a new topic, was written after the exchange joined: it is
        read from the first record on.
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
        # A power cut may have taken records that were routed; their offsets are given again.
        position = min(position, partition.log.end_offset)
        self._readers.append(PartitionReader(self._route, partition, position, lagging or {}))

    def cursor(self) -> Cursor:
        """How far each partition was read, and each target that lags has got."""
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

    def stop(self) -> None:
        for reader in self._readers:
            reader.stop()
