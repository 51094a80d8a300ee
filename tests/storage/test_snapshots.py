"""Snapshots: the newest good one is found, and the ones that recovery may need stay."""

import pytest

from strom.storage.producer_state import ProducerStates
from strom.storage.snapshots import ProducerSnapshot, SnapshotFiles
from strom.testing.memory_files import MemoryFiles


@pytest.fixture
def files():
    files = MemoryFiles()
    files.make_directory("d")
    return files


def written(files, *offsets) -> SnapshotFiles:
    snapshots = SnapshotFiles(files, "d", [])
    for offset in offsets:
        snapshots.write(ProducerSnapshot(offset, ProducerStates().snapshot(offset)))
    return snapshots


def newest_offset(snapshots, at_most):
    found = snapshots.newest(at_most)
    return found[1] if found else None


def test_the_newest_up_to_an_offset_is_taken(files):
    snapshots = written(files, 10, 20, 30)
    assert newest_offset(snapshots, 100) == 30
    assert newest_offset(snapshots, 29) == 20
    assert newest_offset(snapshots, 9) is None


def test_a_damaged_or_misnamed_one_is_passed_over(files):
    snapshots = written(files, 10, 20, 30)
    files.poke(snapshots.path(30), files.peek(snapshots.path(30))[:-1])
    files.poke(snapshots.path(20), files.peek(snapshots.path(10)))
    assert newest_offset(snapshots, 100) == 10


def test_pruning_keeps_two_up_to_the_recovery_point_and_two_behind(files):
    snapshots = written(files, 10, 20, 30, 40, 50, 60)
    snapshots.prune(30)
    assert [int(name[:20]) for name in files.list("d")] == [20, 30, 50, 60]
    assert newest_offset(snapshots, 30) == 30


def test_those_of_a_part_that_was_cut_off_go(files):
    snapshots = written(files, 10, 20, 30)
    snapshots.remove_beyond(20)
    assert [int(name[:20]) for name in files.list("d")] == [10, 20]
