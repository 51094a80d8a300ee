"""Which messages are gone, in a log on a disk in memory."""

import asyncio

from strom.broker.queues import progress_log
from strom.broker.queues.progress_log import ProgressLog
from strom.broker.queues.queue_stores import QUEUE_TOPIC_SETTINGS
from tests.broker.opened import opened


def run(test):
    asyncio.run(asyncio.wait_for(test(), 10))


async def partition_of(world):
    hosted = await world.broker.create_topic("q", 2, QUEUE_TOPIC_SETTINGS)
    return hosted.partitions[1]


def test_what_was_written_is_loaded():
    async def test():
        async with opened() as world:
            partition = await partition_of(world)
            log = ProgressLog(world.clock)
            log.partition = partition
            for position in (3, 4, 7):
                log.acknowledged.add(position)
                log.add_gone(position)
            log.delivered = 9
            log.add_returned(5, 2)
            assert log.write(10)
            assert not log.has_unwritten_gone
            assert not log.write(10)
            loaded = ProgressLog(world.clock)
            progress = loaded.load(partition, 0, 10)
            assert [one for one in range(10) if one in loaded.acknowledged] == [3, 4, 7]
            assert (progress.delivered, progress.returned) == (9, {5: 2})
            assert not loaded.must_correct

    run(test)


def test_one_record_stands_for_many(monkeypatch):
    monkeypatch.setattr(progress_log, "CHANGES_AT_MOST", 3)

    async def test():
        async with opened() as world:
            partition = await partition_of(world)
            log = ProgressLog(world.clock)
            log.partition = partition
            for position in range(4):
                log.acknowledged.add(position)
                log.add_gone(position)
                log.write(4)
            await world.broker.commit.finish_all()
            assert (partition.log.start_offset, partition.log.end_offset) == (3, 4)
            loaded = ProgressLog(world.clock)
            loaded.load(partition, 0, 4)
            assert loaded.acknowledged.floor == 4

    run(test)


def test_positions_beyond_the_messages_are_to_be_corrected():
    async def test():
        async with opened() as world:
            partition = await partition_of(world)
            log = ProgressLog(world.clock)
            log.partition = partition
            log.acknowledged.add_range(0, 9)
            log.add_gone_range(0, 9)
            log.write(9)
            loaded = ProgressLog(world.clock)
            loaded.load(partition, 0, 5)  # a power cut took four messages
            assert loaded.must_correct
            loaded.write_all(5)
            await world.broker.commit.finish_all()
            assert not loaded.must_correct
            assert 5 not in loaded.acknowledged

    run(test)
