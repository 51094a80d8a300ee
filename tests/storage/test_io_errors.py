"""Every call to the disk fails once, in every operation: nothing that was flushed may be lost.

The loop is the one that SQLite made famous: fail the first call, then the second, and so on until the
operation passes without meeting the failure.
"""

import errno
import itertools

import pytest

from strom.model.errors import ApiError, DirectoryOffline, StorageError, UserError
from tests.storage.world import PARTITION, START_MS, TOPIC_ID, World, batch, read_all

ERRORS = [
    pytest.param(errno.EIO, False, id="EIO once"),
    pytest.param(errno.EIO, True, id="EIO for ever"),
    pytest.param(errno.ENOSPC, False, id="disk full once"),
    pytest.param(errno.ENOSPC, True, id="disk full for ever"),
]


def append_roll_and_flush(world, flushed):
    for _ in range(12):
        world.append(batch(b"x" * 150))
        world.flush()
        flushed.append(world.log.flushed_offset)


def flush_many_at_once(world, flushed):
    for _ in range(12):
        world.append(batch(b"x" * 150))
    flush = world.log.begin_flush()
    flush.sync()
    world.log.finish_flush(flush)
    flushed.append(world.log.flushed_offset)


def checkpoint_and_stop(world, flushed):
    world.append(batch(b"x"))
    world.checkpoint()
    world.stop()
    flushed.append(world.log.end_offset)


def drop_old_segments(world, flushed):
    world.log.delete_before(20)
    world.log.delete_old_segments(START_MS)
    world.directory.remove_deleted_files(START_MS)


def compact(world, flushed):
    world.compact()
    world.directory.remove_deleted_files(START_MS)


OPERATIONS = [
    append_roll_and_flush,
    flush_many_at_once,
    checkpoint_and_stop,
    drop_old_segments,
    compact,
]


def prepared(seed, **changes) -> World:
    world = World(seed=seed, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, **changes)
    for at in range(30):
        world.append(batch(b"%d" % at, key=b"key %d" % (at % 3)))
    world.flush()
    world.checkpoint()
    return world


def last_values(world) -> dict[bytes, int]:
    return {record.key: record.offset for record in read_all(world.log)}


@pytest.mark.parametrize(("error", "sticky"), ERRORS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_flushed_is_lost_whichever_call_fails(operation, error, sticky):
    for nth in itertools.count(1):
        world = prepared(seed=nth)
        flushed = [world.log.flushed_offset]
        world.files.fail(nth, error, sticky=sticky)
        try:
            operation(world, flushed)
        except (ApiError, DirectoryOffline):
            pass
        met = world.files.has_failed
        end = world.log.end_offset
        world.crash()
        assert world.log.quarantined is None
        assert max(flushed) <= world.log.end_offset <= end
        expected = {b"key %d" % key: 27 + key for key in range(3)}
        found = last_values(world)
        assert {key: found[key] for key in expected} == expected
        assert max(found.values()) == world.log.end_offset - 1
        if not met:
            break
    assert nth > 5, "the operation does touch the disk"


@pytest.mark.parametrize(("error", "sticky"), ERRORS)
def test_a_start_that_meets_a_failing_disk_harms_nothing(error, sticky):
    for nth in itertools.count(1):
        world = prepared(seed=nth)
        expected = read_all(world.log)
        for _ in range(4):
            world.append(batch(b"never acknowledged" * 9))
        world.files.crash()
        world.files.fail(nth, error, sticky=sticky)
        try:
            world.reopen()
        except (UserError, StorageError):
            pass
        met = world.files.has_failed
        world.crash()
        assert world.log.quarantined is None
        assert read_all(world.log)[: len(expected)] == expected
        if not met:
            break
    assert nth > 10


@pytest.mark.parametrize(("error", "sticky"), ERRORS)
def test_a_log_that_could_not_be_created_can_be_created_later(error, sticky):
    for nth in itertools.count(1):
        world = World(seed=nth)
        other = PARTITION._replace(partition=1)
        world.files.fail(nth, error, sticky=sticky)
        try:
            world.directory.create_log(other, TOPIC_ID, world.settings, 0)
        except (ApiError, DirectoryOffline):
            pass
        met = world.files.has_failed
        world.crash()
        if not world.directory.has_log(other) or met:
            world.directory.create_log(other, TOPIC_ID, world.settings, 0)
        log = world.directory.open_log(other, TOPIC_ID, world.settings, 0)
        assert log.quarantined is None
        assert log.end_offset == 0
        if not met:
            break
    assert nth > 5


def test_a_full_disk_passes_without_a_restart():
    for nth in itertools.count(1):
        world = prepared(seed=nth)
        world.files.fail(nth, errno.ENOSPC)
        appended = 0
        for _ in range(12):
            try:
                world.append(batch(b"x" * 150))
                appended += 1
            except ApiError:
                pass
        met = world.files.has_failed
        world.files.heal()
        assert appended >= 11
        world.flush()
        assert world.directory.offline is None
        assert world.log.flushed_offset == 30 + appended
        world.crash()
        assert world.log.end_offset == 30 + appended
        if not met:
            break
