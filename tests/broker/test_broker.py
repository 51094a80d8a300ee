import asyncio
import errno

import pytest

from strom.broker.fetching import Fetch, FetchLimits, TopicKey, WaitingFetch, WantedPartition
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode, UserError
from strom.testing.memory_files import MemoryFiles
from tests.broker.opened import Memory, new_partition, opened, safe, values_in


def run(test):
    asyncio.run(asyncio.wait_for(test, 30))


def test_after_a_failed_sync_every_waiting_producer_gets_an_error_and_nothing_is_acknowledged():
    async def test():
        async with opened() as world:
            first, second = await new_partition(world, "a"), await new_partition(world, "b")
            world.files.fail(1, errno.EIO, only="datasync")
            one = world.append(first, b"1")
            two = world.append(second, b"2")
            told = await asyncio.gather(safe(first, one), safe(second, two))
            assert set(told) == {ErrorCode.KAFKA_STORAGE_ERROR}
            assert len(world.failures) == 1
            assert (first.log.high_watermark, second.log.high_watermark) == (0, 0)
            syncs = world.files.calls["datasync"]
            for partition in (first, second):
                with pytest.raises(DirectoryOffline):
                    world.append(partition, b"3")
            await asyncio.sleep(0.05)
            assert world.files.calls["datasync"] == syncs, "a failed sync is never tried again"

    run(test())


def test_after_a_failed_write_the_node_is_notified_though_storage_knows_already():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            world.files.fail(1, errno.EIO, only="append")
            with pytest.raises(DirectoryOffline) as caught:
                world.append(partition, b"1")
            world.broker.storage_failed(caught.value)
            world.broker.storage_failed(caught.value)
            assert len(world.failures) == 1

    run(test())


def test_waiting_fetches_are_answered_when_the_disk_fails():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            wanted = WantedPartition(TopicKey("t", None), 0, 0, 1000)
            fetch = Fetch([wanted], FetchLimits(60_000, 1, 1000), lambda _: partition, Memory(1000))
            assert not fetch.is_ready()
            waiting = WaitingFetch(fetch, asyncio.get_running_loop())
            world.files.fail(1, errno.EIO, only="datasync")
            world.append(partition, b"1")
            (fetched,) = await asyncio.wait_for(waiting.answer, 5)
            assert fetched.error is ErrorCode.KAFKA_STORAGE_ERROR

    run(test())


def test_a_full_disk_refuses_producers_only_while_it_is_full():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            await world.produce(partition, b"before")
            world.files.fail(1, errno.ENOSPC, only="append")
            with pytest.raises(ApiError) as refused:
                world.append(partition, b"lost")
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert values_in(partition) == [b"before"]
            await world.produce(partition, b"after")
            assert values_in(partition) == [b"before", b"after"]
            assert world.failures == []

    run(test())


def test_a_topic_is_deleted_while_others_are_written_without_a_pause():
    async def test():
        async with opened() as world:
            await new_partition(world, "doomed")
            busy = await new_partition(world, "busy")
            stop = asyncio.Event()

            async def load():
                while not stop.is_set():
                    world.append(busy, b"x")
                    await asyncio.sleep(0)

            task = asyncio.create_task(load())
            await asyncio.wait_for(world.broker.delete_topic("doomed"), 10)
            stop.set()
            await task
            assert world.broker.find_topic("doomed") is None

    run(test())


@pytest.mark.parametrize("crash", [False, True])
def test_topics_settings_and_records_are_there_after_a_restart(crash):
    async def test():
        files = MemoryFiles(seed=7)
        async with opened(files) as world:
            partition = await new_partition(world, "kept", retention_ms="1234")
            await world.produce(partition, b"1", b"2")
            await new_partition(world, "gone")
            await world.broker.delete_topic("gone")
            await world.broker.set_broker_configs(None, {"num.partitions": "5"})
            if crash:
                files.crash()
                world.broker.directory.fail(OSError("the power went"))
        async with opened(files) as world:
            assert [topic.topic.name for topic in world.broker.topics()] == ["kept"]
            topic = world.broker.topic("kept")
            assert topic.settings.retention_ms == 1234
            assert values_in(topic.partitions[0]) == [b"1", b"2"]
            assert world.broker.settings.num_partitions == 5

    run(test())


def test_producer_ids_are_never_assigned_twice():
    async def test():
        files = MemoryFiles()
        handed_out = []
        for _ in range(3):
            async with opened(files) as world:
                handed_out += [await world.broker.next_producer_id() for _ in range(3)]
                world.broker.directory.fail(OSError("no clean stop"))
                files.crash()
        assert len(set(handed_out)) == len(handed_out)

    run(test())


def test_a_change_of_metadata_that_cannot_be_synced_takes_the_directory_offline():
    async def test():
        async with opened() as world:
            world.files.fail(1, errno.EIO, only="datasync", sticky=True)
            with pytest.raises(ApiError) as refused:
                await world.broker.set_broker_configs(None, {"num.partitions": "5"})
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert world.broker.settings.num_partitions == 1
            assert len(world.failures) == 1

    run(test())


def test_logs_without_the_list_of_topics_are_refused_and_nothing_is_changed():
    async def test():
        async with opened() as world:
            await world.produce(await new_partition(world), b"1")
        files = world.files
        files.crash()
        files.rename("data/__cluster_metadata-0", "data/elsewhere")
        before = {path: files.peek(path) for path in files.paths("data") if "t-0" in path}
        for _ in range(2):
            with pytest.raises(UserError, match=r"__cluster_metadata-0 .* missing, .* such as t-0"):
                async with opened(files):
                    pass
        after = {path: files.peek(path) for path in files.paths("data") if "t-0" in path}
        assert after == before
        files.rename("data/elsewhere", "data/__cluster_metadata-0")
        async with opened(files) as restored:
            assert values_in(restored.broker.topic("t").partitions[0]) == [b"1"]

    run(test())


def test_a_first_start_that_was_interrupted_is_no_reason_to_refuse():
    async def test():
        files = MemoryFiles()
        async with opened(files):
            pass
        files.remove_tree("data/__cluster_metadata-0")
        async with opened(files) as world:
            await world.produce(await new_partition(world), b"1")

    run(test())


def test_a_consumer_gets_an_error_for_a_damaged_batch_and_the_others():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            for value in (b"0", b"1", b"2"):
                await world.produce(partition, value)
        files = world.files
        files.crash()
        path = "data/t-0/00000000000000000000.log"
        damaged = bytearray(files.peek(path))
        damaged[len(damaged) // 2] ^= 1
        files.poke(path, damaged)
        async with opened(files) as world:
            partition = world.broker.topic("t").partitions[0]

            def fetch(offset):
                wanted = WantedPartition(TopicKey("t", None), 0, offset, 1000)
                limits = FetchLimits(0, 1, 1000)
                return Fetch([wanted], limits, lambda _: partition, Memory(1000)).read()[0]

            assert fetch(1).error is ErrorCode.CORRUPT_MESSAGE
            assert (fetch(0).error, fetch(2).error) == (ErrorCode.NONE, ErrorCode.NONE)
            assert len(fetch(0).records) == len(fetch(2).records) > 0
            await world.produce(partition, b"3")
            assert values_in(partition, 2) == [b"2", b"3"]
            assert partition.log.quarantined is None

    run(test())
