"""The logs of one queue and their upkeep, on a disk in memory."""

import asyncio

from strom.broker.queues.message_properties import make_message, make_properties
from strom.broker.queues.queue_log import QueueLog
from strom.broker.queues.queue_stores import QUEUE_TOPIC_SETTINGS
from tests.broker.opened import opened

SMALL_SEGMENTS = QUEUE_TOPIC_SETTINGS | {"segment.bytes": str(1 << 20), "file.delete.delay.ms": "0"}


def run(test):
    async def with_log():
        async with opened() as world:
            hosted = await world.broker.create_topic("q", 2, SMALL_SEGMENTS)
            log = QueueLog(world.clock)
            log.open(hosted)
            await test(world, log, hosted)

    asyncio.run(asyncio.wait_for(with_log(), 10))


def append(log, count):
    properties = make_properties({}, timestamp_ms=0)
    for _ in range(count):
        message = make_message("", "q", properties, bytes(600 * 1024), 0)
        log.messages.append([(log.messages.end, message)], 0)


def remove(log, start, end):
    log.progress.acknowledged.add_range(start, end)
    log.progress.add_gone_range(start, end)


async def at_once(work):
    work()


def live(log):
    return [position for position, _ in log.live_messages()]


def test_a_queue_in_memory_has_no_messages_in_its_log_and_no_upkeep():
    async def test():
        async with opened() as world:
            log = QueueLog(world.clock)
            assert (log.topic, live(log), log.is_prunable) == (None, [], False)
            log.sync()
            log.trim()
            await log.prune(at_once)
            await log.loaded()

    asyncio.run(asyncio.wait_for(test(), 10))


def test_what_was_written_is_loaded():
    async def test(world, log, hosted):
        append(log, 4)
        remove(log, 1, 3)
        assert log.progress.write(log.messages.end)
        again = QueueLog(world.clock)
        assert 1 in again.load(hosted).acknowledged
        await again.loaded()
        assert live(again) == [0, 3]

    run(test)


def test_syncing_reaches_the_disk_but_not_for_a_deleted_queue():
    async def test(world, log, hosted):
        partition = hosted.partitions[0]
        append(log, 2)
        log.closed = True
        log.sync_later(partition)
        log.sync()
        await world.broker.commit.finish_all()
        assert partition.log.flushed_offset < 2
        log.closed = False
        log.sync_later(partition)
        log.sync()
        await world.broker.commit.finish_all()
        assert partition.log.flushed_offset == 2

    run(test)


def test_trimming_deletes_segments_whose_messages_are_all_removed():
    async def test(world, log, hosted):
        append(log, 6)
        log.sync_later(hosted.partitions[0])
        log.sync()
        await world.broker.commit.finish_all()
        before = hosted.partitions[0].log.segment_count
        remove(log, 0, 4)
        log.trim()
        assert hosted.partitions[0].log.segment_count < before
        assert live(log) == [4, 5]

    run(test)


def test_pruning_waits_until_the_removals_are_written():
    async def test(world, log, hosted):
        append(log, 6)
        assert log.is_prunable
        ran = []

        async def note(work):
            ran.append(work)
            work()

        remove(log, 1, 5)
        await log.prune(note)
        assert ran == []
        log.progress.write(log.messages.end)
        log.sync_later(hosted.partitions[0])
        log.sync()
        await log.prune(note)
        assert live(log) == [0, 5]
        assert not log.progress.has_unwritten_gone

    run(test)
