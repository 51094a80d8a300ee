"""The metadata log: records are durable before they are replayed."""

import uuid

from strom.broker.group_commit import GroupCommit
from strom.broker.partition import Partition
from strom.broker.replaying import records_of
from strom.coordination.metadata.cluster import ClusterMetadata
from strom.coordination.metadata.records import MetadataRecord, decode, encode
from strom.model.errors import ApiError, CorruptData, DirectoryOffline, ErrorCode, UserError
from strom.model.retries import RetryPolicy
from strom.model.topic_settings import TopicSettings
from strom.model.topics import METADATA_TOPIC, TopicPartition
from strom.storage.directory import DataDirectory
from strom.storage.log import Appended
from strom.supervision.retrying import retry_async
from strom.wire.kafka.records import Record, build_batch

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)
METADATA_TOPIC_ID = uuid.UUID(int=1)
RETRY = RetryPolicy(first_s=1.0)
METADATA_SETTINGS = TopicSettings(cleanup_policy=("compact",), flush="disk", segment_bytes=1 << 20)


class _Shortage(Exception):
    """A sync failed for want of space or descriptors, and a retry is sound."""


class MetadataLog:
    """Writes metadata records, waits until they are durable, and replays them."""

    def __init__(self, partition: Partition, metadata: ClusterMetadata) -> None:
        self.partition = partition
        self._metadata = metadata

    @classmethod
    def open(
        cls, directory: DataDirectory, metadata: ClusterMetadata, commit: GroupCommit
    ) -> "MetadataLog":
        """Open or create the log and replay all of it; UserError if that is impossible."""
        exists = directory.has_log(METADATA_PARTITION)
        if not exists:
            _check_empty(directory)
        open_or_create = directory.open_log if exists else directory.create_log
        try:
            log = open_or_create(
                METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_SETTINGS, leader_epoch=0
            )
        except ApiError as error:
            raise UserError(
                f"The metadata log cannot be created in {directory.path}: {error} Free space on its "
                "file system, then start again."
            ) from error
        try:
            for record in records_of(log):
                metadata.replay(decode(record.key, record.value))
        except CorruptData as error:
            raise UserError(
                f"The metadata log in {directory.path} cannot be read ({error}). Nothing was "
                "changed or deleted. Restore that folder from a backup, or start with another one.",
                setting="log.dirs",
            ) from error
        return cls(Partition(log, commit, leader_epoch=0), metadata)

    async def commit(self, *records: MetadataRecord, now_ms: int) -> None:
        """Return when the records are on disk and part of the state."""
        batch = build_batch(
            [Record(index, now_ms, *one) for index, one in enumerate(map(encode, records))]
        )
        appended = self.partition.append(batch, now_ms, from_client=False)
        # It is in the log and cannot be undone, so a shortage must be waited out.
        await retry_async(lambda: self._flush(appended), RETRY, _Shortage)
        for record in records:
            self._metadata.replay(record)

    async def _flush(self, appended: Appended) -> None:
        """Return when it is durable; _Shortage if that is impossible for now."""
        if await self.partition.wait_until_durable(appended) is ErrorCode.NONE:
            return
        if self.partition.log.offline is not None or self.partition.log.quarantined is not None:
            # It may exist after the next start, or not: the broker cannot continue.
            raise DirectoryOffline("a change to the metadata could not be synced")
        raise _Shortage


def _check_empty(directory: DataDirectory) -> None:
    """UserError if other logs exist: a new metadata log would make a broker without topics of it."""
    found = directory.partition_folders()
    if found:
        raise UserError(
            f"The folder {directory.folder(METADATA_PARTITION)} with the list of topics is missing, "
            f"but there are logs of {len(found)} partitions, such as {found[0]}. Nothing was changed. "
            "Restore that folder from a backup, or start with another one.",
            setting="log.dirs",
        )
