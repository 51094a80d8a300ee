"""Many messages that expire at once: a few in each turn of the event loop, in order, and none twice."""

import asyncio

from strom.queues.queue import EXPIRY_SLICE
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from tests.broker.queues.test_power_loss_of_dead_letters import TO_LAST, World, queues

MANY = 5 * EXPIRY_SLICE + 3
BODIES = [str(number).encode() for number in range(MANY)]


def run(test):
    asyncio.run(asyncio.wait_for(test(), 60))


async def with_messages(world: World, name: str = "first", **arguments: object) -> None:
    await world.declare("last")
    await world.declare(name, **TO_LAST, x_message_ttl=1000, **arguments)
    assert await world.publish(name, *BODIES)


async def watch(world: World, *names: str) -> int:
    """Let all expire; how many turns of the event loop it took. No turn drops more than a slice."""
    turns = 0
    sources = [world.queue(name) for name in names]
    last = world.queue("last")
    while any(source.waiting for source in sources):
        before = sum(source.waiting for source in sources), last.waiting
        await asyncio.sleep(0)
        turns += 1
        assert before[0] - sum(source.waiting for source in sources) <= EXPIRY_SLICE
        assert last.waiting - before[1] <= EXPIRY_SLICE
        assert world.hub.host.dead_letters <= EXPIRY_SLICE
    await world.synced()
    return turns


def test_expired_messages_become_dead_letters_in_slices():
    async def test():
        async with queues(MemoryFiles(), ManualClock()) as world:
            await with_messages(world)
            world.clock.advance(1001)
            world.queue("first").woken(world.clock.now_ms())
            assert await watch(world, "first") >= 4
            assert world.bodies("last") == BODIES

    run(test)


def test_queues_whose_messages_expire_at_the_same_time_take_turns():
    async def test():
        async with queues(MemoryFiles(), ManualClock()) as world:
            names = ("first", "second", "third")
            for name in names:
                await with_messages(world, name)
            world.clock.advance(1001)
            for name in names:
                world.hub.host.wake_now(world.queue(name))
            assert await watch(world, *names) >= 15
            assert sorted(world.bodies("last")) == sorted(3 * BODIES)

    run(test)


def test_publishing_to_a_queue_of_expired_messages_drops_one_slice_of_them():
    async def test():
        async with queues(MemoryFiles(), ManualClock()) as world:
            await with_messages(world)
            world.clock.advance(1001)
            queue = world.queue("first")
            for _ in range(10):
                world.publish("first", b"new")
            assert queue.waiting == MANY + 10 - EXPIRY_SLICE
            while queue.is_paused:
                await asyncio.sleep(0)
            assert queue.waiting == 10

    run(test)


def test_what_expired_while_the_broker_was_down_becomes_dead_letters_in_slices():
    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with queues(files, clock) as world:
            await with_messages(world)
        clock.advance(1001)
        async with queues(files, clock) as world:
            assert world.queue("first").waiting >= MANY - 2 * EXPIRY_SLICE
            assert await watch(world, "first") >= 3
            assert world.bodies("last") == BODIES

    run(test)


def test_a_stop_in_the_middle_leaves_each_message_in_one_place():
    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with queues(files, clock) as world:
            await with_messages(world)
            clock.advance(1001)
            world.hub.host.wake_now(world.queue("first"))
            while world.queue("last").waiting < 2 * EXPIRY_SLICE:
                await asyncio.sleep(0)
        async with queues(files, clock) as world:
            await watch(world, "first")
            assert world.bodies("last") == BODIES

    run(test)


def test_a_chain_of_full_queues_is_worked_off_turn_by_turn():
    async def test():
        async with queues(MemoryFiles(), ManualClock()) as world:
            await world.declare("last")
            await world.declare("middle", **TO_LAST, x_max_length=1)
            to_middle = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "middle"}
            await world.declare("first", **to_middle, x_max_length=1)
            assert await world.publish("first", *BODIES[:10])
            await world.synced()
            assert world.bodies("first") == [b"9"]
            assert world.bodies("middle") == [b"8"]
            assert world.bodies("last") == BODIES[:8]

    run(test)
