import asyncio
import errno

import pytest

from strom.model.errors import ApiError, ErrorCode
from strom.testing import MemoryFiles
from tests.broker.opened import new_partition, opened, safe


def run(test):
    asyncio.run(asyncio.wait_for(test, 30))


class Reader:
    """Counts how often it was told to look."""

    def __init__(self) -> None:
        self.looks = 0

    def partition_changed(self) -> None:
        self.looks += 1


def test_readers_of_a_durable_topic_are_woken_only_when_records_are_on_disk():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            reader = Reader()
            partition.wait_for_records(reader)
            world.append(partition, b"1")
            assert (reader.looks, partition.log.high_watermark) == (0, 0)
            await asyncio.sleep(0)
            await world.broker.commit.finish_round()
            assert (reader.looks, partition.log.high_watermark) == (1, 1)
            partition.stop_waiting(reader)
            await world.produce(partition, b"2")
            assert reader.looks == 1

    run(test())


def test_a_request_that_fails_does_not_keep_others_from_their_responses(caplog):
    class Failing(Reader):
        def partition_changed(self) -> None:
            raise ValueError("unexpected")

    def fail(_: ErrorCode) -> None:
        raise ValueError("unexpected")

    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            reader = Reader()
            partition.wait_for_records(Failing())
            partition.wait_for_records(reader)
            partition.on_durable(world.append(partition, b"1"), fail)
            await world.produce(partition, b"2")
            assert reader.looks > 0
            assert caplog.text.count("ValueError: unexpected") > 1

    run(test())


def test_a_write_to_a_deleted_partition_is_refused():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            await world.broker.delete_topic("t")
            with pytest.raises(ApiError) as refused:
                world.append(partition, b"late")
            assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert world.broker.directory.offline is None

    run(test())


def test_a_wait_for_the_disk_can_be_cancelled(caplog):
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            appended = world.append(partition, b"1")
            waiting = asyncio.create_task(partition.wait_until_durable(appended))
            await asyncio.sleep(0)
            waiting.cancel()
            await world.produce(partition, b"2")
            assert caplog.text == ""

    run(test())


def test_with_flush_os_readers_see_records_at_once():
    async def test():
        async with opened() as world:
            partition = await new_partition(world, flush="os")
            reader = Reader()
            partition.wait_for_records(reader)
            appended = world.append(partition, b"1")
            assert (reader.looks, partition.log.high_watermark) == (1, 1)
            assert partition.is_durable(appended)

    run(test())


def test_a_flush_that_a_shortage_kept_from_the_disk_is_retried():
    async def test():
        files = MemoryFiles()
        async with opened(files) as world:
            partition = await new_partition(world)
            files.fail(1, errno.EMFILE, only="open_directory")
            appended = world.append(partition, b"1")
            assert await safe(partition, appended) is ErrorCode.KAFKA_STORAGE_ERROR
            assert partition.log.high_watermark == 0
            files.heal()
            partition.flush_if_overdue(world.clock.now_ms())
            await world.broker.commit.finish_all()
            assert partition.log.high_watermark == 1
            assert world.broker.directory.offline is None

    run(test())


def test_a_closed_segment_is_synced_even_with_flush_os():
    async def test():
        async with opened() as world:
            partition = await new_partition(world, flush="os", segment_ms="1")
            world.append(partition, b"1")
            now_ms = world.broker.clock.now_ms() + 1_000_000
            assert partition.log.roll_if_due(now_ms)
            assert partition.log.flushed_offset == 0
            partition.flush_if_overdue(now_ms)
            await asyncio.sleep(0)
            await world.broker.commit.finish_round()
            assert partition.log.flushed_offset == 1
            assert not partition.log.wants_flush

    run(test())


def test_with_flush_messages_every_so_many_records_are_synced_before_the_answer():
    async def test():
        async with opened() as world:
            partition = await new_partition(world, flush="os", flush_messages="3")
            assert partition.is_durable(world.append(partition, b"1", b"2"))
            third = world.append(partition, b"3")
            assert not partition.is_durable(third)
            await asyncio.sleep(0)
            await world.broker.commit.finish_round()
            assert partition.is_durable(third)
            assert partition.log.flushed_offset == 3

    run(test())


def test_a_fetch_that_waits_for_a_deleted_topic_gets_an_error():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            told: list[ErrorCode] = []
            partition.on_durable(world.append(partition, b"1"), told.append)
            reader = Reader()
            partition.wait_for_records(reader)
            partition.mark_deleted()
            assert told == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            assert reader.looks == 1
            await asyncio.sleep(0.05)
            assert len(told) == 1

    run(test())


@pytest.mark.parametrize(
    ("known", "code"),
    [
        (-1, None),
        (0, None),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_epoch_that_a_client_knows_is_checked(known, code):
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            partition.leader_epoch = 0
            if code is None:
                partition.check_leader_epoch(known)
                return
            with pytest.raises(ApiError) as refused:
                partition.check_leader_epoch(known)
            assert refused.value.code is code

    run(test())


def test_a_client_of_an_older_epoch_is_fenced():
    async def test():
        async with opened() as world:
            partition = await new_partition(world)
            partition.leader_epoch = 5
            with pytest.raises(ApiError) as refused:
                partition.check_leader_epoch(4)
            assert refused.value.code is ErrorCode.FENCED_LEADER_EPOCH

    run(test())


def test_a_damaged_partition_fails_its_own_producers_and_no_others():
    async def test():
        async with opened() as world:
            damaged, healthy = await new_partition(world, "a"), await new_partition(world, "b")
            told: list[ErrorCode] = []
            damaged.on_durable(world.append(damaged, b"1"), told.append)
            damaged.log._guard.quarantined = "found damaged while it was read"
            await world.produce(healthy, b"2")
            assert told == [ErrorCode.KAFKA_STORAGE_ERROR]
            assert world.failures == []
            damaged.log._guard.quarantined = None

    run(test())
