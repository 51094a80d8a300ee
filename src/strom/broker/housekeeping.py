"""Background work: retention, compaction, idle producers, checkpoints."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter

from strom.broker.broker import Broker
from strom.broker.partition import Partition
from strom.broker.state_compaction import MAX_DIRTY_BYTES, partitions_to_compact
from strom.metrics.storage import CleaningReading
from strom.model.errors import ApiError, DirectoryOffline, StorageError
from strom.storage.log import Log

log = logging.getLogger(__name__)

STATE_CHECK_MS = 1000
"""How often the internal topics are checked for compaction, to keep starts fast."""
METADATA_RETRY_MS = 1000
"""How often the metadata of a start without disk space is retried."""


class Housekeeping:
    """Runs all background work at its intervals until stopped."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._compacting: set[Partition] = set()
        self._failed: set[Partition] = set()
        """Internal partitions whose compaction failed: retried at the interval of the cleaner only."""
        self._tasks: list[asyncio.Task[None]] = []
        self._cleaning = CleaningReading(0, 0.0, 0, 0)

    def start(self) -> None:
        broker = self._broker
        self.every(lambda: broker.settings.retention_check_interval_ms, self.delete_old_segments)
        self.every(lambda: broker.settings.cleaner_backoff_ms, self.compact)
        self.every(lambda: STATE_CHECK_MS, self.compact_state_topics)
        self.every(lambda: broker.settings.recovery_point_interval_ms, self.checkpoint)
        self.every(lambda: METADATA_RETRY_MS, broker.commit_metadata)

    def every(self, interval_ms: Callable[[], int], work: Callable[[], Awaitable[None]]) -> None:
        """Run work repeatedly, with an interval that may change."""
        repeating = asyncio.get_running_loop().create_task(self._repeat(interval_ms, work))
        self._tasks.append(repeating)

    async def stop(self) -> None:
        """Stop; disk work in flight continues, and closing the broker waits for it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(
        self, interval_ms: Callable[[], int], work: Callable[[], Awaitable[None]]
    ) -> None:
        while True:
            await asyncio.sleep(interval_ms() / 1000)
            try:
                await work()
            except DirectoryOffline as error:
                self._broker.storage_failed(error)
                return
            except (ApiError, StorageError, OSError) as error:
                log.warning("Background work failed and will be retried: %s", error)

    async def delete_old_segments(self) -> None:
        """Roll and delete segments, and expire idle producers."""
        broker = self._broker
        for partition in self._healthy_partitions():
            with _one_partition_only(partition):
                self._delete_old_segments_of(partition.log)
            await asyncio.sleep(0)
        now_ms = broker.clock.now_ms()
        await broker.off_loop(partial(broker.directory.remove_deleted_files, now_ms))

    def _delete_old_segments_of(self, old: Log) -> None:
        now_ms = self._broker.clock.now_ms()
        old.expire_producers(now_ms, self._broker.settings.producer_id_expiration_ms)
        deleted = old.delete_old_segments(now_ms)
        if deleted:
            before = self._cleaning
            self._cleaning = before._replace(segments_deleted=before.segments_deleted + deleted)
            log.info("Deleted %d expired segment(s) of %s", deleted, old.partition)
        old.roll_if_due(now_ms)

    async def compact(self) -> None:
        """Compact every compacted log that is due, in a thread."""
        self._failed.clear()
        for partition in self._healthy_partitions():
            with _one_partition_only(partition):
                await self._compact(partition)
            await asyncio.sleep(0)

    async def compact_state_topics(self) -> None:
        """Compact internal topics to keep starts fast; see `state_compaction`."""
        broker = self._broker
        healthy = [one for one in self._healthy_partitions() if one not in self._failed]
        due = partitions_to_compact(healthy, MAX_DIRTY_BYTES)
        for partition in due:
            self._failed.add(partition)
            with _one_partition_only(partition):
                await self._compact_state_of(partition)
                self._failed.discard(partition)
            await asyncio.sleep(0)
        if due:
            now_ms = broker.clock.now_ms()
            await broker.off_loop(partial(broker.directory.remove_deleted_files, now_ms))

    async def _compact_state_of(self, partition: Partition) -> None:
        if partition.deleted or await self._compact(partition):
            return
        # Only flushed closed segments can be compacted: the next run does.
        partition.log.roll_for_compaction(self._broker.clock.now_ms())
        partition.sync_soon()

    async def _compact(self, partition: Partition) -> bool:
        """Compact a log if that is due and not running; returns whether it was compacted."""
        if partition in self._compacting:
            return False  # one compaction at a time
        plan = partition.log.plan_compaction(self._broker.clock.now_ms())
        if plan is None:
            return False
        self._compacting.add(partition)
        began = perf_counter()
        try:
            await self._broker.off_loop(plan.run)
        finally:
            self._compacting.discard(partition)
        self._count_compaction(perf_counter() - began, plan.bytes_removed)
        if not partition.deleted:
            partition.log.apply_compaction(plan)
        return True

    def _count_compaction(self, seconds: float, bytes_removed: int) -> None:
        before = self._cleaning
        self._cleaning = before._replace(
            compactions=before.compactions + 1,
            seconds=before.seconds + seconds,
            bytes_removed=before.bytes_removed + bytes_removed,
        )

    def cleaning(self) -> CleaningReading:
        """For metrics: what compaction and retention have done since the broker started."""
        return self._cleaning

    async def checkpoint(self) -> None:
        """Flush partitions whose `flush.ms` has passed, and store all recovery points."""
        self._broker.flush_overdue()
        await self._broker.checkpoint()

    def _healthy_partitions(self) -> Iterator[Partition]:
        for partition in self._broker.all_partitions():
            if not partition.deleted and not partition.log.quarantined:
                yield partition


@contextmanager
def _one_partition_only(partition: Partition) -> Iterator[None]:
    """Isolate a failure of one partition: on a full disk, deleting in the others matters most."""
    try:
        yield
    except DirectoryOffline:
        raise
    except (ApiError, StorageError, OSError) as error:
        log.warning("%s: background work will be retried: %s", partition.log.partition, error)
