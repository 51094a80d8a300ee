"""What a start restores from the logs, on a disk in memory."""

import asyncio

from strom.broker.queues.queue_stores import QUEUE_TOPIC_SETTINGS
from strom.model.topics import QUEUE_TOPIC_PREFIX
from strom.queues.definitions import QUEUE, Binding, QueueDefinition, VirtualHostDefinition
from strom.testing.manual_clock import ManualClock
from strom.testing.memory_files import MemoryFiles
from tests.broker.queue_world import queue_world


def run(before, after, *, advance_ms=0):
    """Run `before`, restart the broker, and run `after`."""

    async def test():
        files, clock = MemoryFiles(), ManualClock()
        async with queue_world(files, clock) as world:
            await before(world)
            await world.settled()
        clock.advance(advance_ms)
        async with queue_world(files, clock) as world:
            await after(world)

    asyncio.run(asyncio.wait_for(test(), 10))


def test_a_new_broker_has_the_default_virtual_host_with_its_exchanges():
    async def test():
        async with queue_world() as world:
            assert list(world.hub.vhosts) == ["/"]
            assert "amq.topic" in world.vhost.exchanges

    asyncio.run(asyncio.wait_for(test(), 10))


def test_virtual_hosts_exchanges_queues_and_bindings_are_restored():
    async def before(world):
        await world.hub.topology.write([VirtualHostDefinition("other")])
        await world.exchange("x", "direct")
        await world.queue("q", bound_to="x", key="k", x_max_length=5)

    async def after(world):
        assert sorted(world.hub.vhosts) == ["/", "other"]
        assert world.vhost.queues["q"].rules.max_length == 5
        world.publish(b"m", "k", "x")
        assert world.waiting("q") == [b"m"]

    run(before, after)


def test_messages_are_restored_without_those_that_were_acknowledged():
    async def before(world):
        queue = await world.queue("q")
        for body in (b"a", b"b", b"c"):
            world.publish(body, "q")
        got = queue.get(world.clock.now_ms(), no_ack=False)
        queue.acknowledge(got.position)
        queue.get(world.clock.now_ms(), no_ack=False)

    async def after(world):
        queue = world.vhost.queues["q"]
        taken = [queue.get(world.clock.now_ms(), no_ack=True) for _ in range(2)]
        assert [(one.message.body, one.redelivered) for one in taken] == [
            (b"b", True),
            (b"c", False),
        ]
        assert queue.waiting == 0

    run(before, after)


def test_priorities_and_sizes_are_restored_where_they_are_needed():
    async def before(world):
        await world.queue("sized", x_max_length_bytes=100)
        await world.queue("plain")
        for name in ("sized", "plain"):
            world.publish(bytes(40), name)

    async def after(world):
        assert world.vhost.queues["sized"].backlog.size == 40
        assert world.vhost.queues["plain"].backlog.size == 0, "its messages are not read"
        assert world.vhost.queues["plain"].waiting == 1

    run(before, after)


def test_what_expired_meanwhile_is_dropped():
    async def before(world):
        await world.queue("q", x_message_ttl=1000)
        world.publish(b"m", "q")

    async def after(world):
        assert world.vhost.queues["q"].waiting == 0

    run(before, after, advance_ms=1001)


def test_a_queue_without_its_log_and_bindings_to_it_are_skipped(caplog):
    async def before(world):
        missing = QueueDefinition("/", "q", topic=f"{QUEUE_TOPIC_PREFIX}missing")
        bound = Binding("/", "amq.direct", QUEUE, "q", "k")
        await world.hub.topology.write([missing, bound])

    async def after(world):
        assert (world.vhost.queues, world.vhost.bindings) == ({}, {})
        assert "Skipped queue 'q': its log is missing." in caplog.text
        assert "Skipped a binding" in caplog.text

    run(before, after)


def test_topics_of_no_queue_are_deleted():
    async def before(world):
        await world.broker.create_topic(f"{QUEUE_TOPIC_PREFIX}left", 2, QUEUE_TOPIC_SETTINGS)
        await world.topic("mine")
        await world.queue("q")

    async def after(world):
        left = {hosted.topic.name for hosted in world.broker.topics()}
        assert f"{QUEUE_TOPIC_PREFIX}left" not in left
        assert {"mine", world.vhost.queues["q"].definition.topic} <= left

    run(before, after)
