"""The broker's own topics stay short, so that the next start has little to read.

Asserted is how many records and segments there are, never how long a start takes.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable

import pytest

from strom.broker import housekeeping
from strom.broker.groups import Groups
from strom.broker.housekeeping import Housekeeping
from strom.broker.partition import Partition
from strom.broker.replaying import batches_of
from strom.broker.state_compaction import MAX_DIRTY_BYTES, partitions_to_compact
from strom.coordination.groups.commands import CommitOffsets
from strom.coordination.groups.records import CommittedOffset
from strom.model.errors import ApiError, CorruptData, DirectoryOffline, ErrorCode
from strom.model.topics import (
    CONSUMER_OFFSETS_TOPIC,
    METADATA_TOPIC,
    QUEUE_TOPOLOGY_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from strom.storage.log_compaction import Compaction
from strom.testing import MemoryFiles
from strom.wire.kafka.records import ControlType, Marker, Record, build_batch, build_marker
from tests.broker.opened import Opened, new_partition, opened
from tests.broker.test_housekeeping import settle

KIB = 1024
LARGE = "." * 4000
"""Metadata that makes a commit large, so that few of them are many bytes."""
COMMIT_BYTES = 4000
SMALL_LIMIT = 16 * KIB


class EveryWork(Housekeeping):
    """All background work that a node does, done by hand."""

    def __init__(self, world: Opened) -> None:
        super().__init__(world.broker)
        self._world = world
        self._works: list[Callable[[], Awaitable[None]]] = []
        self.start()

    def every(self, interval_ms: Callable[[], int], work: Callable[[], Awaitable[None]]) -> None:
        self._works.append(work)

    async def visit(self, times: int = 1) -> None:
        for _ in range(times):
            for work in self._works:
                await work()
            await settle(self._world)


def run(test):
    asyncio.run(asyncio.wait_for(test, 60))


async def coordinate(world: Opened) -> Groups:
    groups = Groups(world.broker)
    groups.load()
    await groups.topic.ensure()
    if world.broker.find_topic("t") is None:
        await world.broker.create_topic("t", 10, {})
    return groups


def broker_with_groups(files: MemoryFiles | None = None, partitions: int = 4):
    return opened(files, offsets_topic_num_partitions=str(partitions))


async def commit(groups: Groups, numbers: Iterable[int], *, groups_count: int = 5) -> None:
    """The commits of these numbers: each of some group for one of ten partitions."""
    answers = []
    for number in numbers:
        group, index = f"g{number % groups_count}", number // groups_count % 10
        offset = CommittedOffset(offset=number, metadata=LARGE, committed_ms=0)
        offsets = ((TopicPartition("t", index), offset),)
        command = CommitOffsets(group=group, generation=-1, member="", offsets=offsets)
        answers.append(groups.submit(command))
    assert {answer.code for answer in await asyncio.gather(*answers)} == {ErrorCode.NONE}


def state_of(groups: Groups) -> dict[tuple[str, TopicPartition], int]:
    return {
        (group.id, partition): committed.offset
        for group in groups.look().all_groups()
        for partition, committed in groups.look().committed(group.id).items()
    }


def offsets_partitions(world: Opened) -> list[Partition]:
    return world.broker.topic(CONSUMER_OFFSETS_TOPIC).partitions


def records_in(partitions: list[Partition]) -> int:
    return sum(len(batch.records) for one in partitions for batch in batches_of(one.log))


def segments_in(world: Opened) -> int:
    paths = world.files.paths("data")
    return sum(f"/{CONSUMER_OFFSETS_TOPIC}-" in path and path.endswith(".log") for path in paths)


def test_what_a_start_reads_is_bounded_by_keys_and_a_tail_however_many_commits_there_were():
    commits, keys = 3 * MAX_DIRTY_BYTES // COMMIT_BYTES, 50

    async def test():
        files = MemoryFiles()
        async with broker_with_groups(files) as world:
            groups = await coordinate(world)
            background = EveryWork(world)
            for start in range(0, commits, 200):
                await commit(groups, range(start, start + 200))
                await background.visit()
            expected = state_of(groups)
            assert len(expected) == keys
            tail = MAX_DIRTY_BYTES // COMMIT_BYTES + 3 * 200  # what comes between visits is on top
            assert records_in(offsets_partitions(world)) <= keys + tail < commits / 2
            assert segments_in(world) <= 3 * len(offsets_partitions(world))
            world.broker.directory.fail(OSError("no clean stop"))
            files.crash()
        async with broker_with_groups(files) as world:
            assert state_of(await coordinate(world)) == expected

    run(test())


@pytest.fixture
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "MAX_DIRTY_BYTES", SMALL_LIMIT)


@pytest.mark.usefixtures("_small_limit")
def test_a_large_segment_of_an_earlier_version_is_closed_and_compacted():
    """Whatever `segment.bytes` was when the topic was created, and is still."""

    async def test():
        files = MemoryFiles()
        async with broker_with_groups(files, partitions=1) as world:
            groups = await coordinate(world)
            await commit(groups, range(100))
            expected = state_of(groups)
        async with broker_with_groups(files, partitions=1) as world:
            await coordinate(world)
            (partition,) = offsets_partitions(world)
            assert partition.log.settings.segment_bytes == 100 * KIB * KIB
            assert partition.log.size_bytes > 10 * SMALL_LIMIT
            assert segments_in(world) == 1
            await EveryWork(world).visit(3)
            assert records_in([partition]) == len(expected)
        async with broker_with_groups(files, partitions=1) as world:
            assert state_of(await coordinate(world)) == expected

    run(test())


@pytest.mark.usefixtures("_small_limit")
def test_no_commit_is_lost_if_the_power_goes_at_any_step_of_the_background_work():
    async def trial(step: int) -> bool:
        """Whether the step was reached."""
        files = MemoryFiles(seed=step)
        async with broker_with_groups(files, partitions=1) as world:
            groups = await coordinate(world)
            background = EveryWork(world)
            await commit(groups, range(8), groups_count=1)
            await background.visit(2)
            await commit(groups, range(8, 32), groups_count=1)
            expected = state_of(groups)
            files.fail(step, sticky=True)
            try:
                await background.visit(3)
            except (ApiError, DirectoryOffline):
                pass
            reached = files.has_failed
            world.broker.directory.fail(OSError("no clean stop"))
            files.crash()
        async with broker_with_groups(files, partitions=1) as world:
            assert state_of(await coordinate(world)) == expected
        return reached

    async def test():
        for step in itertools.count(1, 3):
            if not await trial(step):
                break
        assert step > 30

    run(test())


@pytest.mark.usefixtures("_small_limit")
def test_an_open_transaction_that_holds_compaction_up_does_not_make_a_segment_per_visit():
    async def test():
        async with broker_with_groups(partitions=1) as world:
            groups = await coordinate(world)
            background = EveryWork(world)
            (partition,) = offsets_partitions(world)
            opens = build_batch(
                [Record(0, world.clock.now_ms(), b"k", b"v")],
                producer_id=1,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            partition.append(opens, world.clock.now_ms())
            for number in range(64):
                await commit(groups, [number])
                await background.visit()
            assert records_in([partition]) == 65
            assert segments_in(world) < 10

    run(test())


@pytest.mark.usefixtures("_small_limit")
def test_a_log_is_compacted_by_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test():
        async with broker_with_groups(partitions=1) as world:
            groups = await coordinate(world)
            background = EveryWork(world)
            await commit(groups, range(16))
            await background.compact_state_topics()  # closes the segment
            await settle(world)
            planned = []
            (partition,) = offsets_partitions(world)
            plan = partition.log.plan_compaction

            def note_plan(now_ms: int) -> Compaction | None:
                planned.append(plan(now_ms))
                return planned[-1]

            monkeypatch.setattr(partition.log, "plan_compaction", note_plan)
            await asyncio.gather(background.compact(), background.compact_state_topics())
            assert len(planned) == 1
            assert not planned[0].failed
            assert records_in([partition]) == 16
            await background.visit(2)
            assert records_in([partition]) <= 16

    run(test())


@pytest.mark.usefixtures("_small_limit")
def test_a_partition_that_cannot_be_compacted_is_retried_in_the_rhythm_of_the_cleaner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test():
        async with broker_with_groups(partitions=1) as world:
            groups = await coordinate(world)
            background = Housekeeping(world.broker)
            await commit(groups, range(16))
            tried = []

            def fail(now_ms: int) -> None:
                tried.append(now_ms)
                raise CorruptData("a batch fails its checksum")

            (partition,) = offsets_partitions(world)
            monkeypatch.setattr(partition.log, "plan_compaction", fail)
            for _ in range(5):
                await background.compact_state_topics()
            assert len(tried) == 1
            await background.compact()
            await background.compact_state_topics()
            assert len(tried) == 3

    run(test())


def filled(world: Opened, partition: Partition, count: int, keys: int) -> None:
    for number in range(count):
        world.append(partition, b"." * KIB, key=b"%d" % (number % keys))


@pytest.mark.parametrize(
    "name", [CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, QUEUE_TOPOLOGY_TOPIC]
)
def test_every_compacted_topic_of_the_broker_is_looked_after(name):
    async def test():
        async with opened() as world:
            partition = await new_partition(world, name, cleanup_policy="compact")
            filled(world, partition, 20, keys=1)
            everything = world.broker.all_partitions()
            assert METADATA_TOPIC in {one.log.partition.topic for one in everything}
            assert partitions_to_compact(everything, 10 * KIB) == [partition]
            assert partitions_to_compact(everything, 30 * KIB) == []

    run(test())


def test_topics_of_users_are_left_to_their_own_settings():
    async def test():
        async with opened() as world:
            partition = await new_partition(world, "changelog", cleanup_policy="compact")
            filled(world, partition, 20, keys=1)
            assert partitions_to_compact(world.broker.all_partitions(), KIB) == []

    run(test())


def test_only_partitions_that_make_up_the_excess_are_compacted_and_the_dirtiest_first():
    async def test():
        async with opened() as world:
            configs = {"cleanup.policy": "compact"}
            topic = await world.broker.create_topic(CONSUMER_OFFSETS_TOPIC, 4, configs)
            for partition, count in zip(topic.partitions, (1, 12, 0, 20), strict=True):
                filled(world, partition, count, keys=1)
            due = partitions_to_compact(topic.partitions, 30 * KIB)
            assert due == [topic.partitions[3], topic.partitions[1]]

    run(test())


@pytest.mark.usefixtures("_small_limit")
def test_a_log_of_many_keys_is_rewritten_only_when_half_of_it_is_dirty():
    async def test():
        async with opened() as world:
            partition = await new_partition(world, CONSUMER_OFFSETS_TOPIC, cleanup_policy="compact")
            background = EveryWork(world)
            filled(world, partition, 100, keys=100)
            await settle(world)
            await background.visit(3)
            assert partition.log.dirty_bytes == 0
            everything = world.broker.all_partitions()
            filled(world, partition, 90, keys=100)
            assert partitions_to_compact(everything, SMALL_LIMIT) == []
            filled(world, partition, 20, keys=100)
            assert partitions_to_compact(everything, SMALL_LIMIT) == [partition]
            await settle(world)
            await background.visit(3)
            assert records_in([partition]) == 100

    run(test())


async def commit_in_transaction(world: Opened, partition: Partition, sequence: int) -> None:
    """A group's offset, committed in a transaction of one producer."""
    now_ms = world.clock.now_ms()
    records = [Record(0, now_ms, b"key", b"%d" % sequence)]
    data = build_batch(records, producer_id=1, producer_epoch=0, transactional=True)
    partition.append(data, now_ms, from_client=False)
    committed = Marker(ControlType.COMMIT, 0)
    marker = build_marker(committed, producer_id=1, producer_epoch=0, timestamp=now_ms)
    partition.append(marker, now_ms, from_client=False)


