"""The metadata log on disk: records are durable before they count."""

import asyncio

from strom.broker.partition import Partition
from strom.broker.replaying import records_of
from strom.coordination.metadata.cluster import ClusterMetadata
from strom.coordination.metadata.records import MetadataRecord, decode, encode
from strom.model.errors import DirectoryOffline, ErrorCode
from strom.model.topic_settings import TopicSettings
from strom.model.topics import METADATA_TOPIC, TopicPartition
from strom.storage.log import Log
from strom.wire.kafka.records import Record, build_batch

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
METADATA_SETTINGS = TopicSettings(cleanup_policy=("compact",), flush="disk", segment_bytes=1 << 20)


class MetadataLog:
    """Writes metadata records, waits for the disk, then lets them count."""

    def __init__(self, partition: Partition, metadata: ClusterMetadata) -> None:
        self.partition = partition
        self._metadata = metadata

    async def commit(self, *records: MetadataRecord, now_ms: int) -> None:
        """Return when the records are on disk and part of the state."""
        batch = build_batch(
            [
                Record(index, now_ms, key, value, ())
                for index, (key, value) in enumerate(map(encode, records))
            ]
        )
        appended = self.partition.append(batch, now_ms, from_client=False)
        if not self.partition.is_safe(appended):
            flushed: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
            self.partition.when_safe(appended, flushed.set_result)
            if await flushed is not ErrorCode.NONE:
                # It may be there after the next start, or not: nobody can go on from here.
                raise DirectoryOffline("a change to the metadata could not be synced")
        for record in records:
            self._metadata.replay(record)


def load(log: Log, metadata: ClusterMetadata) -> None:
    """Bring the state to what the log says; CorruptData if it cannot be read to its end."""
    for record in records_of(log):
        metadata.replay(decode(record.key, record.value))
