"""The topics of a data directory and their settings, read from its metadata log without a broker."""

from strom.broker.metadata_log import METADATA_PARTITION
from strom.coordination.metadata.cluster import ClusterMetadata
from strom.coordination.metadata.records import TopicMetadata, decode
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import CorruptData, UserError
from strom.model.topic_settings import TopicSettings
from strom.model.topics import TopicPartition
from strom.storage.batch_walk import DamagedBatch, walk_batches
from strom.storage.directory_files import read_points
from strom.storage.files import FileSystem
from strom.storage.folder import list_segments
from strom.wire.kafka.records import read_records


class StoredTopics:
    """Settings that a broker was started with are not stored: their defaults are assumed."""

    def __init__(self, files: FileSystem, data: str) -> None:
        self._metadata = ClusterMetadata()
        folder = f"{data}/{METADATA_PARTITION}"
        if not files.is_directory(folder):
            raise UserError(
                f"{data} is not a data directory of strom: it has no {METADATA_PARTITION}."
            )
        for _, path in list_segments(files, folder):
            self._replay(files, path)
        try:
            self._points = read_points(files, data)
        except CorruptData:
            self._points = {}
        for_all, for_one = self._metadata.broker_configs(None), self._metadata.broker_configs(1)
        self._defaults = BrokerSettings().override({**for_all, **for_one}).topic_defaults

    def _replay(self, files: FileSystem, path: str) -> None:
        file = files.open(path)
        try:
            for _, header, data in walk_batches(file, 0, file.size()):
                if not header.is_control:
                    for record in read_records(data, 0, header):
                        self._metadata.replay(decode(record.key, record.value))
        except DamagedBatch:
            pass  # a write in flight; `strom verify` reports damage
        finally:
            file.close()

    def names(self) -> list[str]:
        return [topic.name for topic in self._metadata.topics()]

    def find(self, name: str) -> TopicMetadata | None:
        return self._metadata.find(name)

    def settings(self, topic: TopicMetadata) -> TopicSettings:
        """The settings of a topic, as far as they are stored."""
        return self._defaults.override(topic.configs)

    def start_offset(self, topic: TopicMetadata, partition: int) -> int:
        """The log start offset of a partition at the last checkpoint."""
        point = self._points.get((str(TopicPartition(topic.name, partition)), topic.id))
        return 0 if point is None else point.start_offset
