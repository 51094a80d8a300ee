"""The broker: hosts topics, and changes the cluster metadata. It knows no sockets.

Everything here runs in one event loop. Changes of the metadata are serialized: validate, write the
record, wait until it is durable, replay it.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TypeVar

from strom.broker.group_commit import GroupCommit
from strom.broker.metadata_log import METADATA_PARTITION, MetadataLog
from strom.broker.partition import HostedTopic, HostedTopics, Partition
from strom.broker.schema_ids import SchemaIds
from strom.broker.topic_logs import DiskWork, TopicLogs
from strom.broker.turns import in_turns
from strom.coordination.metadata.cluster import ClusterMetadata
from strom.coordination.metadata.records import (
    BrokerConfigs,
    GroupConfigs,
    LeaderEpoch,
    MetadataRecord,
    TopicDeleted,
)
from strom.model.broker_settings import BrokerSettings
from strom.model.clock import Clock
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode, StorageError
from strom.model.group_settings import GroupSettings, check_group_configs
from strom.model.topic_settings import TopicSettings
from strom.model.topics import TopicPartition
from strom.storage.directory import DataDirectory
from strom.storage.files import FileSystem
from strom.storage.log import Log

log = logging.getLogger(__name__)

_NO_EPOCH_YET = "The disk was full at start: writes are rejected until the leader epoch is durable."

T = TypeVar("T")


class Broker:
    """Topics and partitions of one node."""

    def __init__(
        self,
        settings: BrokerSettings,
        directory: DataDirectory,
        clock: Clock,
        on_offline: Callable[[Exception], None],
    ) -> None:
        self.settings = settings
        self.directory = directory
        self.clock = clock
        self.metadata = ClusterMetadata()
        self.commit = GroupCommit(
            asyncio.get_running_loop(), self.storage_failed, max(1, directory.open_file_limit // 4)
        )
        self.start_settings = settings
        """The settings at start, without dynamic configs."""
        self.on_topic_deleted: list[Callable[[str], None]] = []
        """Callbacks for a deleted topic, when it can no longer be found."""
        self.on_topics_changed: list[Callable[[], None]] = []
        """Callbacks for created, extended or deleted topics."""
        self.after_topic_deleted: list[Callable[[str], Awaitable[None]]] = []
        """Longer work for a deleted topic, done before a topic of that name can be created again."""
        self.after_topics_changed: list[Callable[[], Awaitable[None]]] = []
        """Longer work for created, extended or deleted topics, done before the next change."""
        self._on_offline = on_offline
        self._is_offline = False
        self._hosted: dict[str, HostedTopic] = {}
        self._hosted_by_id: dict[bytes, HostedTopic] = {}
        self.topics_image = HostedTopics(self._hosted, self._hosted_by_id)
        self._metadata_log: MetadataLog | None = None
        self._uncommitted: list[MetadataRecord] = []
        """Metadata records of the start that the disk had no space for yet."""
        self._changing = asyncio.Lock()
        self._producer_ids = range(0)
        self._disk_work = DiskWork()
        self._checkpointing = asyncio.Lock()
        self._logs = TopicLogs(
            directory, self.commit, SchemaIds(self.find_topic).check, self._disk_work
        )

    # --- lifecycle -----------------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        settings: BrokerSettings,
        files: FileSystem,
        clock: Clock,
        on_offline: Callable[[Exception], None],
    ) -> "Broker":
        """Open the data directory, with recovery if needed."""
        directory = DataDirectory.open(
            files, settings.data, now_ms=clock.now_ms(), node_id=settings.node_id
        )
        broker = cls(settings, directory, clock, on_offline)
        try:
            await broker._load()
        except BaseException:
            directory.close([], clean=False)
            raise
        return broker

    async def _load(self) -> None:
        is_new = not self.directory.has_log(METADATA_PARTITION)
        self._metadata_log = MetadataLog.open(self.directory, self.metadata, self.commit)
        for unfinished in self.metadata.unfinished_deletions():
            for index in range(unfinished.partitions):
                partition = TopicPartition(unfinished.name, index)
                self.directory.delete_leftover(partition, unfinished.id)
            self._uncommitted.append(TopicDeleted(unfinished.id))
        if not self.directory.was_clean and not is_new:
            epoch = LeaderEpoch(self.metadata.leader_epoch + 1)
            self._uncommitted.append(epoch)
            self.metadata.replay(epoch)
        await self.commit_metadata()
        self._apply_broker_configs()
        read_only = _NO_EPOCH_YET if self._uncommitted else None
        topics = [
            (topic, self.topic_defaults.override(topic.configs)) for topic in self.metadata.topics()
        ]
        for hosted in self._logs.open(topics, self.metadata.leader_epoch, read_only):
            self._host(hosted)
        self._report_strays()

    def _report_strays(self) -> None:
        known = {partition.log.partition for partition in self.all_partitions()}
        try:
            strays = self.directory.strays(known)
        except OSError as error:  # it is only a hint, so no reason not to start
            log.warning("Cannot look for folders of unknown topics: %s", error)
            return
        for stray in strays:
            log.warning("The folder %s belongs to no known topic; it is left unchanged.", stray)

    async def commit_metadata(self) -> None:
        """Write the metadata of a start; until that succeeds, appends are rejected.

        A leader epoch must be durable before anything is written in it: otherwise the start after a crash
        would use the same epoch again.
        """
        if self._uncommitted:
            async with self._changing:
                try:
                    await self._write()
                except ApiError:  # storage has reported it
                    self.directory.check_online()

    async def close(self) -> None:
        """Flush everything, mark the stop as clean, and release the directory."""
        await self.commit.stop()
        await self._disk_work.wait()
        is_clean = self.directory.offline is None and not self._uncommitted
        self.directory.close(self.all_logs(), clean=is_clean)

    def storage_failed(self, error: Exception) -> None:
        """Take the broker offline after a write or sync failed: no pending request may succeed."""
        if self._is_offline:
            return
        self._is_offline = True
        self.directory.fail(error)
        log.error("The data directory %s is offline: %s", self.settings.data, error)
        for partition in self.all_partitions():
            partition.fail(ErrorCode.KAFKA_STORAGE_ERROR)
        self._on_offline(error)

    async def checkpoint(self) -> None:
        """Store the recovery point and start offset of every partition."""
        async with self._checkpointing:
            await self.off_loop(partial(self.directory.checkpoint, self.all_logs()))

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Run slow disk work in a thread; closing the broker waits for it."""
        return await self._disk_work.run(work)

    def flush_overdue(self) -> None:
        """Sync the partitions whose `flush.ms` has passed."""
        now_ms = self.clock.now_ms()
        for partition in self.all_partitions():
            partition.flush_if_overdue(now_ms)

    # --- queries ------------------------------------------------------------------------------

    def topics(self) -> list[HostedTopic]:
        return [self._hosted[name] for name in sorted(self._hosted)]

    def find_topic(self, name: str) -> HostedTopic | None:
        return self._hosted.get(name)

    def topic(self, name: str) -> HostedTopic:
        """The topic of that name, or UNKNOWN_TOPIC_OR_PARTITION."""
        hosted = self._hosted.get(name)
        if hosted is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return hosted

    def topic_by_id(self, topic_id: bytes) -> HostedTopic:
        """The topic with that id (its 16 bytes, as on the wire), or UNKNOWN_TOPIC_ID."""
        hosted = self._hosted_by_id.get(topic_id)
        if hosted is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return hosted

    def all_partitions(self) -> list[Partition]:
        """Every partition, that of the metadata log included."""
        hosted = [partition for topic in self._hosted.values() for partition in topic.partitions]
        if self._metadata_log is not None:
            hosted.append(self._metadata_log.partition)
        return hosted

    def all_logs(self) -> list[Log]:
        return [partition.log for partition in self.all_partitions()]

    @property
    def metadata_log(self) -> MetadataLog:
        assert self._metadata_log is not None  # noqa: S101 - open() made it
        return self._metadata_log

    @property
    def topic_defaults(self) -> TopicSettings:
        """The default settings of topics."""
        return self.settings.topic_defaults

    def group_settings(self, group: str) -> GroupSettings:
        """The effective settings of a group: its configs, and the broker's defaults for the rest."""
        own = self.metadata.group_configs(group)
        defaults = self.settings.group_defaults
        return _overridden(defaults, tuple(own.items())) if own else defaults

    # --- changes -------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str], *, only_check: bool = False
    ) -> HostedTopic:
        """Create a topic; its partitions can be written when this returns."""
        async with self._changing:
            topic = self.metadata.create_topic(
                name,
                topic_id=uuid.uuid4(),
                partitions=partitions,
                configs=configs,
                defaults=self.topic_defaults,
            )
            hosted = HostedTopic(topic, self.topic_defaults.override(configs))
            if not only_check:
                created = await self._create_partitions(hosted, topic.partitions)
                await self._write(topic)
                hosted.partitions += created
                self._host(hosted)
                await self._topics_have_changed()
            return hosted

    async def add_partitions(self, name: str, total: int, *, only_check: bool = False) -> None:
        async with self._changing:
            topic = self.metadata.add_partitions(name, total)
            if not only_check:
                hosted = self.topic(name)
                created = await self._create_partitions(hosted, total)
                await self._write(topic)
                hosted.topic = topic
                hosted.partitions += created
                await self._topics_have_changed()

    async def delete_topic(self, name: str) -> None:
        """Delete a topic: its files are removed when the deletion is durable."""
        async with self._changing:
            topic = self.metadata.delete_topic(name)
            await self._write(topic)
            hosted = self._hosted.pop(name)
            del self._hosted_by_id[topic.id.bytes]
            for partition in hosted.partitions:
                partition.mark_deleted()
            for callback in self.on_topic_deleted:
                callback(name)
            await self._topics_have_changed()
            for clean_up in self.after_topic_deleted:
                await clean_up(name)
            await self.commit.finish_round()  # no sync may be in flight in files that are removed
            with self._storage_errors():
                await self._logs.remove(hosted)
            await self._write(TopicDeleted(topic.id))

    async def set_topic_configs(
        self, name: str, configs: Mapping[str, str], *, only_check: bool = False
    ) -> None:
        """Replace all configs of a topic."""
        async with self._changing:
            topic = self.metadata.set_topic_configs(name, configs, self.topic_defaults)
            if not only_check:
                await self._write(topic)
                self.topic(name).change(topic, self.topic_defaults.override(topic.configs))

    async def set_broker_configs(
        self, node: int | None, configs: Mapping[str, str], *, only_check: bool = False
    ) -> None:
        """Replace all dynamic configs of this broker, or of all brokers (None)."""
        async with self._changing:
            self.start_settings.override(configs)
            if not only_check:
                await self._write(BrokerConfigs(node, dict(configs)))
                self._apply_broker_configs()
                await in_turns(map(self._inherit_broker_configs, self._hosted.values()))

    async def set_group_configs(
        self, group: str, configs: Mapping[str, str], *, only_check: bool = False
    ) -> None:
        """Replace all configs of a group, which need not exist."""
        async with self._changing:
            check_group_configs(configs, self.settings)
            if not only_check:
                await self._write(GroupConfigs(group, dict(configs)))

    async def set_client_metrics_configs(
        self, subscription: str, configs: Mapping[str, str], *, only_check: bool = False
    ) -> None:
        """Replace all configs of a client metrics subscription; without any it is deleted."""
        async with self._changing:
            record = self.metadata.set_client_metrics_configs(subscription, configs)
            if not only_check:
                await self._write(record)

    async def next_producer_id(self) -> int:
        """A producer id that was never assigned before, not even before a crash."""
        if not self._producer_ids:
            async with self._changing:
                if not self._producer_ids:
                    first = self.metadata.next_producer_id
                    await self._write(self.metadata.reserve_producer_ids())
                    self._producer_ids = range(first, self.metadata.next_producer_id)
        producer_id, self._producer_ids = self._producer_ids[0], self._producer_ids[1:]
        return producer_id

    # --- metadata and partitions ---------------------------------------------------------------

    async def _write(self, *records: MetadataRecord) -> None:
        now_ms = self.clock.now_ms()
        with self._storage_errors():
            await self.metadata_log.commit(*self._uncommitted, *records, now_ms=now_ms)
        if self._uncommitted:
            self._uncommitted.clear()
            for log in self.all_logs():
                log.read_only = None

    async def _topics_have_changed(self) -> None:
        for callback in self.on_topics_changed:
            callback()
        for work in self.after_topics_changed:
            await work()

    def _apply_broker_configs(self) -> None:
        for_all = self.metadata.broker_configs(None)
        for_this = self.metadata.broker_configs(self.settings.node_id)
        self.settings = self.start_settings.override({**for_all, **for_this})

    def _inherit_broker_configs(self, hosted: HostedTopic) -> None:
        hosted.change(hosted.topic, self.topic_defaults.override(hosted.topic.configs))

    def _host(self, hosted: HostedTopic) -> None:
        topic = hosted.topic
        self._hosted[topic.name] = self._hosted_by_id[topic.id.bytes] = hosted

    async def _create_partitions(self, hosted: HostedTopic, total: int) -> list[Partition]:
        with self._storage_errors():
            return await self._logs.create(hosted, total, self.metadata.leader_epoch)

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        """Convert storage errors to Kafka error codes."""
        try:
            yield
        except DirectoryOffline as error:
            self.storage_failed(error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


@lru_cache(maxsize=256)
def _overridden(defaults: GroupSettings, configs: tuple[tuple[str, str], ...]) -> GroupSettings:
    """The settings of a group; cached, because every heartbeat needs them."""
    return defaults.override(dict(configs))
