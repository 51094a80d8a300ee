import asyncio

from strom.broker.fetching import (
    ChangesOfMany,
    Fetch,
    FetchLimits,
    TopicKey,
    WaitingFetch,
    WantedPartition,
)
from strom.broker.partition import Partition
from strom.model.errors import ApiError, ErrorCode
from tests.broker.opened import Memory, Opened, new_partition, opened

PLENTY = 1 << 20


def run(test):
    asyncio.run(asyncio.wait_for(test, 30))


def fetch_of(
    *partitions: Partition,
    offset: int = 0,
    max_wait_ms: int = 60_000,
    min_bytes: int = 1,
    max_bytes: int = PLENTY,
    memory: int = PLENTY,
) -> Fetch:
    wanted = [
        WantedPartition(TopicKey("t", None), index, offset, PLENTY)
        for index in range(len(partitions))
    ]
    limits = FetchLimits(max_wait_ms, min_bytes, max_bytes)
    return Fetch(wanted, limits, lambda item: partitions[item.partition], Memory(memory))


async def filled(world: Opened, name: str, count: int = 3, size: int = 100) -> Partition:
    partition = await new_partition(world, name)
    for _ in range(count):
        await world.produce(partition, b"v" * size)
    return partition


def test_a_fetch_is_ready_when_there_is_as_much_as_was_asked_for():
    async def test():
        async with opened() as world:
            partition = await filled(world, "t")
            assert fetch_of(partition, min_bytes=0).is_ready()
            assert fetch_of(partition, min_bytes=300).is_ready()
            assert not fetch_of(partition, min_bytes=10_000).is_ready()
            assert not fetch_of(partition, offset=3).is_ready()

    run(test())


def test_an_error_makes_a_fetch_ready():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            partition.deleted = True
            (fetched,) = fetch_of(partition).read()
            assert fetch_of(partition).is_ready()
            assert fetched.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            partition.deleted = False

    run(test())


def test_the_limit_holds_over_all_partitions_but_the_first_batch_is_always_sent():
    async def test():
        async with opened() as world:
            first, second = await filled(world, "a"), await filled(world, "b")
            sizes = [len(each.records) for each in fetch_of(first, second, max_bytes=1).read()]
            assert sizes[0] > 100
            assert sizes[1] == 0
            sizes = [len(each.records) for each in fetch_of(first, second).read()]
            assert all(size > 300 for size in sizes)

    run(test())


def test_without_memory_for_answers_nothing_is_read():
    async def test():
        async with opened() as world:
            partition = await filled(world, "t")
            (fetched,) = fetch_of(partition, memory=0).read()
            assert fetched.error is ErrorCode.NONE
            assert not fetched.records

    run(test())


def test_a_waiting_fetch_is_answered_by_the_record_that_comes():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            waiting = WaitingFetch(fetch_of(partition), asyncio.get_running_loop())
            await world.produce(partition, b"1")
            (fetched,) = await asyncio.wait_for(waiting.answer, 5)
            assert fetched.records
            await asyncio.sleep(0)
            assert not partition._waiting_for_records

    run(test())


def test_a_waiting_fetch_is_answered_empty_when_its_time_is_up():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            fetch = fetch_of(partition, max_wait_ms=10)
            waiting = WaitingFetch(fetch, asyncio.get_running_loop())
            (fetched,) = await asyncio.wait_for(waiting.answer, 5)
            assert not fetched.records
            assert fetched.high_watermark == 0

    run(test())


def test_a_waiting_fetch_is_answered_when_its_topic_is_deleted():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            waiting = WaitingFetch(fetch_of(partition), asyncio.get_running_loop())
            await world.broker.delete_topic("t")
            (fetched,) = await asyncio.wait_for(waiting.answer, 5)
            assert fetched.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test())


def test_an_abandoned_fetch_leaves_nothing_behind():
    async def test():
        async with opened() as world:
            partitions = [await new_partition(world, name) for name in ("a", "b")]
            waiting = WaitingFetch(fetch_of(*partitions), asyncio.get_running_loop())
            assert all(each._waiting_for_records for each in partitions)
            waiting.answer.cancel()
            await asyncio.sleep(0)
            assert not any(each._waiting_for_records for each in partitions)

    run(test())


def test_a_partition_that_is_not_there_is_an_error_of_its_own():
    async def test():
        async with opened() as world:
            partition = await filled(world, "t")

            def find(item: WantedPartition) -> Partition:
                if item.partition:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                return partition

            wanted = [WantedPartition(TopicKey("t", None), index, 0, PLENTY) for index in (0, 1)]
            fetch = Fetch(wanted, FetchLimits(0, 1, PLENTY), find, Memory(PLENTY))
            errors = [each.error for each in fetch.read()]
            assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    run(test())


def test_a_change_after_the_timeout_does_not_prolong_the_wait_for_many_partitions():
    async def test():
        changes = ChangesOfMany(asyncio.get_running_loop(), 0, set())
        changes.partition_changed()
        assert not await changes.wait()

    run(test())
