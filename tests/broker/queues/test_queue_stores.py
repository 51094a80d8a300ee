"""Stores and their topics: created when they are needed, deleted with their queue."""

import asyncio
import errno

from strom.broker.queues.message_cache import LEAST_IN_MEMORY, MOST_IN_MEMORY
from strom.broker.queues.queue_stores import store_of
from strom.queues.definitions import QueueDefinition
from tests.broker.queue_world import queue_world

TRANSIENT = QueueDefinition("/", "q", durable=False, topic="__queue.q")


def run(test):
    async def with_world():
        async with queue_world() as world:
            await test(world, world.hub.stores)

    asyncio.run(asyncio.wait_for(with_world(), 10))


def test_the_queue_of_a_store_is_found_by_its_definition():
    async def test(world, stores):
        queue = await world.queue("q")
        assert store_of(queue) is queue.store
        assert queue.definition.topic in stores.used_topics()

    run(test)


def test_a_store_gets_its_topic_when_it_exceeds_the_memory():
    async def test(world, stores):
        store = stores.make(TRANSIENT)
        stores.memory.each = 1000
        store.add(world.message(bytes(100)), None)
        await world.settled()
        assert (store.log.topic, world.broker.find_topic(TRANSIENT.topic)) == (None, None)
        store.add(world.message(bytes(1000)), None)
        await world.settled()
        assert store.log.topic is world.broker.find_topic(TRANSIENT.topic) is not None
        assert [position for position, _ in store.log.live_messages()] == [0, 1]

    run(test)


def test_a_topic_that_cannot_be_created_is_retried_and_blocks_publishers():
    async def test(world, stores):
        store = stores.make(TRANSIENT)
        stores.memory.each = 10
        world.files.fail(1, errno.ENOSPC, sticky=True)
        store.add(world.message(b"m"), None)
        await world.until(lambda: world.hub.block.reason, "low on disk")
        assert store.log.topic is None
        world.files.heal()
        store.write_messages()
        await world.until(lambda: store.log.topic is not None)

    run(test)


def test_forgetting_a_queue_deletes_its_topic():
    async def test(world, stores):
        queue = await world.queue("q")
        topic = queue.definition.topic
        assert world.broker.find_topic(topic) is not None
        stores.forget(store_of(queue))
        await world.until(lambda: world.broker.find_topic(topic) is None)
        assert topic not in stores.used_topics()

    run(test)


def test_a_queue_that_is_deleted_while_its_topic_is_created_leaves_none():
    async def test(world, stores):
        store = stores.make(TRANSIENT)
        stores.memory.each = 10
        store.add(world.message(b"m"), None)
        stores.open_topic(store)
        stores.forget(store)
        await world.until(lambda: len(world.hub.tasks), 0)
        assert world.broker.find_topic(TRANSIENT.topic) is None

    run(test)


def test_queues_share_the_memory():
    async def test(world, stores):
        made = [stores.make(TRANSIENT) for _ in range(1000)]
        assert stores.memory.each == LEAST_IN_MEMORY
        for store in made:
            stores.forget(store)
        assert stores.memory.each == MOST_IN_MEMORY

    run(test)
