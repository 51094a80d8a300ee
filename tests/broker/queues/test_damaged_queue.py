"""A queue whose log is damaged keeps what it has until it is restored or deleted."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from strom.broker.queues.store import QueueStore
from strom.model.errors import CorruptData
from strom.queues.errors import QueueError, Reason
from strom.queues.queue import Queue
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
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
                    with pytest.raises(QueueError, match="is damaged") as refused:
                        await world.queue("q")
                    assert refused.value.reason is Reason.PRECONDITION_FAILED
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


def store_of(queue: Queue) -> QueueStore:
    assert isinstance(queue.store, QueueStore)
    return queue.store


def find_damage(queue: Queue) -> None:
    """Have the log of a queue that is served turn out to be damaged."""
    store_of(queue).log.topic.partitions[0].log._guard.quarantined = "a batch fails its checksum"


def test_a_queue_whose_log_is_found_damaged_refuses_messages_and_holds_up_no_other_queue():
    async def test():
        async with queue_world(MemoryFiles(), ManualClock()) as world:
            damaged, _ = await world.queue("q"), await world.queue("other")
            world.publish(b"before", "q")
            await world.settled()
            find_damage(damaged)
            for number in range(3):
                refused = world.publish(b"%d" % number, "q")
                await world.settled()
                assert refused.outcome is False
                assert world.hub.block.reason is None
            confirmed = world.publish(b"1", "other")
            await world.settled()
            assert confirmed.outcome is True
            assert damaged.refuses(1, 1), "a transaction is refused as a whole"

    asyncio.run(test())


def test_a_dead_letter_for_a_damaged_queue_is_not_taken_from_where_it_is():
    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            dead = await world.queue("dead")
            source = await world.queue(
                "q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead"
            )
            world.publish(b"1", "q")
            await world.settled()
            find_damage(dead)
            assert world.publish(b"2", "dead").outcome is None
            await world.settled()
            source.reject(source.get(0, no_ack=False).position)
            await world.settled()
            assert 0 not in store_of(source).log.progress.acknowledged
        async with queue_world(files, clock) as world:
            assert world.waiting("q") == [b"1"]

    asyncio.run(test())
