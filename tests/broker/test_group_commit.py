import asyncio
import threading

import pytest

from strom.broker.group_commit import GroupCommit
from strom.model.errors import ApiError, ErrorCode


class Disk:
    """Syncs only when it is let, and counts how often."""

    def __init__(self) -> None:
        self.syncs = 0
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.error: Exception | None = None

    def sync(self) -> None:
        assert self.may_sync.wait(10)
        self.syncs += 1
        if self.error is not None:
            raise self.error


class Flushed:
    """Something dirty that notes what it is told."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.done = 0
        self.refusals: list[ApiError] = []
        self.problem: Exception | None = None

    def begin_flush(self) -> Disk | None:
        if self.problem is not None:
            raise self.problem
        return self.disk

    def finish_flush(self, done: object) -> None:
        self.done += 1

    def abandon_flush(self, refused: object, error: ApiError) -> None:
        self.refusals.append(error)


async def until(condition) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
def failures():
    return []


def in_a_loop(test, failures, **more):
    async def run():
        commit = GroupCommit(asyncio.get_running_loop(), failures.append, **more)
        await test(commit)
        await asyncio.wait_for(commit.stop(), 10)

    asyncio.run(run())


def test_a_round_has_no_more_partitions_than_files_may_be_kept_open(disk, failures):
    class Counted(Flushed):
        begun = most_begun = 0

        def begin_flush(self) -> Disk | None:
            Counted.begun += 1
            Counted.most_begun = max(Counted.begun, Counted.most_begun)
            return super().begin_flush()

        def finish_flush(self, done: object) -> None:
            Counted.begun -= 1
            super().finish_flush(done)

    async def test(commit):
        items = [Counted(disk) for _ in range(10)]
        for item in items:
            commit.mark_dirty(item)
        await commit.finish_all()
        assert [item.done for item in items] == [1] * 10
        assert Counted.most_begun == 3

    in_a_loop(test, failures, most_at_once=3)


def test_partitions_with_nothing_to_sync_do_not_hold_up_the_rest(disk, failures):
    class Clean(Flushed):
        def begin_flush(self) -> Disk | None:
            return None

    async def test(commit):
        items = [*[Clean(disk) for _ in range(7)], Flushed(disk)]
        for item in items:
            commit.mark_dirty(item)
        await commit.finish_all()
        assert items[-1].done == 1

    in_a_loop(test, failures, most_at_once=3)


def test_one_sync_serves_everything_that_was_marked_in_one_turn(disk, failures):
    async def test(commit):
        item = Flushed(disk)
        for _ in range(100):
            commit.mark_dirty(item)
        await until(lambda: item.done)
        assert (disk.syncs, item.done) == (1, 1)

    in_a_loop(test, failures)


def test_what_comes_while_a_sync_runs_shares_the_next_one(disk, failures):
    async def test(commit):
        item = Flushed(disk)
        disk.may_sync.clear()
        commit.mark_dirty(item)
        await asyncio.sleep(0.01)
        for _ in range(100):
            commit.mark_dirty(item)
            await asyncio.sleep(0)
        disk.may_sync.set()
        await until(lambda: item.done == 2)
        assert disk.syncs == 2

    in_a_loop(test, failures)


def test_nothing_is_finished_before_the_sync_has_returned(disk, failures):
    async def test(commit):
        item = Flushed(disk)
        disk.may_sync.clear()
        commit.mark_dirty(item)
        await asyncio.sleep(0.05)
        assert item.done == 0
        disk.may_sync.set()
        await until(lambda: item.done)

    in_a_loop(test, failures)


def test_after_a_failed_sync_there_is_no_second_one(disk, failures):
    async def test(commit):
        item = Flushed(disk)
        disk.error = OSError("broken")
        commit.mark_dirty(item)
        await until(lambda: failures)
        commit.mark_dirty(item)
        await asyncio.sleep(0.05)
        assert (disk.syncs, item.done) == (1, 0)

    in_a_loop(test, failures)
    assert failures == [disk.error]


def test_a_refusal_concerns_only_its_own_partition(disk, failures):
    async def test(commit):
        full = Disk()
        full.error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        refused, healthy = Flushed(full), Flushed(disk)
        commit.mark_dirty(refused)
        commit.mark_dirty(healthy)
        await until(lambda: healthy.done)
        assert refused.refusals == [full.error]
        assert refused.done == 0
        full.error = None
        commit.mark_dirty(refused)
        await until(lambda: refused.done)

    in_a_loop(test, failures)
    assert failures == []


def test_a_flush_that_cannot_begin_is_reported_and_does_not_hang_the_stop(disk, failures):
    async def test(commit):
        item = Flushed(disk)
        item.problem = OSError("broken")
        commit.mark_dirty(item)
        await until(lambda: failures)

    in_a_loop(test, failures)
    assert disk.syncs == 0


def test_finishing_a_round_does_not_wait_for_a_moment_without_load(disk, failures):
    async def test(commit):
        item = Flushed(disk)
        stop = asyncio.Event()

        async def load():
            while not stop.is_set():
                commit.mark_dirty(item)
                await asyncio.sleep(0)

        task = asyncio.create_task(load())
        await asyncio.sleep(0.01)
        await asyncio.wait_for(commit.finish_round(), 5)
        stop.set()
        await task

    in_a_loop(test, failures)


def test_flushes_are_counted_with_how_many_partitions_and_appends_share_one(disk, failures):
    async def test(commit):
        partitions = [Flushed(disk) for _ in range(3)]
        for partition in (*partitions, *partitions):
            commit.mark_dirty(partition)
        await commit.finish_all()
        seconds, sizes, appends = commit.flushes()
        assert appends == 6
        assert sizes.sum == 3
        assert sizes.buckets[-1][1] == 1
        assert seconds.buckets[-1][1] == 3

    in_a_loop(test, failures)


def test_a_flush_that_cannot_be_finished_is_reported_and_does_not_hang_the_stop(disk, failures):
    class Unfinished(Flushed):
        def finish_flush(self, done: object) -> None:
            raise ValueError("unexpected")

    async def test(commit):
        commit.mark_dirty(Unfinished(disk))
        await asyncio.sleep(0)
        await asyncio.wait_for(commit.finish_round(), 10)
        assert [str(error) for error in failures] == ["unexpected"]

    in_a_loop(test, failures)
