"""Background work, called by hand, with a clock that the test moves."""

import asyncio
import errno

from strom.broker.housekeeping import Housekeeping
from strom.testing import ManualClock, MemoryFiles
from strom.wire.kafka.records import Record, build_batch
from tests.broker.opened import Opened, new_partition, opened, values_in

HOUR = 3_600_000


def run(test):
    asyncio.run(asyncio.wait_for(test, 30))


async def settle(world: Opened) -> None:
    """Let the group commit do what background work has asked for."""
    for partition in world.broker.all_partitions():
        world.broker.commit.mark_dirty(partition)
    await asyncio.sleep(0)
    await world.broker.commit.finish_round()


async def keep_house(world: Opened) -> None:
    housekeeping = Housekeeping(world.broker)
    for _ in range(3):  # closing a segment, syncing it and deleting it are three visits
        await housekeeping.delete_old_segments()
        await settle(world)


def test_records_older_than_the_retention_go_and_younger_ones_stay():
    async def test():
        async with opened() as world:
            partition = await new_partition(world, retention_ms=str(2 * HOUR), segment_ms=str(HOUR))
            await world.produce(partition, b"old")
            world.clock.advance(HOUR + 1)
            await keep_house(world)
            await world.produce(partition, b"young")
            assert values_in(partition) == [b"old", b"young"]
            world.clock.advance(HOUR)
            await keep_house(world)
            assert values_in(partition) == [b"young"]
            assert partition.log.start_offset == 1

    run(test())


def test_without_a_limit_nothing_is_ever_deleted():
    async def test():
        async with opened() as world:
            partition = await new_partition(world, retention_ms="-1", segment_ms=str(HOUR))
            await world.produce(partition, b"old")
            world.clock.advance(100_000 * HOUR)
            await keep_house(world)
            assert values_in(partition) == [b"old"]

    run(test())


def test_the_files_of_deleted_segments_are_removed_after_the_delay():
    async def test():
        async with opened() as world:
            partition = await new_partition(
                world, retention_ms=str(HOUR), segment_ms=str(HOUR), file_delete_delay_ms="60000"
            )
            await world.produce(partition, b"old")
            world.clock.advance(2 * HOUR)
            await keep_house(world)
            assert any("deleted" in path for path in world.files.paths("data"))
            world.clock.advance(60_001)
            await keep_house(world)
            assert not any("deleted" in path for path in world.files.paths("data"))

    run(test())


def test_the_oldest_segments_go_when_the_log_is_too_large():
    async def test():
        async with opened() as world:
            partition = await new_partition(
                world, retention_bytes="3000000", segment_bytes="1048576"
            )
            for number in range(20):
                await world.produce(partition, b"%3d" % number + b"." * 500_000)
            await keep_house(world)
            left = values_in(partition)
            assert 4 <= len(left) <= 8
            assert left[-1] is not None
            assert left[-1].startswith(b" 19")

    run(test())


def test_a_segment_is_closed_when_its_time_is_over():
    async def test():
        async with opened() as world:
            partition = await new_partition(world, segment_ms=str(HOUR))
            await world.produce(partition, b"1")
            world.clock.advance(HOUR + 1)
            await keep_house(world)
            names = [path for path in world.files.paths("data/t-0") if path.endswith(".log")]
            assert len(names) == 2

    run(test())


def test_compaction_keeps_the_last_value_of_every_key():
    async def test():
        async with opened() as world:
            partition = await new_partition(
                world,
                cleanup_policy="compact",
                segment_bytes="1048576",
                min_cleanable_dirty_ratio="0",
            )
            for number in range(30):
                value = b"%3d" % number + b"." * 300_000
                await world.produce(partition, value, key=b"k%d" % (number % 2))
            end = partition.log.end_offset
            housekeeping = Housekeeping(world.broker)
            before = partition.log.size_bytes
            await housekeeping.compact()
            cleaned = housekeeping.cleaning()
            assert cleaned.compactions == 1
            assert cleaned.bytes_removed == before - partition.log.size_bytes > 0
            left = [value[:3] for value in values_in(partition) if value is not None]
            assert len(left) < 12
            assert left[-2:] == [b" 28", b" 29"]
            assert partition.log.end_offset == end, "offsets stay"

    run(test())


def test_the_same_compaction_survives_a_crash_right_after_it():
    async def test():
        files = MemoryFiles(seed=3)
        async with opened(files) as world:
            partition = await new_partition(
                world,
                cleanup_policy="compact",
                segment_bytes="1048576",
                min_cleanable_dirty_ratio="0",
            )
            for number in range(30):
                await world.produce(partition, b"%3d" % number + b"." * 300_000, key=b"k")
            await Housekeeping(world.broker).compact()
            before = values_in(partition)
            world.broker.directory.fail(OSError("no clean stop"))
            files.crash()
        async with opened(files) as world:
            assert values_in(world.broker.topic("t").partitions[0])[-1] == before[-1]
            assert world.broker.topic("t").partitions[0].log.end_offset == 30

    run(test())


def test_with_flush_os_records_are_synced_when_flush_ms_is_over():
    async def test():
        async with opened() as world:
            partition = await new_partition(world, flush="os", flush_ms="1000")
            await world.produce(partition, b"1")
            housekeeping = Housekeeping(world.broker)
            await housekeeping.checkpoint()
            await world.broker.commit.finish_round()
            assert partition.log.flushed_offset == 0
            world.clock.advance(1000)
            await housekeeping.checkpoint()
            await asyncio.sleep(0)
            await world.broker.commit.finish_round()
            assert partition.log.flushed_offset == 1

    run(test())


def batch_of(producer_id: int, sequence: int, clock: ManualClock) -> bytearray:
    return build_batch(
        [Record(0, clock.now_ms(), None, b"x")],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )


def test_an_idle_producer_is_forgotten_after_its_time():
    async def test():
        async with opened(producer_id_expiration_ms=str(HOUR)) as world:
            partition = await new_partition(world)
            now = world.clock.now_ms
            partition.append(batch_of(9, 0, world.clock), now())
            assert partition.append(batch_of(9, 0, world.clock), now()).duplicate
            world.clock.advance(HOUR + 1)
            await keep_house(world)
            assert not partition.append(batch_of(9, 0, world.clock), now()).duplicate

    run(test())


def test_trouble_with_one_partition_does_not_keep_the_others_from_being_cleaned():
    async def test():
        async with opened() as world:
            names = [f"t{number}" for number in range(3)]
            partitions = [
                await new_partition(world, name, retention_ms=str(HOUR), segment_ms=str(HOUR))
                for name in names
            ]
            for partition in partitions:
                await world.produce(partition, b"old")
            world.clock.advance(2 * HOUR)
            world.files.fail(1, errno.ENOSPC, only="open")
            await keep_house(world)
            await keep_house(world)
            assert [values_in(partition) for partition in partitions] == [[], [], []]
            assert world.failures == []

    run(test())


def test_background_work_reports_a_broken_disk_to_the_broker():
    async def test():
        async with opened(log_retention_check_interval_ms="1") as world:
            partition = await new_partition(world, retention_ms=str(HOUR), segment_ms=str(HOUR))
            await world.produce(partition, b"old")
            world.clock.advance(2 * HOUR)
            world.files.fail(1, errno.EIO, only="open", sticky=True)
            housekeeping = Housekeeping(world.broker)
            housekeeping.start()
            async with asyncio.timeout(10):
                while not world.failures:
                    await asyncio.sleep(0.001)
            await housekeeping.stop()
            assert len(world.failures) == 1

    run(test())
