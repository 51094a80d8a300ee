"""Background work: retention, compaction, idle producers, checkpoints."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from strom.broker.broker import Broker
from strom.model.errors import ApiError, DirectoryOffline, StorageError

log = logging.getLogger(__name__)


class Housekeeping:
    """Runs every kind of background work in its own rhythm until stopped."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        rhythms: list[tuple[Callable[[], int], Callable[[], Awaitable[None]]]] = [
            (lambda: self._broker.settings.retention_check_interval_ms, self.delete_old_segments),
            (lambda: self._broker.settings.cleaner_backoff_ms, self.compact),
            (lambda: self._broker.settings.recovery_point_interval_ms, self.checkpoint),
        ]
        self._tasks = [
            asyncio.get_running_loop().create_task(self._repeat(interval, work))
            for interval, work in rhythms
        ]

    async def stop(self) -> None:
        """End, letting a compaction that is under way finish its step."""
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
                log.warning("Background work failed and will be tried again: %s", error)

    async def delete_old_segments(self) -> None:
        """Close segments that are due, delete old ones, forget idle producers."""
        broker = self._broker
        for partition in broker.all_partitions():
            if partition.deleted or partition.log.quarantined:
                continue
            now_ms = broker.clock.now_ms()
            partition.log.roll_if_due(now_ms)
            partition.log.expire_producers(now_ms, broker.settings.producer_id_expiration_ms)
            deleted = partition.log.delete_old_segments(now_ms)
            if deleted:
                log.info("Deleted %d old segment(s) of %s", deleted, partition.log.partition)
            await asyncio.sleep(0)

    async def compact(self) -> None:
        """Compact every compacted log that is dirty enough; the rewriting runs in a thread."""
        for partition in self._broker.all_partitions():
            if partition.deleted or partition.log.quarantined:
                continue
            plan = partition.log.plan_compaction(self._broker.clock.now_ms())
            if plan is not None:
                await asyncio.to_thread(plan.run)
                if not partition.deleted:
                    partition.log.apply_compaction(plan)
            await asyncio.sleep(0)

    async def checkpoint(self) -> None:
        """Note down how far every partition is safely on disk; flush what `flush.ms` asks for."""
        self._broker.flush_overdue()
        self._broker.checkpoint()
