"""A topic that this broker hosts: what the cluster knows of it, with its partitions at work."""

from dataclasses import dataclass, field

from strom.broker.partition import Partition
from strom.coordination.metadata.records import Topic
from strom.model.errors import ApiError, ErrorCode
from strom.model.topic_settings import TopicSettings


@dataclass
class HostedTopic:
    """Metadata, effective settings and partitions of one topic."""

    topic: Topic
    settings: TopicSettings
    partitions: list[Partition] = field(default_factory=list)

    def partition(self, index: int) -> Partition:
        """One partition, or UNKNOWN_TOPIC_OR_PARTITION."""
        if 0 <= index < len(self.partitions):
            return self.partitions[index]
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def change(self, topic: Topic, settings: TopicSettings) -> None:
        """Take on what the metadata now says."""
        self.topic = topic
        self.settings = settings
        for partition in self.partitions:
            partition.log.change_settings(settings)
