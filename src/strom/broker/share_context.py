"""What all share partitions of a broker share: their settings, stored state and dead letters."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from strom.broker.broker import Broker
from strom.broker.dead_letters import DeadLetterOrigin, DeadLetterWriter
from strom.broker.share_state_log import ShareStateLog
from strom.coordination.groups.share.partitions.share_partition import DeadRecords, Rules
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ApiError, ErrorCode
from strom.model.group_settings import GroupSettings
from strom.model.retries import RetryPolicy
from strom.supervision.retrying import retry_async

if TYPE_CHECKING:
    from strom.broker.shared_partition import SharedPartition

log = logging.getLogger(__name__)

BURY_RETRY = RetryPolicy(first_s=1.0)
MOST_KEPT_SETTINGS = 10_000

OnDone: TypeAlias = Callable[[ErrorCode], None]


class SharePartitionContext:
    def __init__(self, broker: Broker) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = broker.clock
        self.state_log = ShareStateLog(broker)
        self._broker = broker
        self._dead_letters = DeadLetterWriter(broker)
        self._tasks: set[asyncio.Task[None]] = set()
        self._settings: dict[str, tuple[BrokerSettings, Mapping[str, str], GroupSettings]] = {}

    def stop(self) -> None:
        """Stop: dead letters are left to the next start."""
        for task in self._tasks:
            task.cancel()

    def settings_of(self, group: str) -> GroupSettings:
        """The effective settings of a group; cached, because every record needs them."""
        broker = self._broker
        own = broker.metadata.group_configs(group)
        kept = self._settings.get(group)
        if kept is not None and kept[0] is broker.settings and kept[1] == own:
            return kept[2]
        settings = broker.group_settings(group)
        if len(self._settings) >= MOST_KEPT_SETTINGS:
            self._settings.clear()
        self._settings[group] = (broker.settings, own, settings)
        return settings

    def rules_of(self, group: str) -> Rules:
        settings = self.settings_of(group)
        return Rules(
            delivery_limit=settings.share_delivery_count_limit,
            max_in_flight=settings.share_partition_max_record_locks,
            lock_ms=settings.share_record_lock_duration_ms,
            buries=bool(settings.dead_letter_topic),
            renews=settings.share_renew_acknowledge_enable,
        )

    def most_updates(self) -> int:
        """After how many updates a snapshot is due."""
        return self._broker.settings.share_state_updates_per_snapshot

    def bury(self, partition: "SharedPartition", dead: list[DeadRecords], done: OnDone) -> None:
        """Write dead records to the dead letter topic, archive them, then call `done`."""
        task = self.loop.create_task(self._bury(partition, dead, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bury(
        self, partition: "SharedPartition", dead: list[DeadRecords], done: OnDone
    ) -> None:
        group = partition.shared.key.group

        async def write() -> None:
            settings = self.settings_of(group)
            if settings.dead_letter_topic and not partition.source.deleted:
                origin = DeadLetterOrigin(group, partition.source)
                await self._dead_letters.write(origin, dead, settings)

        def on_failure(error: Exception, _: float) -> None:
            nonlocal done
            log.warning(
                "Dead letters of group %s from %s cannot be written yet: %s",
                group,
                partition.log.partition,
                error,
            )
            done(ErrorCode.NONE)  # the member that rejected them need not wait
            done = ignore_result

        await retry_async(write, BURY_RETRY, ApiError, on_failure=on_failure)
        for one in dead:
            changes = partition.shared.partition.on_dead_letters_written(one.first, one.last)
            partition.write(changes, ignore_result)
        try:
            self.state_log.on_durable(partition.shared.key, done)
        except ApiError as error:
            done(error.code)


def ignore_result(_: ErrorCode) -> None:
    """No request waits for the result."""
