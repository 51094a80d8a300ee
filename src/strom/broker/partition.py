"""Topics that this broker hosts, and their partitions: the log, and the requests that wait for it."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from strom.broker.group_commit import GroupCommit, Sync
from strom.coordination.groups.topics_image import TopicInfo
from strom.coordination.metadata.records import TopicMetadata
from strom.metrics.storage import PartitionReading
from strom.model.errors import ApiError, ErrorCode
from strom.model.steps import Steps, run_at_once
from strom.model.topic_settings import TopicSettings
from strom.storage.flush import Flush
from strom.storage.log import Appended, Log
from strom.storage.validation import LongValidation, Validated, is_long, validation_steps
from strom.wire.kafka.batch import read_header
from strom.wire.kafka.schema import Uuid

logger = logging.getLogger(__name__)

OnDurable: TypeAlias = Callable[[ErrorCode], None]
CheckSchemas: TypeAlias = Callable[[bytearray | memoryview], Steps[None]]


class RecordsWaiter(Protocol):
    """A request that waits for new records in a partition, or for its deletion."""

    def partition_changed(self) -> None:
        """Check the partition again."""
        ...


class Partition:
    """A log with the requests that wait for it. Event loop only."""

    def __init__(
        self,
        log: Log,
        commit: GroupCommit,
        leader_epoch: int,
        check_schemas: CheckSchemas | None = None,
    ) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.deleted = False
        self.bytes_out = 0
        """Bytes that fetches have sent since the broker started, for metrics."""
        self._first_offset = log.end_offset
        """The first offset that was assigned since the broker started."""
        self._markers = self._marker_bytes = 0
        self._commit = commit
        self._check_schemas = check_schemas
        self._waiting_for_disk: deque[tuple[int, OnDurable]] = deque()
        self._waiting_for_records: dict[RecordsWaiter, None] = {}
        self._unflushed_records = 0
        self._unflushed_since_ms = 0
        self._flush_was_refused = False

    def append(
        self,
        batches: bytearray | memoryview,
        now_ms: int,
        *,
        from_client: bool = True,
        at_once: bool = True,
        validated: Validated | None = None,
    ) -> Appended:
        """Append; consumers see it at once, or (with flush=disk) when it is durable.

        `at_once=False` raises LongValidation if validating takes long; then append the result of
        `validation_steps` as `validated`.
        """
        if self.deleted:  # without its folder, a write would be taken for a failure of the disk
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        settings = self.log.settings
        if settings.schema_validation and self._check_schemas is not None and validated is None:
            if not at_once and is_long(read_header(batches)):
                raise LongValidation
            run_at_once(self._check_schemas(batches))
        appended = self.log.append(
            batches,
            now_ms=now_ms,
            leader_epoch=self.leader_epoch,
            from_client=from_client,
            at_once=at_once,
            validated=validated,
        )
        if settings.flush == "disk":
            self._commit.mark_dirty(self)
        else:
            self._unflushed_since_ms = self._unflushed_since_ms or now_ms
            self._unflushed_records += appended.last_offset - appended.base_offset + 1
            if self._unflushed_records >= settings.flush_messages:
                self._commit.mark_dirty(self)
            self._wake_readers()
        return appended

    def validation_steps(self, batches: bytearray | memoryview, now_ms: int) -> Steps[Validated]:
        """Validate a client's batch in small steps, before it is appended."""
        settings = self.log.settings
        if settings.schema_validation and self._check_schemas is not None:
            yield from self._check_schemas(batches)
        return (yield from validation_steps(batches, settings, now_ms))

    def is_durable(self, appended: Appended) -> bool:
        """Whether an append is as durable as the topic's `flush` requires."""
        settings = self.log.settings
        if settings.flush == "os" and self._unflushed_records < settings.flush_messages:
            return True
        return self.log.flushed_offset > appended.last_offset

    def on_durable(self, appended: Appended, callback: OnDurable) -> None:
        """Call back when an append is durable, or with the error if it cannot be."""
        self._waiting_for_disk.append((appended.last_offset, callback))

    async def wait_until_synced(self, last_offset: int) -> ErrorCode:
        """Sync, and return when everything up to an offset is on disk, or the error if it cannot be."""
        if self.deleted:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.log.flushed_offset > last_offset:
            return ErrorCode.NONE
        synced: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def resolve(code: ErrorCode) -> None:
            if not synced.done():  # a stop may have cancelled the task that waits
                synced.set_result(code)

        self._waiting_for_disk.append((last_offset, resolve))
        self.sync_soon()
        return await synced

    async def wait_until_durable(self, appended: Appended) -> ErrorCode:
        """The same for an append, as far as the topic's `flush` requires it."""
        if self.is_durable(appended):
            return ErrorCode.NONE
        return await self.wait_until_synced(appended.last_offset)

    def sync_soon(self) -> None:
        """Sync in the next round, even after an earlier attempt failed."""
        self._commit.mark_dirty(self)

    def flush_if_overdue(self, now_ms: int) -> None:
        """Sync if `flush.ms` has passed since the oldest unflushed record, or a segment was closed.

        Also retries a sync that a shortage prevented, without a further append.
        """
        since = self._unflushed_since_ms
        overdue = since and now_ms - since >= self.log.settings.flush_ms
        if overdue or self.log.wants_flush or self._flush_was_refused:
            self._commit.mark_dirty(self)

    def wait_for_records(self, waiter: RecordsWaiter) -> None:
        """Notify the waiter of new records."""
        self._waiting_for_records[waiter] = None

    def stop_waiting(self, waiter: RecordsWaiter) -> None:
        self._waiting_for_records.pop(waiter, None)

    def begin_flush(self) -> Flush | None:
        """For the group commit: what to sync now."""
        if self.deleted:
            return None
        self._unflushed_records = self._unflushed_since_ms = 0
        self._flush_was_refused = False
        try:
            return self.log.begin_flush()
        except ApiError as error:  # only this log is damaged; the others of the round continue
            self._flush_was_refused = True
            self.fail(error.code)
            return None

    def finish_flush(self, done: Sync) -> None:
        """For the group commit: the flush is durable, so call back the waiting requests."""
        assert isinstance(done, Flush)  # noqa: S101 - begin_flush returned it
        self.log.finish_flush(done)
        waiting, flushed = self._waiting_for_disk, self.log.flushed_offset
        while waiting and waiting[0][0] < flushed:
            self._call_back(waiting.popleft()[1], ErrorCode.NONE)
        self._wake_readers()

    def abandon_flush(self, refused: Sync, error: ApiError) -> None:
        """For the group commit: the flush failed. Waiting requests fail; the next append retries."""
        assert isinstance(refused, Flush)  # noqa: S101 - begin_flush returned it
        self.log.abandon_flush(refused)
        self._flush_was_refused = True
        self.fail(error.code)

    def fail(self, code: ErrorCode) -> None:
        """Fail all requests that wait for the disk."""
        while self._waiting_for_disk:
            self._call_back(self._waiting_for_disk.popleft()[1], code)
        self._wake_readers()

    def delete_before(self, offset: int) -> int:
        """Advance the log start offset; returns the new one."""
        return self.log.delete_before(offset)

    def mark_deleted(self) -> None:
        """Fail all waiting requests, because the topic was deleted."""
        self.deleted = True
        self.fail(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def check_leader_epoch(self, expected: int) -> None:
        """ApiError if the client has an older or newer leader epoch; -1 skips the check."""
        if expected < 0 or expected == self.leader_epoch:
            return
        if expected < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def count_marker(self, size_bytes: int) -> None:
        """For metrics: no client produced what was appended last, because it is a transaction marker.

        Markers are subtracted, so that counting costs the appends of clients nothing.
        """
        self._markers += 1
        self._marker_bytes += size_bytes

    def reading(self) -> PartitionReading:
        """For metrics: the partition's counters, and the size of its log."""
        log = self.log
        return PartitionReading(
            *log.partition,
            log.appended_bytes - self._marker_bytes,
            self.bytes_out,
            log.end_offset - self._first_offset - self._markers,
            log.size_bytes,
            log.segment_count,
            log.start_offset,
            log.end_offset,
            log.damaged_offsets,
            log.quarantined is not None,
        )

    def _call_back(self, callback: OnDurable, code: ErrorCode) -> None:
        try:
            callback(code)
        except Exception:  # the other requests of the round must not wait for ever
            logger.exception("A request that waited for the disk of %s failed", self.log.partition)

    def _wake_readers(self) -> None:
        for waiter in tuple(self._waiting_for_records):
            try:
                waiter.partition_changed()
            except Exception:  # neither must those that wait for records
                logger.exception(
                    "A request that waited for records of %s failed", self.log.partition
                )


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