def configs_of(world: Opened) -> dict[str, str]:
    return dict(world.broker.topic(CONSUMER_OFFSETS_TOPIC).topic.configs)


def test_a_topic_of_an_earlier_version_gets_the_retention_of_markers_and_keeps_what_a_user_set():
    async def test():
        files = MemoryFiles()
        async with broker_with_groups(files) as world:
            groups = await coordinate(world)
            today = configs_of(world)
            assert today["delete.retention.ms"] == "60000"
            earlier = {**today, "segment.bytes": "52428800"}
            del earlier["delete.retention.ms"]
            await world.broker.set_topic_configs(CONSUMER_OFFSETS_TOPIC, earlier)
        async with broker_with_groups(files) as world:
            groups = await coordinate(world)
            await groups.complete_topic()
            assert configs_of(world) == {**earlier, "delete.retention.ms": "60000"}
            changed = {**earlier, "delete.retention.ms": "1"}
            await world.broker.set_topic_configs(CONSUMER_OFFSETS_TOPIC, changed)
        async with broker_with_groups(files) as world:
            groups = await coordinate(world)
            await groups.complete_topic()
            assert configs_of(world) == changed

    run(test())


@pytest.mark.usefixtures("_small_limit")
def test_markers_of_transactions_go_soon_after_their_offsets():
    """They are kept for `delete.retention.ms`; a day of them would be millions."""

    async def test():
        async with broker_with_groups(partitions=1) as world:
            await coordinate(world)
            background = EveryWork(world)
            (partition,) = offsets_partitions(world)
            for _ in range(20):
                for sequence in range(200):
                    await commit_in_transaction(world, partition, sequence)
                await settle(world)
                world.clock.advance(61_000)
                await background.visit(2)
            assert partition.log.size_bytes < 3 * SMALL_LIMIT

    run(test())
