"""A message that is never acknowledged does not keep the log of all that came after it."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from strom.broker.partition import Partition
from strom.broker.queues.declaring import Declarations
from strom.model.errors import ApiError, DirectoryOffline
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from tests.broker.queues.test_power_loss_of_dead_letters import World, queues

SEGMENT_BYTES = 20_000


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


async def declare(world: World, **arguments: object) -> None:
    """A queue whose log has small segments."""
    await world.declare("q", **arguments)
    for partition in partitions(world):
        settings = partition.log.settings
        small = replace(settings, segment_bytes=SEGMENT_BYTES, file_delete_delay_ms=0)
        partition.log.change_settings(small)


def partitions(world: World) -> list[Partition]:
    topic = world.hub.broker.find_topic(world.queue("q").definition.topic)
    assert topic is not None
    return topic.partitions


async def work_off(world: World, rounds: int, *, keep_of_each: int = 0) -> list[bytes]:
    """Publish and acknowledge all but a few of each round; what is left."""
    queue, kept = world.queue("q"), []
    for number in range(rounds):
        bodies = [b"%d/%d" % (number, each) + bytes(400) for each in range(20)]
        assert await world.publish("q", *bodies)
        for each, body in enumerate(bodies):
            got = queue.get(world.clock.now_ms(), no_ack=False)
            assert got is not None
            assert got.message.body == body
            if each < keep_of_each:
                kept.append(body)
            else:
                queue.acknowledge(got.position)
        world.hub.turn.end()
    return kept


async def trimmed(world: World) -> None:
    await world.synced()
    await world.hub.trim()


def log_bytes(world: World) -> int:
    return partitions(world)[0].log.size_bytes


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 5}])
def test_the_log_stays_small_behind_one_message_and_everything_is_left_after_a_restart(arguments):
    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with queues(files, clock) as world:
            await declare(world, **arguments)
            assert await world.publish("q", b"stuck")
            assert world.queue("q").get(clock.now_ms(), no_ack=False)
            for _ in range(10):
                await work_off(world, 10)
                await trimmed(world)
                assert log_bytes(world) < 5 * SEGMENT_BYTES
            kept = await work_off(world, 20, keep_of_each=1)
            await trimmed(world)
            assert log_bytes(world) < 5 * SEGMENT_BYTES
        async with queues(files, clock) as world:
            assert world.queue("q").waiting == 1 + len(kept)
            assert world.bodies("q") == [b"stuck", *kept]

    run(test())


def test_messages_that_come_back_after_pruning_are_read_from_the_new_segments():
    async def test():
        async with queues(MemoryFiles(), ManualClock()) as world:
            await declare(world)
            world.hub.stores.memory.each = 10_000
            kept = await work_off(world, 40, keep_of_each=1)
            await trimmed(world)
            queue = world.queue("q")
            queue.requeue(list(queue.unacked))
            assert world.bodies("q") == kept

    run(test())


def test_a_power_cut_at_any_step_keeps_what_was_not_acknowledged():
    async def test(step: int) -> bool:
        files, clock = MemoryFiles(step), ManualClock()
        async with queues(files, clock) as world:
            await declare(world)
            assert await world.publish("q", b"stuck")
            assert world.queue("q").get(clock.now_ms(), no_ack=False)
            kept = await work_off(world, 12, keep_of_each=1)
            await world.synced()
            later = await work_off(world, 2, keep_of_each=10)  # its acknowledgements are not synced
            files.fail(step, sticky=True)
            try:
                await world.hub.trim()
            except (ApiError, DirectoryOffline):
                pass
            met = files.has_failed
            world.hub.broker.directory.fail(OSError("the power went"))
            files.crash()
        async with queues(files, clock) as world:
            world.hub.turn.end()
            assert {b"stuck", *kept, *later} <= set(world.bodies("q")), f"step {step}"
        return met

    for step in itertools.count(1):
        if not asyncio.run(asyncio.wait_for(test(step), 60)):
            break
    assert step > 20


def test_a_queue_can_be_deleted_while_its_log_is_pruned(monkeypatch):
    async def test():
        async with queues(MemoryFiles(), ManualClock()) as world:
            await declare(world)
            assert await world.publish("q", b"stuck")
            assert world.queue("q").get(world.clock.now_ms(), no_ack=False)
            await work_off(world, 30)
            await world.synced()
            broker, queue = world.hub.broker, world.queue("q")
            off_loop = broker.off_loop

            async def delete_first(work):
                monkeypatch.setattr(broker, "off_loop", off_loop)
                await Declarations(world.hub).delete_queue(world.vhost, queue)
                while world.hub.tasks:
                    await asyncio.sleep(0)
                await off_loop(work)

            monkeypatch.setattr(broker, "off_loop", delete_first)
            await world.hub.trim()
            assert queue.deleted
            assert broker.directory.offline is None
            await world.declare("q")
            assert await world.publish("q", b"new")

    run(test())


def test_nothing_is_pruned_before_it_is_durable_that_it_is_gone(monkeypatch):
    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with queues(files, clock) as world:
            await declare(world)
            assert await world.publish("q", b"stuck")
            assert world.queue("q").get(clock.now_ms(), no_ack=False)
            await work_off(world, 12)
            messages, progress = partitions(world)
            planned = []
            plan_pruning = messages.log.plan_pruning

            def observe(gone, now_ms):
                planned.append(progress.log.flushed_offset == progress.log.end_offset)
                return plan_pruning(gone, now_ms)

            monkeypatch.setattr(messages.log, "plan_pruning", observe)
            await world.hub.trim()
            assert planned == [True]

    run(test())
