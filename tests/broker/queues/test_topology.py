"""Definitions in their log."""

import asyncio
import errno

import pytest

from strom.broker.queues.topology import TopologyLog
from strom.model.errors import ApiError
from strom.model.topics import QUEUE_TOPOLOGY_TOPIC
from strom.queues.definitions import (
    QUEUE,
    Binding,
    ExchangeDefinition,
    QueueDefinition,
    VirtualHostDefinition,
)
from tests.broker.opened import opened

VHOST = VirtualHostDefinition("v")
EXCHANGE = ExchangeDefinition("v", "x", "topic", arguments={"alternate-exchange": "y"})
ONE = QueueDefinition("v", "one", topic="t1")
BOUND = Binding("v", "x", QUEUE, "one", "a.#")


def run(test):
    async def with_broker():
        async with opened() as world:
            await test(world)

    asyncio.run(asyncio.wait_for(with_broker(), 10))


def test_a_new_broker_has_no_definitions():
    async def test(world):
        assert TopologyLog(world.broker).read() == []

    run(test)


def test_what_was_written_is_read_by_the_next_start():
    async def test(world):
        await TopologyLog(world.broker).write([VHOST, EXCHANGE])
        await TopologyLog(world.broker).write([ONE, BOUND])
        assert TopologyLog(world.broker).read() == [VHOST, EXCHANGE, ONE, BOUND]

    run(test)


def test_the_last_definition_of_an_entity_counts():
    async def test(world):
        log = TopologyLog(world.broker)
        changed = QueueDefinition("v", "one", durable=False, topic="t2")
        await log.write([ONE])
        await log.write([changed])
        assert log.read() == [changed]

    run(test)


def test_what_is_deleted_is_not_read_again():
    async def test(world):
        log = TopologyLog(world.broker)
        await log.write([ONE, BOUND])
        await log.write(gone=[BOUND])
        assert log.read() == [ONE]

    run(test)


def test_it_returns_when_the_definitions_are_durable():
    async def test(world):
        await TopologyLog(world.broker).write([ONE])
        (partition,) = world.broker.topic(QUEUE_TOPOLOGY_TOPIC).partitions
        assert partition.log.flushed_offset == partition.log.end_offset == 1

    run(test)


def test_a_full_disk_is_an_error_of_the_write():
    async def test(world):
        log = TopologyLog(world.broker)
        await log.write([VHOST])
        world.files.fail(1, errno.ENOSPC, only="append", sticky=True)
        with pytest.raises(ApiError):
            await log.write([ONE])
        world.files.heal()
        assert log.read() == [VHOST]

    run(test)
