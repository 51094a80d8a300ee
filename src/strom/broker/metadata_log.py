"""The metadata log: records are durable before they are replayed."""

import asyncio

from strom.broker.partition import Partition
from strom.broker.replaying import records_of
from strom.coordination.metadata.cluster import ClusterMetadata
from strom.coordination.metadata.records import MetadataRecord, decode, encode
from strom.model.errors import DirectoryOffline, ErrorCode
from strom.model.retries import RetryPolicy
from strom.model.topic_settings import TopicSettings
from strom.model.topics import METADATA_TOPIC, TopicPartition
from strom.storage.log import Appended, Log
from strom.supervision.retrying import retry_async
from strom.wire.kafka.records import Record, build_batch

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
RETRY = RetryPolicy(first_s=1.0)
METADATA_SETTINGS = TopicSettings(cleanup_policy=("compact",), flush="disk", segment_bytes=1 << 20)


class _Shortage(Exception):
    """A sync failed for want of space or descriptors, and a retry is sound."""


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
        # It is in the log and cannot be undone, so a shortage must be waited out.
        await retry_async(lambda: self._flush(appended), RETRY, _Shortage)
        for record in records:
            self._metadata.replay(record)

    async def _flush(self, appended: Appended) -> None:
        """Return when it is durable; _Shortage if that is impossible for now."""
        if self.partition.is_durable(appended):
            return
        flushed: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.partition.on_durable(appended, flushed.set_result)
        self.partition.sync_soon()
        if await flushed is ErrorCode.NONE:
            return
        if self.partition.log.offline is not None or self.partition.log.quarantined is not None:
            # It may exist after the next start, or not: the broker cannot continue.
            raise DirectoryOffline("a change to the metadata could not be synced")
        raise _Shortage


def load(log: Log, metadata: ClusterMetadata) -> None:
    """Replay the whole log; CorruptData if it cannot be read to its end."""
    for record in records_of(log):
        metadata.replay(decode(record.key, record.value))
