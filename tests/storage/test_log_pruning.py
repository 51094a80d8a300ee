"""Pruning a real log: what is needed stays at its offset, and a crash at every step loses none of it."""

import errno
import itertools
from contextlib import suppress

import pytest

from strom.model.errors import ApiError, DirectoryOffline
from tests.storage.world import FOLDER, SMALL_SEGMENTS, START_MS, World, batch, read_all


class Gone:
    """All offsets but some."""

    def __init__(self, *live):
        self.live = set(live)

    def __contains__(self, offset):
        return offset not in self.live

    def count_live(self, start, end):
        return sum(1 for offset in self.live if start <= offset < end)


def prune(world, gone):
    pruning = world.log.plan_pruning(gone, world.now_ms)
    if pruning is not None:
        pruning.run()
        world.log.apply_compaction(pruning)
    return pruning is not None


def filled_world(batches=30, **more):
    """Batches of two records, so that offset 2n is in the n-th."""
    world = World(**more)
    for at in range(batches):
        world.append(batch(b"%d" % (2 * at), b"%d" % (2 * at + 1)))
    world.flush()
    return world


def log_files(world):
    paths = world.files.paths(FOLDER)
    return [path.rpartition("/")[2] for path in paths if path.endswith(".log")]


@pytest.mark.parametrize("reopen", [None, "restart", "crash", "kill"])
def test_what_is_needed_stays_at_its_offset(reopen):
    world = filled_world()
    before = {record.offset: record for record in read_all(world.log)}
    active = int(max(log_files(world))[:20])
    live = {0, 7, 20, 21, *range(active, 60)}
    world.checkpoint()
    assert prune(world, Gone(*live))
    if reopen:
        getattr(world, reopen)()
    assert world.log.quarantined is None
    assert world.log.end_offset == 60
    assert [record.offset for record in read_all(world.log)] == sorted(live)
    assert all(before[record.offset] == record for record in read_all(world.log))


def test_every_offset_can_be_read_from_and_leads_to_the_end():
    world = filled_world()
    active = int(max(log_files(world))[:20])
    prune(world, Gone(3))
    for reopen in (None, world.restart, world.kill):
        if reopen:
            reopen()
        for offset in range(active):
            assert world.log.reader.read(offset, 1000).data
        assert [record.offset for record in read_all(world.log)] == [3, *range(active, 60)]


def test_the_size_is_bounded_behind_one_record_that_stays():
    world = World()
    sizes, files = [], []
    for _ in range(40):
        world.fill(10)
        prune(world, Gone(0))
        world.log.delete_old_segments(world.now_ms)
        world.directory.remove_deleted_files(world.now_ms)
        sizes.append(world.log.size_bytes)
        files.append(len(log_files(world)))
    assert max(sizes) < 5 * SMALL_SEGMENTS.segment_bytes
    assert max(files) < 10
    assert read_all(world.log)[0].offset == 0


def test_a_log_of_which_most_is_needed_is_left_alone():
    world = filled_world()
    end = world.log.end_offset
    assert not prune(world, Gone(*range(10, end)))
    assert not prune(world, Gone(*range(0, end, 2), *range(1, end // 2, 2)))


def test_what_was_pruned_is_not_pruned_again_for_nothing():
    world = filled_world()
    active = int(max(log_files(world))[:20])
    gone = Gone(0, 7, 8, *range(active, 60))
    assert prune(world, gone)
    assert not prune(world, gone)


def test_the_log_goes_on_while_it_is_pruned():
    world = filled_world()
    active = int(max(log_files(world))[:20])
    pruning = world.log.plan_pruning(Gone(5), world.now_ms)
    world.fill(10)
    pruning.run()
    world.fill(10)
    world.log.apply_compaction(pruning)
    assert [each.offset for each in read_all(world.log)] == [5, *range(active, 80)]


def test_nothing_else_rewrites_the_log_before_a_pruning_has_ended():
    world = filled_world(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    active = int(max(log_files(world))[:20])
    pruning = world.log.plan_pruning(Gone(5), world.now_ms)
    assert world.log.plan_compaction(world.now_ms) is None
    assert world.log.plan_pruning(Gone(5), world.now_ms) is None
    pruning.run()
    world.log.apply_compaction(pruning)
    assert [each.offset for each in read_all(world.log)] == [5, *range(active, 60)]
    assert world.log.plan_compaction(world.now_ms) is not None


@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_any_step_keeps_what_is_needed(seed):
    live = {0, 7, 20, 21, 33}
    for step in itertools.count(1):
        world = filled_world(seed=1000 * seed + step)
        world.checkpoint()
        active = int(max(log_files(world))[:20])
        needed = live | set(range(active, 60))
        expected = {record.offset: record for record in read_all(world.log)}
        world.files.fail(step, sticky=True)
        try:
            prune(world, Gone(*needed))
        except (ApiError, DirectoryOffline):
            pass
        met = world.files.has_failed
        world.crash()
        assert world.log.quarantined is None
        found = {record.offset: record for record in read_all(world.log)}
        assert needed <= set(found)
        assert all(expected[offset] == record for offset, record in found.items())
        assert world.now_ms == START_MS
        if not met:
            break
    assert step > 20


@pytest.mark.parametrize("shortage", [errno.ENOSPC, errno.EMFILE])
def test_a_shortage_at_any_step_is_no_damage(shortage):
    for step in itertools.count(1):
        world = filled_world()
        active = int(max(log_files(world))[:20])
        live = {0, 7, 20, 21, *range(active, 60)}
        world.files.fail(step, shortage)
        with suppress(ApiError):
            prune(world, Gone(*live))
        if not world.files.has_failed:
            break
        world.files.heal()
        assert live <= {record.offset for record in read_all(world.log)}
        prune(world, Gone(*live))
        assert {record.offset for record in read_all(world.log)} == live
        world.kill()
        assert {record.offset for record in read_all(world.log)} == live
    assert step > 30
