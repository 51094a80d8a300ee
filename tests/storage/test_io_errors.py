"""Every call to the disk fails once, in every operation: nothing that was flushed may be lost.

The loop is the one that SQLite made famous: fail the first call, then the second, and so on until the
operation passes without meeting the failure.
"""

import contextlib
import errno
import itertools

import pytest

from strom.model.errors import ApiError, DirectoryOffline, StorageError, UserError
from strom.testing.memory_files import MemoryFile, MemoryFiles
from strom.wire.kafka.records import ControlType, Marker, build_marker
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


# The files beside the log


class ChosenFiles(MemoryFiles):
    """Lets calls on files with one ending fail: as they are created, written, synced or renamed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.met = 0
        """How often such a call has failed."""
        self._ending, self._verb, self._error = "", "", 0

    def choose(self, ending: str, verb: str, error: int) -> None:
        self._ending, self._verb, self._error = ending, verb, error

    def spare(self) -> None:
        self._ending = ""
        self.heal()

    def _is_chosen(self, path: str, verb: str) -> bool:
        name = path.removesuffix(".tmp").removesuffix(".cleaned")
        return bool(self._ending) and verb == self._verb and name.endswith(self._ending)

    def _fail(self) -> None:
        self.met += 1
        raise OSError(self._error, "injected")

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        """The next call on the file itself is the one that fails: `write_file` opens it for that."""
        if create and self._is_chosen(path, "open"):
            self._fail()
        for verb in ("append", "datasync"):
            if create and self._is_chosen(path, verb):
                self.met += 1
                self.fail(1, self._error, only=verb)
        return super().open(path, create=create)

    def rename(self, source: str, target: str) -> None:
        if self._is_chosen(target, "rename"):
            self._fail()
        super().rename(source, target)


BESIDE = {
    ".index": ("open", "append", "datasync"),
    ".timeindex": ("open", "append", "datasync"),
    ".txnindex": ("open", "append", "datasync"),
    ".snapshot": ("open", "append", "datasync"),
    "leader-epoch-checkpoint": ("open", "append", "datasync", "rename"),
    "data/checkpoint": ("open", "append", "datasync", "rename"),
    "clean-stop": ("open", "append", "datasync", "rename"),
    "log-start-offset": ("open", "append", "datasync", "rename"),
    "cleaned-offsets": ("open", "append", "datasync", "rename"),
    "partition.metadata": ("open", "append", "datasync", "rename"),
}


def abort(world: World, sequence: int) -> None:
    ids = {"producer_id": 7, "producer_epoch": 0}
    world.append(batch(b"no", key=b"no", base_sequence=sequence, transactional=True, **ids))
    marker = build_marker(Marker(ControlType.ABORT, 0), timestamp=START_MS, **ids)
    world.append(marker, from_client=False)


def live(world: World, sequence: int) -> None:
    """What writes each of the files, with what fails in between given up."""
    world.epoch += 1
    steps = [
        lambda: abort(world, sequence),
        lambda: world.append(batch(b"x" * 400, key=b"x")),
        lambda: world.append(batch(b"x" * 400, key=b"y")),
        world.flush,
        world.checkpoint,
        world.compact,
        lambda: world.log.delete_before(6),
        lambda: world.log.delete_old_segments(START_MS),
        lambda: world.directory.remove_deleted_files(START_MS + 10**9),
        world.stop,
    ]
    for step in steps:
        with contextlib.suppress(ApiError, DirectoryOffline):
            step()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.EIO])
@pytest.mark.parametrize(
    ("ending", "verb"), [(ending, verb) for ending, verbs in BESIDE.items() for verb in verbs]
)
def test_a_failure_of_a_file_beside_the_log_is_no_damage(ending, verb, error):
    files = ChosenFiles(len(ending) + len(verb) + error)
    world = World(files=files, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    abort(world, 0)
    world.fill(12)
    world.stop()
    files.sync_all()
    world.reopen()
    newest = world.log.end_offset - 1
    files.choose(ending, verb, error)
    live(world, 1)
    if error != errno.EIO:
        assert world.directory.offline is None, "a shortage is no failure of the disk"
        assert world.log.quarantined is None
    for _ in range(2):  # starts that meet it too, of what an older version has left
        path = f"{world.folder}/partition.metadata"
        if files.exists(path):
            files.poke(path, b"".join(files.peek(path).splitlines(keepends=True)[:2]))
        files.crash()
        with contextlib.suppress(UserError, DirectoryOffline):
            world.reopen()
            assert world.log.quarantined is None
            live(world, 2)
    assert files.met, "the call was made"
    files.spare()
    world.crash()
    assert world.log.quarantined is None
    assert any(record.key == b"k" and record.offset >= newest for record in read_all(world.log))
    for at in range(world.log.start_offset, world.log.last_stable_offset):
        world.log.reader.read(at, 1000, committed_only=True)
    world.append(batch(b"after"))
    world.flush()
    world.checkpoint()
    world.restart()
    assert world.directory.was_clean
    assert world.log.quarantined is None
    assert read_all(world.log)[-1].value == b"after"


@pytest.mark.parametrize("verb", ["open", "append", "datasync", "open_directory"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_a_missing_file_is_never_forgotten_if_it_cannot_be_noted(verb, error):
    files = ChosenFiles(1)
    world = World(files=files)
    world.fill(20)
    world.checkpoint()
    world.stop()
    files.sync_all()
    gone = sorted(path for path in files.paths(world.folder) if path.endswith(".log"))[1]
    files.remove(gone)
    files.sync_all()
    files.choose(".log.missing", verb, error)
    for _ in range(3):
        with contextlib.suppress(UserError, DirectoryOffline):
            world.reopen()
            assert gone in str(world.log.quarantined)
        files.crash()
    files.spare()
    world.crash()
    assert "missing" in str(world.log.quarantined)
