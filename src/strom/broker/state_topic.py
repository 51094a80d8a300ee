"""An internal topic in which a coordinator keeps what it knows.

What belongs to one key (a group, a transactional id, a share partition) is in one partition, found by the
key's hash as Kafka does it. Whoever appends is told when it is on disk: before that, nobody may be told
of it. A partition that cannot be read to its end is not served at all, for half of it would be a state
that went back.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from strom.broker.broker import Broker
from strom.broker.partition import Partition, WhenFlushed
from strom.broker.replaying import Replayed, last_batches_of
from strom.model.errors import ApiError, CorruptData, DirectoryOffline, ErrorCode
from strom.storage.log import Appended

log = logging.getLogger(__name__)

T = TypeVar("T")


class StateTopic:
    """One such topic; it is created when the first key needs it."""

    def __init__(
        self, broker: Broker, name: str, partitions: int, configs: Mapping[str, str]
    ) -> None:
        self._broker = broker
        self.name = name
        self._count = partitions
        self._configs = configs
        self._creating = asyncio.Lock()
        self._unreadable: set[Partition] = set()
        self._last_appended: dict[Partition, Appended] = {}

    # --- life ----------------------------------------------------------------------------------

    async def ensure(self) -> None:
        """Create the topic if it is not there yet."""
        async with self._creating:
            if self._broker.find_topic(self.name) is None:
                await self._broker.create_topic(self.name, self._count, self._configs)

    async def complete(self, setting: str) -> None:
        """Give the topic a setting that it would be created with today, unless it has another value."""
        hosted = self._broker.find_topic(self.name)
        if hosted is None or setting in hosted.topic.configs:
            return
        configs = {**hosted.topic.configs, setting: self._configs[setting]}
        try:
            await self._broker.set_topic_configs(self.name, configs)
        except ApiError as error:  # no reason not to serve; the next start tries again
            log.warning("%s keeps its default of %s: %s", self.name, setting, error)

    def read(
        self, decode: Callable[[Replayed], T], counts_last: Callable[[bytes], bool]
    ) -> Iterator[tuple[Partition, T]]:
        """Every batch of every partition that can be read, and decoded, to its end.

        Records of keys for which only the last value counts may be left out if a later one follows.
        """
        hosted = self._broker.find_topic(self.name)
        for partition in hosted.partitions if hosted is not None else ():
            try:
                decoded = [decode(one) for one in last_batches_of(partition.log, counts_last)]
            except CorruptData as error:
                self._unreadable.add(partition)
                log.error("What is in %s is not served: %s", partition.log.partition, error)
                continue
            for one in decoded:
                yield partition, one

    @property
    def is_whole(self) -> bool:
        """Whether everything could be read."""
        return not self._unreadable

    def forget(self) -> None:
        """The topic was deleted."""
        self._unreadable.clear()
        self._last_appended.clear()

    # --- partitions ----------------------------------------------------------------------------

    def partition_of(self, key: str) -> Partition:
        """Where a key's records are; NOT_COORDINATOR while that cannot be used."""
        hosted = self._broker.find_topic(self.name)
        if hosted is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        partition = hosted.partitions[java_hash(key) % len(hosted.partitions)]
        if partition in self._unreadable or partition.log.quarantined:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return partition

    def append(self, partition: Partition, batch: bytearray) -> Appended:
        """Append a batch; whether it is on disk tells `on_durable`."""
        try:
            appended = partition.append(batch, self._broker.clock.now_ms(), from_client=False)
        except DirectoryOffline as error:
            self._broker.storage_failed(error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        self._last_appended[partition] = appended
        return appended

    def is_durable(self, partition: Partition) -> bool:
        """Whether everything that was appended so far is on disk."""
        last = self._last_appended.get(partition)
        return last is None or partition.is_durable(last)

    def on_durable(self, partition: Partition, callback: WhenFlushed) -> None:
        """Call back when everything that was appended so far is on disk, or never will be."""
        last = self._last_appended.get(partition)
        if last is None or partition.is_durable(last):
            callback(ErrorCode.NONE)
        else:
            partition.on_durable(last, callback)
            partition.sync_soon()


_TOLD_AS = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def told_as(code: ErrorCode) -> ErrorCode:
    """How a failure to write is put to clients, who know nothing of the coordinator's log."""
    return _TOLD_AS.get(code, code)


def java_hash(text: str) -> int:
    """Java's hash of a text without its sign: by it Kafka finds a key's partition."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        number = (31 * number + unit) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >= 1 << 31 else number
    return 0 if signed == -(1 << 31) else abs(signed)
