"""Compaction of a real log: what readers see, and a crash at every one of its steps."""

import errno
import itertools
import uuid
from contextlib import suppress

import pytest

from strom.model.errors import ApiError, DirectoryOffline, StorageError
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import (
    ControlType,
    Marker,
    Record,
    build_batch,
    build_marker,
    read_records,
)
from tests.storage.world import FOLDER, PARTITION, START_MS, World, batch, read_all


def compacted_world(seed=0, **changes) -> World:
    defaults = {"min_cleanable_dirty_ratio": 0.0, "delete_retention_ms": 1000}
    return World(seed=seed, cleanup_policy=("compact",), **(defaults | changes))


def fill(world, rounds=12):
    """Three keys over and over; the third is deleted by each second round."""
    for at in range(rounds):
        world.append(batch(b"a %d" % at, key=b"a"))
        world.append(batch(b"b %d" % at, key=b"b"))
        gone = at % 2
        world.append(batch(b"%d" % at, key=b"c") if not gone else tombstone(b"c"))
    world.flush()


def tombstone(key):
    return build_batch([Record(0, START_MS, key, None)])


def names(world):
    return [path.rpartition("/")[2] for path in world.files.paths(FOLDER)]


def test_readers_see_the_last_value_per_key_at_its_offset():
    world = compacted_world()
    fill(world)
    before = {record.offset: record for record in read_all(world.log)}
    active = max(int(name[:20]) for name in names(world) if name.endswith(".log"))
    assert world.compact()
    after = read_all(world.log)
    assert all(before[record.offset] == record for record in after)
    closed = [record for record in after if record.offset < active]
    expected = {
        max(at for at, record in before.items() if at < active and record.key == key)
        for key in (b"a", b"b", b"c")
    }
    assert {record.offset for record in closed} == expected
    assert [record for record in after if record.offset >= active] == [
        record for at, record in before.items() if at >= active
    ]
    assert not world.compact()


@pytest.mark.parametrize("reopen", ["restart", "crash", "kill"])
def test_a_compacted_log_is_the_same_after_a_start(reopen):
    world = compacted_world()
    fill(world)
    world.checkpoint()
    world.compact()
    before = read_all(world.log)
    getattr(world, reopen)()
    assert world.log.quarantined is None
    assert read_all(world.log) == before
    assert not world.compact()
    fill(world)
    assert world.compact()
    assert {record.key for record in read_all(world.log)} == {b"a", b"b", b"c"}


def test_small_segments_are_joined():
    world = compacted_world()
    fill(world, rounds=30)
    files = sum(name.endswith(".log") for name in names(world))
    world.compact()
    fill(world, rounds=8)
    world.compact()
    world.directory.remove_deleted_files(START_MS)
    assert sum(name.endswith(".log") for name in names(world)) < files / 2
    assert not [name for name in names(world) if name.endswith((".cleaned", ".swap", ".replaced"))]


def test_every_offset_can_be_asked_for_after_compaction():
    world = compacted_world()
    fill(world, rounds=30)
    world.compact()
    offsets = [record.offset for record in read_all(world.log)]
    for reopen in (None, world.restart, world.kill):
        if reopen:
            reopen()
        for offset in range(world.log.end_offset):
            first = next(at for at in offsets if at >= offset)
            found = [record.offset for record in read_all_from(world.log, offset)]
            assert found[0] == first
            assert world.log.reader.bytes_after(offset, limit=1) == 1


def read_all_from(log, offset):
    data = log.reader.read(offset, 10_000).data
    return [
        record
        for at, header in headers(data)
        for record in read_records(data, at, header)
        if record.offset >= offset
    ]


def test_tombstones_go_when_their_time_is_over():
    world = compacted_world()
    world.append(batch(b"value", key=b"gone"))
    world.append(tombstone(b"gone"))
    fill(world, rounds=8)
    world.compact()
    world.now_ms += 1001
    fill(world, rounds=8)
    world.compact()
    world.now_ms += 1001
    fill(world, rounds=8)
    world.compact()
    assert b"gone" not in {record.key for record in read_all(world.log)}


def test_timestamps_of_the_future_delay_neither_compaction_nor_the_end_of_a_tombstone():
    future = START_MS + 3_600_000
    world = compacted_world()

    def write(rounds):
        for at in range(rounds):
            world.append(batch(b"a %d" % at, key=b"a", timestamp=future))
        world.flush()

    world.append(batch(b"value", key=b"gone", timestamp=future))
    world.append(build_batch([Record(0, future, b"gone", None)]))
    write(20)
    assert world.compact()
    assert {record.value for record in read_all(world.log) if record.key == b"gone"} == {None}
    world.now_ms += 999  # a millisecond before `delete.retention.ms` is over
    write(20)
    assert world.compact()
    assert b"gone" in {record.key for record in read_all(world.log)}
    world.now_ms += 2
    write(20)
    assert world.compact()
    assert {record.key for record in read_all(world.log)} == {b"a"}
    assert len(read_all(world.log)) < 20


def test_the_log_goes_on_while_it_is_compacted():
    world = compacted_world()
    fill(world)
    compaction = world.log.plan_compaction(world.now_ms)
    fill(world, rounds=3)
    compaction.run()
    fill(world, rounds=3)
    world.log.delete_before(4)
    assert world.log.delete_old_segments(START_MS) == 0
    world.log.apply_compaction(compaction)
    values = {record.key: record.value for record in read_all(world.log)}
    assert values[b"a"] == b"a 2"
    assert world.log.start_offset == 4
    world.crash()
    assert {record.key: record.value for record in read_all(world.log)} == values


