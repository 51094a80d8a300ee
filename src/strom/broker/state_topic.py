"""An internal topic with the state of a coordinator.

The records of one key (a group, a transactional id, a share partition) are in one partition, by the
key's hash as in Kafka. The coordinator must not expose a change before it is durable (`on_durable`). A
partition that cannot be read to its end is not served, because a part of it would be an outdated state.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, Self, TypeVar

from strom.broker.broker import Broker
from strom.broker.partition import OnDurable, Partition
from strom.broker.replaying import Replayed, last_batches_of
from strom.model.errors import ApiError, CorruptData, DirectoryOffline, ErrorCode
from strom.storage.log import Appended
from strom.wire.kafka.records import Record, build_batch

log = logging.getLogger(__name__)

T = TypeVar("T")


class StateTopic:
    """An internal topic, created when it is first needed."""

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
        self.is_stopped = False

    # --- lifecycle -----------------------------------------------------------------------------

    async def ensure(self) -> None:
        """Create the topic unless it exists."""
        async with self._creating:
            if self._broker.find_topic(self.name) is None:
                await self._broker.create_topic(self.name, self._count, self._configs)

    async def complete(self, setting: str) -> None:
        """Set a setting that newly created topics get, unless the topic has another value."""
        hosted = self._broker.find_topic(self.name)
        if hosted is None or setting in hosted.topic.configs:
            return
        configs = {**hosted.topic.configs, setting: self._configs[setting]}
        try:
            await self._broker.set_topic_configs(self.name, configs)
        except ApiError as error:  # not fatal; the next start retries
            log.warning("%s keeps its default of %s: %s", self.name, setting, error)

    def read(
        self, decode: Callable[[Replayed], T], counts_last: Callable[[bytes], bool]
    ) -> Iterator[tuple[Partition, T]]:
        """Every batch of every partition that can be read, and decoded, to its end.

        Superseded records of keys for which only the last value matters may be skipped.
        """
        hosted = self._broker.find_topic(self.name)
        for partition in hosted.partitions if hosted is not None else ():
            try:
                decoded = [decode(one) for one in last_batches_of(partition.log, counts_last)]
            except CorruptData as error:
                self._unreadable.add(partition)
                log.error("Partition %s is not served: %s", partition.log.partition, error)
                continue
            for one in decoded:
                yield partition, one

    @property
    def is_complete(self) -> bool:
        """Whether all partitions could be read."""
        return not self._unreadable

    def stop(self) -> None:
        """Serve no partition any more; what was appended still becomes durable."""
        self.is_stopped = True

    def forget(self) -> None:
        self._unreadable.clear()
        self._last_appended.clear()

    # --- partitions ----------------------------------------------------------------------------

    def partition_of(self, key: str) -> Partition:
        """The partition of a key's records; NOT_COORDINATOR while it is not available."""
        hosted = self._broker.find_topic(self.name)
        if hosted is None or self.is_stopped:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        partition = hosted.partitions[java_hash(key) % len(hosted.partitions)]
        if partition in self._unreadable or partition.log.quarantined:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return partition

    def append(self, partition: Partition, batch: bytearray) -> Appended:
        """Append a batch; use `on_durable` to wait for the disk."""
        try:
            appended = partition.append(batch, self._broker.clock.now_ms(), from_client=False)
        except DirectoryOffline as error:
            self._broker.storage_failed(error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        self._last_appended[partition] = appended
        return appended

    def batch_of(
        self, encoded: Iterable[tuple[bytes, bytes | None]], producer: tuple[int, int] | None = None
    ) -> bytearray:
        """A batch of keys and values, if wanted in the transaction of a producer (its id and epoch)."""
        now_ms = self._broker.clock.now_ms()
        records = [Record(index, now_ms, *one) for index, one in enumerate(encoded)]
        if producer is None:
            return build_batch(records)
        producer_id, epoch = producer
        return build_batch(
            records, producer_id=producer_id, producer_epoch=epoch, transactional=True
        )

    def is_durable(self, partition: Partition) -> bool:
        """Whether everything appended so far is durable."""
        last = self._last_appended.get(partition)
        return last is None or partition.is_durable(last)

    def on_durable(self, partition: Partition, callback: OnDurable) -> None:
        """Call back when everything appended so far is durable, or with the error if it cannot be."""
        last = self._last_appended.get(partition)
        if last is None or partition.is_durable(last):
            callback(ErrorCode.NONE)
        else:
            partition.on_durable(last, callback)
            partition.sync_soon()

    async def wait_until_durable(self, partition: Partition) -> ErrorCode:
        """Return when everything appended so far is durable, or the error if it cannot be."""
        last = self._last_appended.get(partition)
        return ErrorCode.NONE if last is None else await partition.wait_until_durable(last)


_TOLD_AS = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def to_client_error(code: ErrorCode) -> ErrorCode:
    """The error for clients when the coordinator's log cannot be written, as in Kafka."""
    return _TOLD_AS.get(code, code)


class _Response(Protocol):
    def with_error(self, code: ErrorCode) -> Self: ...


R = TypeVar("R", bound=_Response)


def respond(
    responses: Iterable[tuple["asyncio.Future[R]", R]], code: ErrorCode = ErrorCode.NONE
) -> None:
    """Send the responses of a coordinator, or with an error code the error instead."""
    for ticket, response in responses:
        if not ticket.done():
            failed = code is not ErrorCode.NONE
            ticket.set_result(response.with_error(to_client_error(code)) if failed else response)


def java_hash(text: str) -> int:
    """Java's String.hashCode without its sign, which Kafka uses to find a key's partition."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        number = (31 * number + unit) & 0xFFFFFFFF
    signed = number - (1 << 32) if number >= 1 << 31 else number
    return 0 if signed == -(1 << 31) else abs(signed)
