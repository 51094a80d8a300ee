"""The logs of topics in the data directory: opening, creating and removing them."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

from strom.broker.group_commit import GroupCommit
from strom.broker.partition import CheckSchemas, HostedTopic, Partition
from strom.coordination.metadata.records import TopicMetadata
from strom.model.topic_settings import TopicSettings
from strom.model.topics import TopicPartition
from strom.storage.directory import DataDirectory, LogIdentity
from strom.storage.log import Log

log = logging.getLogger(__name__)

T = TypeVar("T")


class DiskWork:
    """Slow disk work, in threads."""

    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work, which goes on even if its caller is cancelled."""
        return await asyncio.shield(self.begin(work))

    def begin(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        running = asyncio.get_running_loop().run_in_executor(None, work)
        self._running.add(running)
        running.add_done_callback(self._on_ended)
        return running

    def _on_ended(self, work: "asyncio.Future[Any]") -> None:
        self._running.discard(work)
        if not work.cancelled():
            work.exception()  # retrieved here, because at a stop no caller may await it

    async def wait(self) -> None:
        """Return when all work has ended."""
        if self._running:
            await asyncio.wait(self._running)


class TopicLogs:
    """Opens, creates and removes the partitions of topics."""

    def __init__(
        self,
        directory: DataDirectory,
        commit: GroupCommit,
        check_schemas: CheckSchemas,
        disk_work: DiskWork,
    ) -> None:
        self._directory = directory
        self._commit = commit
        self._check_schemas = check_schemas
        self._disk_work = disk_work

    def open(
        self,
        topics: Iterable[tuple[TopicMetadata, TopicSettings]],
        epoch: int,
        read_only: str | None,
    ) -> list[HostedTopic]:
        """Open the logs of topics at start; appends are rejected for the reason `read_only`, if any."""
        hosted = [HostedTopic(topic, settings) for topic, settings in topics]
        wanted = [
            LogIdentity(TopicPartition(one.topic.name, index), one.topic.id, one.settings)
            for one in hosted
            for index in range(one.topic.partitions)
        ]
        logs = iter(self._directory.open_logs(wanted, epoch))
        for one in hosted:
            for opened in islice(logs, one.topic.partitions):
                if opened.quarantined:
                    log.error("Partition %s is offline: %s", opened.partition, opened.quarantined)
                if read_only:
                    opened.read_only = read_only
                one.partitions.append(self._partition(opened, epoch))
        return hosted

    async def create(self, hosted: HostedTopic, total: int, epoch: int) -> list[Partition]:
        """Create the logs up to a total, off the event loop: each takes a few syncs."""

        def create() -> list[Log]:
            return [
                self._directory.create_log(
                    TopicPartition(hosted.topic.name, index),
                    hosted.topic.id,
                    hosted.settings,
                    leader_epoch=epoch,
                )
                for index in range(len(hosted.partitions), total)
            ]

        return [self._partition(one, epoch) for one in await self._disk_work.run(create)]

    async def remove(self, hosted: HostedTopic) -> None:
        """Remove the files of a deleted topic, one partition in each turn of the event loop.

        No sync may be in flight in them.
        """
        for partition in hosted.partitions:
            # Removing large files blocks.
            self._disk_work.begin(self._directory.delete_log(partition.log))
            await asyncio.sleep(0)

    def _partition(self, opened: Log, epoch: int) -> Partition:
        return Partition(opened, self._commit, epoch, self._check_schemas)
