"""The metadata log: records are durable before they are replayed."""

import asyncio

from strom.broker.partition import Partition
from strom.broker.replaying import records_of
from strom.coordination.metadata.cluster import ClusterMetadata
from strom.coordination.metadata.records import MetadataRecord, decode, encode
from strom.model.errors import DirectoryOffline, ErrorCode
from strom.model.topic_settings import TopicSettings
from strom.model.topics import METADATA_TOPIC, TopicPartition
from strom.storage.log import Appended, Log
from strom.wire.kafka.records import Record, build_batch

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
RETRY_S = 1.0
METADATA_SETTINGS = TopicSettings(cleanup_policy=("compact",), flush="disk", segment_bytes=1 << 20)


class MetadataLog:
    """Writes metadata records, waits until they are durable, and replays them."""

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
        while not self.partition.is_durable(appended):
            if not await self._is_flushed(appended):
                # It is in the log and cannot be undone, so the shortage must be waited out.
                await asyncio.sleep(RETRY_S)
        for record in records:
            self._metadata.replay(record)

    async def _is_flushed(self, appended: Appended) -> bool:
        """Whether it is durable; False if a shortage prevents that for now."""
        flushed: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.partition.on_durable(appended, flushed.set_result)
        self.partition.sync_soon()
        if await flushed is ErrorCode.NONE:
            return True
        if self.partition.log.offline is not None or self.partition.log.quarantined is not None:
            # It may exist after the next start, or not: the broker cannot continue.
            raise DirectoryOffline("a change to the metadata could not be synced")
        return False


def load(log: Log, metadata: ClusterMetadata) -> None:
    """Replay the whole log; CorruptData if it cannot be read to its end."""
    for record in records_of(log):
        metadata.replay(decode(record.key, record.value))
