"""A start on a full disk: what is intact is served, and written again as soon as there is space."""

import contextlib
import errno
import logging

import pytest

from strom.model.errors import ApiError, ErrorCode, UserError
from strom.storage.files import Space
from strom.storage.shortage import QUIET_SECONDS, Shortage
from strom.testing.memory_files import MemoryFiles
from tests.storage.world import FOLDER, World, batch, read_all

SHORTAGES = [errno.ENOSPC, errno.EDQUOT]


def fill_disk(world: World, error: int = errno.ENOSPC) -> None:
    """From now on nothing can be written; reading, cutting, syncing and removing still work."""
    world.files.fail(1, error, only="append", sticky=True)


def filled_world() -> World:
    """Several segments, of which the last were closed since the checkpoint."""
    world = World()
    world.fill(4)
    world.checkpoint()
    world.append(batch(b"x" * 100, producer_id=7, producer_epoch=0, base_sequence=0))
    world.fill(12, size=100)
    return world


def start_on_a_full_disk(world: World, error: int = errno.ENOSPC) -> None:
    world.files.kill()
    world.epoch += 1
    fill_disk(world, error)
    world.reopen()


@pytest.mark.parametrize("error", SHORTAGES)
def test_an_intact_partition_is_read_refuses_writes_and_takes_them_again(error):
    world = filled_world()
    expected = read_all(world.log)
    start_on_a_full_disk(world, error)
    assert world.log.quarantined is None
    assert read_all(world.log) == expected
    assert world.log.recovery_point == 4, "no index is saved: the next start has to check again"
    with pytest.raises(ApiError) as caught:
        world.append(batch(b"more"))
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.log.quarantined is None
    assert world.directory.offline is None
    world.files.heal()
    assert world.append(batch(b"more")).base_offset == len(expected)
    world.flush()
    assert world.log.recovery_point == world.log.end_offset
    world.checkpoint()
    world.crash()
    assert world.log.quarantined is None
    assert [record.value for record in read_all(world.log)][-1] == b"more"
    assert [path for path in world.files.paths(FOLDER) if path.endswith(".timeindex")]


def test_it_can_be_killed_and_started_on_the_full_disk_again_and_again():
    world = filled_world()
    expected = read_all(world.log)
    for _ in range(3):
        start_on_a_full_disk(world)
        assert read_all(world.log) == expected
    world.crash()
    assert world.log.quarantined is None
    assert read_all(world.log) == expected


def test_what_the_log_knows_of_producers_survives_the_full_disk():
    world = filled_world()
    start_on_a_full_disk(world)
    world.files.heal()
    again = batch(b"x" * 100, producer_id=7, producer_epoch=0, base_sequence=0)
    assert world.append(again).duplicate
    world.append(batch(b"next", producer_id=7, producer_epoch=0, base_sequence=1))
    world.flush()
    world.checkpoint()
    world.restart()
    assert world.append(again).duplicate


def test_a_torn_tail_is_cut_off_on_a_full_disk_too():
    world = filled_world()
    end = world.log.end_offset
    path = [path for path in world.files.paths(FOLDER) if path.endswith(".log")][-1]
    world.files.poke(path, world.files.peek(path) + b"torn")
    start_on_a_full_disk(world)
    assert world.log.end_offset == end
    assert not world.files.peek(path).endswith(b"torn")


@pytest.mark.parametrize("verb", ["open", "pread", "list", "open_directory"])
@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENOMEM])
def test_a_shortage_in_which_it_cannot_even_be_read_is_no_damage(verb, error):
    for nth in range(1, 12):
        world = filled_world()
        expected = read_all(world.log)
        world.files.kill()
        world.epoch += 1
        world.files.fail(nth, error, only=verb)
        with contextlib.suppress(UserError):
            world.reopen()
            assert world.log.quarantined is None
        world.crash()
        assert world.log.quarantined is None
        assert read_all(world.log) == expected


def test_one_line_says_that_writes_are_refused_however_many_are(caplog):
    world = filled_world()
    caplog.clear()
    start_on_a_full_disk(world)
    for _ in range(3):
        with pytest.raises(ApiError):
            world.append(batch(b"more"))
    (line,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert line.getMessage().startswith("Writes to data are rejected")


def test_a_compaction_that_finds_no_space_refuses_nobodys_writes(caplog):
    world = World(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    world.fill(20)
    fill_disk(world)
    with pytest.raises(ApiError):
        world.compact()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
    world.files.heal()
    assert world.compact()


def test_a_stop_on_a_full_disk_is_no_failure_but_not_a_clean_one(caplog):
    world = filled_world()
    expected = read_all(world.log)
    fill_disk(world)
    world.stop()
    assert "the next start checks the logs" in caplog.text
    world.files.kill()
    world.reopen()
    assert not world.directory.was_clean
    assert read_all(world.log) == expected


class Clock:
    """A time that tests set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Medium(MemoryFiles):
    """A disk with so many bytes left."""

    free = 0

    def space(self, path: str) -> Space:
        return Space(1000, self.free)


FULL = OSError(errno.ENOSPC, "No space left on device")


def levels(caplog) -> list[str]:
    return [record.levelname for record in caplog.records]


def test_a_shortage_is_reported_with_path_space_and_what_to_do(caplog):
    files = Medium()
    files.free = 17
    Shortage(files, "/data").on_write_failed(FULL)
    (message,) = caplog.messages
    for part in ("/data", "No space left on device", "17 of 1000 bytes", "Free space", "restart"):
        assert part in message


def test_a_shortage_ends_when_writes_succeed_for_a_while_and_there_is_space(caplog):
    files, clock = Medium(), Clock()
    shortage = Shortage(files, "/data", clock)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            shortage.on_write_failed(FULL)
        shortage.on_write_succeeded()
        assert levels(caplog) == ["ERROR"], "a small write finds room where a large one did not"
        clock.now += QUIET_SECONDS
        shortage.on_write_succeeded()
        assert levels(caplog) == ["ERROR"], "the disk is still full"
        files.free = 1 << 30
        shortage.on_write_succeeded()
        shortage.on_write_succeeded()
        assert levels(caplog) == ["ERROR", "INFO"]
        shortage.on_write_failed(FULL)
        assert levels(caplog) == ["ERROR", "INFO", "ERROR"]


def test_a_shortage_of_descriptors_needs_no_space_to_end(caplog):
    files, clock = Medium(), Clock()
    shortage = Shortage(files, "/data", clock)
    with caplog.at_level(logging.INFO):
        shortage.on_write_failed(OSError(errno.EMFILE, "Too many open files"))
        assert "ulimit -n" in caplog.text
        clock.now += QUIET_SECONDS
        shortage.on_write_succeeded()
        assert levels(caplog) == ["ERROR", "INFO"]
