"""A message that goes on to another queue is in at least one of the two, whatever a power cut takes."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from strom.broker.queues.declaring import Declarations
from strom.broker.queues.hub import QueueBroker
from strom.broker.queues.message_properties import make_message
from strom.broker.queues.naming import DEFAULT_VHOST
from strom.broker.queues.store import QueueStore
from strom.model.errors import ErrorCode
from strom.queues.definitions import QueueDefinition
from strom.queues.delays import DELAY
from strom.queues.queue import Queue
from strom.queues.receipts import BatchReceipt
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from strom.wire.amqp.content import BasicProperties, encode_properties
from tests.broker.opened import opened

BODIES = [b"1", b"2", b"3"]
TO_LAST = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "last"}


class World:
    """Queues on a disk that can lose its power."""

    def __init__(self, hub: QueueBroker, clock: ManualClock) -> None:
        self.hub = hub
        self.clock = clock
        self.vhost = hub.vhosts[DEFAULT_VHOST]

    async def declare(self, name: str, **arguments: object) -> None:
        given = {name.replace("_", "-"): value for name, value in arguments.items()}
        wanted = QueueDefinition(DEFAULT_VHOST, name, arguments=given)
        await Declarations(self.hub).declare_queue(self.vhost, wanted, None, passive=False)

    def queue(self, name: str) -> Queue:
        return self.vhost.queues[name]

    def publish(
        self, key: str, *bodies: bytes, headers: dict[str, object] | None = None
    ) -> "asyncio.Future[bool]":
        """Publish persistent messages; what is told when they are confirmed."""
        confirmed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        receipt = BatchReceipt(confirmed.set_result)
        properties = encode_properties(BasicProperties(delivery_mode=2, headers=headers))
        for body in bodies:
            message = make_message("", key, properties, body, self.clock.now_ms())
            self.hub.publish(self.vhost, message, receipt)
        receipt.settle(durable=True)
        return confirmed

    async def synced(self) -> None:
        """Return when everything is on disk, also what follows from that."""
        for _ in range(3):
            self.hub.turn.end()
            await self.hub.sync()
            await self.hub.broker.commit.finish_all()

    def lose_power(self, files: MemoryFiles) -> None:
        self.hub.turn.end()
        self.hub.broker.directory.fail(OSError("the power went"))
        files.crash()

    def bodies(self, name: str) -> list[bytes]:
        taken = iter(lambda: self.queue(name).get(self.clock.now_ms(), no_ack=True), None)
        return [got.message.body for got in taken]


@asynccontextmanager
async def queues(files: MemoryFiles, clock: ManualClock) -> AsyncIterator[World]:
    async with opened(files, clock) as broker:
        hub = QueueBroker(broker.broker)
        await hub.load()
        try:
            yield World(hub, clock)
        finally:
            if broker.broker.directory.offline is None:
                await hub.stop()
            else:
                for delayed in hub.delayed.values():
                    delayed.stop()


async def reject_all(world: World) -> None:
    queue = world.queue("first")
    while (got := queue.get(world.clock.now_ms(), no_ack=False)) is not None:
        queue.reject(got.position)


async def expire_all(world: World) -> None:
    world.clock.advance(1001)
    while not world.queue("first").expire(world.clock.now_ms()):
        pass  # it drops one slice after the other


async def push_out(world: World) -> None:
    """Let the queue be full of others."""
    world.publish("first", b"4", b"5", b"6")


@pytest.mark.parametrize(
    ("leave", "arguments"),
    [
        (reject_all, {}),
        (expire_all, {"x_message_ttl": 1000}),
        (push_out, {"x_max_length": 3}),
    ],
)
def test_a_dead_letter_is_not_lost_with_the_power(leave, arguments):
    async def test(seed: int) -> None:
        files, clock = MemoryFiles(seed), ManualClock()
        async with queues(files, clock) as world:
            await world.declare("last")
            await world.declare("first", **TO_LAST, **arguments)
            assert await world.publish("first", *BODIES)
            await leave(world)
            world.lose_power(files)
        async with queues(files, clock) as world:
            world.hub.turn.end()
            found = {*world.bodies("first"), *world.bodies("last")}
            assert set(BODIES) <= found, f"seed {seed}"

    for seed in range(30):
        asyncio.run(test(seed))


def test_a_delayed_message_is_not_lost_with_the_power():
    async def test(seed: int) -> None:
        files, clock = MemoryFiles(seed), ManualClock()
        async with queues(files, clock) as world:
            await world.declare("last")
            assert await world.publish("last", *BODIES, headers={DELAY: 5})
            clock.advance(5)
            while not world.queue("last").waiting:
                await asyncio.sleep(0)
            world.lose_power(files)
        clock.advance(5)
        async with queues(files, clock) as world:
            async with asyncio.timeout(10):
                while world.hub.delayed and len(world.hub.delayed[DEFAULT_VHOST]):
                    await asyncio.sleep(0)
            assert set(BODIES) <= set(world.bodies("last")), f"seed {seed}"

    for seed in range(30):
        asyncio.run(test(seed))


def test_a_durable_dead_letter_is_in_one_place_only():
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queues(files, clock) as world:
            await world.declare("last")
            await world.declare("first", **TO_LAST)
            world.publish("first", *BODIES)
            await reject_all(world)
            await world.synced()
            world.lose_power(files)
        async with queues(files, clock) as world:
            assert (world.bodies("first"), world.bodies("last")) == ([], BODIES)

    asyncio.run(test())


def test_a_stop_leaves_a_dead_letter_in_one_place_only():
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queues(files, clock) as world:
            await world.declare("last")
            await world.declare("first", **TO_LAST)
            world.publish("first", *BODIES)
            await reject_all(world)
        async with queues(files, clock) as world:
            assert (world.bodies("first"), world.bodies("last")) == ([], BODIES)

    asyncio.run(test())


def test_a_dead_letter_that_the_disk_does_not_take_is_not_lost_with_the_power():
    async def test(seed: int) -> None:
        files, clock = MemoryFiles(seed), ManualClock()
        async with queues(files, clock) as world:
            await world.declare("last")
            await world.declare("first", **TO_LAST)
            assert await world.publish("first", *BODIES)
            await reject_all(world)
            files.fail(1, errno.ENOSPC, only="append")
            world.hub.turn.end()
            assert files.has_failed
            world.lose_power(files)
        async with queues(files, clock) as world:
            world.hub.turn.end()
            found = {*world.bodies("first"), *world.bodies("last")}
            assert set(BODIES) <= found, f"seed {seed}"

    for seed in range(10):
        asyncio.run(test(seed))


def refuse_to_write(world: World, files: MemoryFiles) -> None:
    files.fail(1, errno.ENOSPC, only="append")
    world.hub.turn.end()
    assert files.has_failed


def refuse_to_sync(world: World, files: MemoryFiles) -> None:
    world.hub.turn.end()
    topic = world.hub.broker.find_topic(world.queue("last").definition.topic)
    assert topic is not None
    topic.partitions[0].fail(ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize("refuse", [refuse_to_write, refuse_to_sync])
def test_dead_letters_wait_for_a_disk_that_is_full_for_a_while(refuse):
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queues(files, clock) as world:
            await world.declare("last")
            await world.declare("first", **TO_LAST)
            assert await world.publish("first", *BODIES)
            await reject_all(world)
            refuse(world, files)
            await world.hub.broker.commit.finish_all()
            store = world.queue("first").store
            assert isinstance(store, QueueStore)
            acknowledged = store.log.progress.acknowledged
            assert list(acknowledged.live_before(3)) == [0, 1, 2]
            world.hub.turn._retry()
            await world.synced()
            assert list(acknowledged.live_before(3)) == []
            world.lose_power(files)
        async with queues(files, clock) as world:
            assert (world.bodies("first"), world.bodies("last")) == ([], BODIES)

    asyncio.run(test())


def test_dead_letters_of_a_long_queue_are_not_read_one_by_one():
    async def test() -> None:
        files, clock = MemoryFiles(), ManualClock()
        async with queues(files, clock) as world:
            await world.declare("last")
            await world.declare("first", **TO_LAST, x_message_ttl=1000)
            world.hub.stores.memory.each = 64 * 1024  # a tenth of what will wait
            for _ in range(50):
                assert await world.publish("first", *[bytes(1000)] * 10)
            reads = files.calls["pread"]
            await expire_all(world)
            assert files.calls["pread"] - reads < 100
            await world.synced()
            assert len(world.bodies("last")) == 500

    asyncio.run(test())
