"""A topic that this broker hosts: its metadata and partitions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from strom.broker.partition import Partition
from strom.coordination.groups.topics_image import TopicInfo
from strom.coordination.metadata.records import TopicMetadata
from strom.model.errors import ApiError, ErrorCode
from strom.model.topic_settings import TopicSettings
from strom.wire.kafka.schema import Uuid


@dataclass
class HostedTopic:
    """Metadata, effective settings and partitions of one topic."""

    topic: TopicMetadata
    settings: TopicSettings
    partitions: list[Partition] = field(default_factory=list)

    def partition(self, index: int) -> Partition:
        """One partition, or UNKNOWN_TOPIC_OR_PARTITION."""
        if 0 <= index < len(self.partitions):
            return self.partitions[index]
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def change(self, topic: TopicMetadata, settings: TopicSettings) -> None:
        self.topic = topic
        self.settings = settings
        for partition in self.partitions:
            partition.log.change_settings(settings)

    @property
    def facts(self) -> TopicInfo:
        return TopicInfo(self.topic.name, self.topic.id.bytes, len(self.partitions))


class HostedTopics:
    """The topics of this broker, as groups see them."""

    def __init__(
        self, by_name: Mapping[str, HostedTopic], by_id: Mapping[bytes, HostedTopic]
    ) -> None:
        self._by_name = by_name
        self._by_id = by_id

    def find(self, name: str) -> TopicInfo | None:
        hosted = self._by_name.get(name)
        return None if hosted is None else hosted.facts

    def find_id(self, topic_id: Uuid) -> TopicInfo | None:
        hosted = self._by_id.get(topic_id)
        return None if hosted is None else hosted.facts

    def __iter__(self) -> Iterator[TopicInfo]:
        return (hosted.facts for hosted in self._by_name.values())
