"""A queue whose log is damaged keeps what it has until somebody decides about it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from strom.broker.queues.store import QueueStore
from strom.model.errors import CorruptData
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from strom.wire.amqp.protocol import AmqpError, ReplyCode
from tests.broker.queue_world import QueueWorld, queue_world


@contextmanager
def damage() -> Iterator[None]:
    """Have the logs of queues read as damaged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueueStore, "load", _refuse)
        yield


def _refuse(*_: object) -> None:
    raise CorruptData("a batch fails its checksum.")


async def fill(world: QueueWorld) -> None:
    await world.exchange("x")
    await world.queue("q", bound_to="x")
    world.publish(b"1", exchange="x")
    await world.settled()


def test_clients_that_declare_a_damaged_queue_do_not_take_the_place_of_its_messages():
    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            await fill(world)
        for _ in range(2):
            with damage():
                async with queue_world(files, clock) as world:
                    with pytest.raises(AmqpError, match="is damaged") as refused:
                        await world.queue("q")
                    assert refused.value.code is ReplyCode.PRECONDITION_FAILED
        async with queue_world(files, clock) as world:
            world.publish(b"2", exchange="x")
            assert world.waiting("q") == [b"1", b"2"]

    asyncio.run(test())


def test_a_damaged_queue_can_be_deleted_and_declared_again_without_its_bindings():
    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            await fill(world)
        with damage():
            async with queue_world(files, clock) as world:
                await world.declarations.delete_damaged_queue(world.vhost, "q")
        async with queue_world(files, clock) as world:
            await world.queue("q")
            world.publish(b"2", exchange="x")
            assert world.waiting("q") == []

    asyncio.run(test())
