"""A broker without sockets, on a disk in memory."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

from strom.broker.broker import Broker
from strom.broker.partition import Partition
from strom.broker.turns import in_turns
from strom.model.broker_settings import BrokerSettings
from strom.model.errors import ErrorCode
from strom.storage.log import Appended
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import Record, build_batch, read_records


class Memory(NamedTuple):
    """So much memory for a response, all the time."""

    free: int

    def take(self, size: int) -> None:
        """It does not become less."""


class HeldTurns:
    """In the place of `in_turns`: the first step of each work is done, the others on `go_on`."""

    def __init__(self) -> None:
        self._held: list[Iterable[object]] = []

    async def __call__(self, steps: Iterable[object]) -> None:
        next(iter(steps))
        self._held.append(steps)

    async def go_on(self) -> None:
        for steps in self._held:
            await in_turns(steps)


class Opened:
    """A broker with its disk and its clock."""

    def __init__(self, files: MemoryFiles, clock: ManualClock) -> None:
        self.files = files
        self.clock = clock
        self.failures: list[Exception] = []
        self.broker: Broker

    def batch(self, *values: bytes, key: bytes | None = None) -> bytearray:
        """A record batch of the present time."""
        now_ms = self.clock.now_ms()
        return build_batch(
            [Record(index, now_ms, key, value) for index, value in enumerate(values)]
        )

    def append(self, partition: Partition, *values: bytes, key: bytes | None = None) -> Appended:
        """Append, and do not wait."""
        return partition.append(self.batch(*values, key=key), self.clock.now_ms())

    async def produce(
        self, partition: Partition, *values: bytes, key: bytes | None = None
    ) -> Appended:
        """Append, and return when it is as safe as promised."""
        appended = self.append(partition, *values, key=key)
        code = await safe(partition, appended)
        assert code is ErrorCode.NONE, code
        return appended


async def safe(partition: Partition, appended: Appended) -> ErrorCode:
    """Wait for the disk; what a producer would be told."""
    if partition.is_durable(appended):
        return ErrorCode.NONE
    told: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    partition.on_durable(appended, told.set_result)
    return await asyncio.wait_for(told, 10)


@asynccontextmanager
async def opened(
    files: MemoryFiles | None = None,
    clock: ManualClock | None = None,
    **settings: str,
) -> AsyncIterator[Opened]:
    """A running broker; settings go by their names with underscores for dots."""
    world = Opened(files or MemoryFiles(), clock or ManualClock())
    texts = {name.replace("_", "."): value for name, value in settings.items()}
    world.broker = await Broker.open(
        BrokerSettings(data="data").override(texts), world.files, world.clock, world.failures.append
    )
    try:
        yield world
    finally:
        await world.broker.close()


async def new_partition(world: Opened, name: str = "t", **configs: str) -> Partition:
    """The one partition of a new topic; settings go by their names with underscores for dots."""
    texts = {key.replace("_", "."): value for key, value in configs.items()}
    topic = await world.broker.create_topic(name, 1, texts)
    return topic.partitions[0]


def values_in(partition: Partition, offset: int | None = None) -> list[bytes | None]:
    """Everything that a consumer can read."""
    log = partition.log
    position = log.start_offset if offset is None else offset
    values: list[bytes | None] = []
    while position < log.high_watermark:
        data = log.reader.read(position, 1 << 20).data
        before = position
        for at, header in headers(data):
            values += [record.value for record in read_records(data, at, header)]
            position = header.next_offset
        if position == before:
            break
    return values