@pytest.mark.parametrize("recreated", [False, True])
def test_a_log_that_is_deleted_while_it_is_compacted_is_no_failure_of_the_disk(recreated):
    world = compacted_world()
    fill(world)
    compaction = world.log.plan_compaction(world.now_ms)
    world.directory.delete_log(world.log)()
    before = []
    if recreated:
        world.directory.create_log(PARTITION, uuid.uuid4(), world.settings, world.epoch)
        before = names(world)
    compaction.run()
    assert compaction.failed
    assert world.directory.offline is None
    if recreated:
        assert [name for name in names(world) if not name.endswith(".cleaned")] == before


def test_a_run_that_was_never_applied_counts_all_the_same():
    world = compacted_world()
    fill(world)
    compaction = world.log.plan_compaction(world.now_ms)
    compaction.run()
    untouched = read_all(world.log)
    world.restart()
    assert len(read_all(world.log)) < len(untouched)
    assert {record.key: record.value for record in read_all(world.log)} == {
        record.key: record.value for record in untouched
    }


def test_a_transaction_whose_end_is_not_on_disk_is_not_compacted():
    world = compacted_world()
    ids = {"producer_id": 1, "producer_epoch": 0}
    world.append(batch(b"old", key=b"k"))
    world.append(batch(b"new", key=b"k", base_sequence=0, transactional=True, **ids))
    fill(world)
    world.append(build_marker(Marker(ControlType.COMMIT, 0), **ids), from_client=False)
    assert world.log.plan_compaction(world.now_ms) is None
    world.flush()
    assert world.compact()
    values = [record.value for record in read_all(world.log) if record.key == b"k"]
    assert values == [b"new"]


def test_damage_stops_a_run_and_leaves_everything_as_it_was():
    world = compacted_world()
    fill(world)
    world.restart()
    path = f"{FOLDER}/{0:020d}.log"
    damaged = bytearray(world.files.peek(path))
    damaged[-3] ^= 1
    world.files.poke(path, damaged)
    compaction = world.log.plan_compaction(world.now_ms)
    with pytest.raises(StorageError):
        compaction.run()
    world.log.apply_compaction(compaction)
    assert world.files.peek(path) == bytes(damaged)
    assert world.directory.offline is None


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_step_leaves_every_last_value(seed):
    for step in itertools.count(1):
        world = compacted_world(seed=1000 * seed + step, delete_retention_ms=0)
        fill(world)
        world.checkpoint()
        world.compact()
        fill(world)
        world.checkpoint()
        expected = read_all(world.log)
        last = {record.key: record for record in expected}
        world.now_ms += 1
        world.files.fail(step, sticky=True)
        try:
            world.compact()
        except (ApiError, DirectoryOffline):
            pass
        met = world.files.has_failed
        world.crash()
        assert world.log.quarantined is None
        found = read_all(world.log)
        assert set(found) <= set(expected)
        assert sorted({record.offset for record in found}) == [record.offset for record in found]
        for key, record in last.items():
            of_key = [each for each in found if each.key == key]
            assert of_key[-1:] == [record] or (record.value is None and not of_key)
        if not met:
            break
    assert step > 30


SHORTAGES = [errno.ENOSPC, errno.EMFILE]


def values(world):
    """The last value of every key that is not deleted."""
    last = {record.key: record.value for record in read_all(world.log)}
    return {key: value for key, value in last.items() if value is not None}


@pytest.mark.parametrize("shortage", SHORTAGES)
def test_a_shortage_at_any_step_is_no_damage(shortage):
    for step in itertools.count(1):
        world = compacted_world()
        fill(world)
        before = values(world)
        world.files.fail(step, shortage)
        with suppress(ApiError):
            world.compact()
        if not world.files.has_failed:
            break
        world.files.heal()
        assert values(world) == before
        world.compact()
        assert values(world) == before
        world.kill()
        assert world.log.quarantined is None
        assert values(world) == before
    assert step > 50


@pytest.mark.parametrize("shortage", SHORTAGES)
def test_a_run_that_a_shortage_ended_replaces_nothing_newer_at_the_next_start(shortage):
    for step in itertools.count(1):
        world = compacted_world(segment_bytes=100_000)
        for rounds in (2, 3):
            fill(world, rounds)
            world.log.roll_if_larger(0, world.now_ms)
            world.flush()
        world.files.fail(step, shortage)
        with suppress(ApiError):
            world.compact()
        if not world.files.has_failed:
            break
        world.files.heal()
        world.append(batch(b"new", key=b"d"))
        world.log.roll_if_larger(0, world.now_ms)
        world.flush()
        world.checkpoint()
        world.compact()
        before = values(world)
        assert before[b"d"] == b"new"
        world.kill()
        assert values(world) == before
    assert step > 30


def test_a_run_that_a_shortage_ended_leaves_no_files_behind():
    world = compacted_world()
    fill(world)
    before = names(world)
    world.files.fail(3, errno.ENOSPC, only="append")
    with pytest.raises(ApiError):
        world.compact()
    assert names(world) == before


def test_a_run_that_outlives_its_topic_leaves_the_next_topic_of_that_name_alone(monkeypatch):
    world = compacted_world()
    fill(world)
    compaction = world.log.plan_compaction(world.now_ms)
    write = compaction._write_replacements

    def write_and_recreate():
        write()
        world.directory.delete_log(world.log)()
        world.log = world.directory.create_log(PARTITION, uuid.uuid4(), world.settings, world.epoch)

    monkeypatch.setattr(compaction, "_write_replacements", write_and_recreate)
    before = names(compacted_world())
    compaction.run()
    assert names(world) == before
