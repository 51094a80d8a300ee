"""The data directory: whose it is, what is refused, what is kept."""

import errno
import os
import subprocess
import sys
import uuid

import pytest

from strom.model.errors import DirectoryOffline, StorageError, UserError
from strom.model.topic_settings import TopicSettings
from strom.model.topics import TopicPartition
from strom.storage.directory import DataDirectory, LogIdentity
from strom.storage.files import DiskFiles
from strom.testing.memory_files import MemoryFiles
from tests.storage.world import (
    FOLDER,
    PARTITION,
    PATH,
    START_MS,
    STATE_PARTITION,
    TOPIC_ID,
    World,
    batch,
    read_all,
)

OTHER = TopicPartition("other", 0)


def opened(files, path=PATH, node_id=1) -> DataDirectory:
    return DataDirectory.open(files, path, now_ms=START_MS, node_id=node_id)


def test_the_cluster_id_is_made_once_and_looks_like_kafkas():
    files = MemoryFiles()
    directory = opened(files)
    assert len(directory.cluster_id) == 22
    directory.close([])
    files.crash()
    assert opened(files).cluster_id == directory.cluster_id
    assert opened(MemoryFiles()).cluster_id != directory.cluster_id


def test_a_directory_in_use_is_refused_and_says_by_whom(tmp_path):
    directory = opened(DiskFiles(), str(tmp_path / "data"))
    program = (
        "import sys\nfrom strom.storage.directory import DataDirectory\n"
        "from strom.storage.files import DiskFiles\n"
        "from strom.model.errors import UserError\n"
        "try: DataDirectory.open(DiskFiles(), sys.argv[1], now_ms=0, node_id=1)\n"
        "except UserError as error: print(error)\n"
    )
    run = [sys.executable, "-c", program, str(tmp_path / "data")]
    said = subprocess.run(run, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "already in use by process " in said
    assert "choose another folder" in said
    directory.close([])
    assert subprocess.run(run, capture_output=True, text=True, check=True, timeout=60).stdout == ""


def test_a_foreign_folder_is_not_touched(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="files of another program"):
        opened(DiskFiles(), str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is a file"):
        opened(DiskFiles(), str(tmp_path / "file"))


def test_an_unwritable_place_is_reported_in_one_line():
    files = MemoryFiles()
    files.fail(1, OSError(errno.EACCES, "Permission denied"), only="make_directory")
    with pytest.raises(UserError, match="Permission denied; choose another folder") as caught:
        opened(files)
    assert caught.value.setting == "log.dirs"


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="no O_NOFOLLOW")
def test_a_lock_that_is_a_link_is_named(tmp_path):
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match=r"cannot use .*\.lock: .*link"):
        opened(DiskFiles(), str(tmp_path))
    assert not (tmp_path / "precious").exists()


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        (b"{", "cannot be read"),
        (b"{}", "cannot be read"),
        (b'{"format": 99, "cluster_id": "x", "node_id": 1}', "another version"),
        (b'{"format": 1, "cluster_id": "x", "node_id": 7}', "belongs to node 7"),
    ],
)
def test_a_directory_with_another_identity_is_refused_and_let_go(identity, said):
    files = MemoryFiles()
    opened(files).close([])
    files.poke(f"{PATH}/strom.json", identity)
    for _ in range(2):
        with pytest.raises(UserError, match=said):
            opened(files)
    assert files.peek(f"{PATH}/strom.json") == identity


def test_a_stop_is_clean_only_once():
    files = MemoryFiles()
    assert not opened(files).was_clean
    files.crash()
    directory = opened(files)
    assert not directory.was_clean
    directory.close([])
    files.crash()
    assert opened(files).was_clean
    files.crash()
    assert not opened(files).was_clean


def test_a_created_log_survives_a_crash_at_once():
    for seed in range(20):
        world = World(seed=seed)
        world.crash()
        assert world.log.quarantined is None
        assert world.log.end_offset == 0


def test_a_log_whose_folder_is_missing_is_quarantined_and_not_made():
    world = World()
    world.restart()
    log = world.directory.open_log(OTHER, uuid.uuid4(), TopicSettings(), 0)
    assert "missing" in log.quarantined
    assert (log.start_offset, log.end_offset, log.high_watermark, log.size_bytes) == (0, 0, 0, 0)
    assert not world.directory.has_log(OTHER)


def test_a_log_of_another_topic_of_that_name_is_left_alone():
    world = World()
    world.fill(3)
    world.files.sync_all()
    world.files.crash()
    directory = opened(world.files)
    log = directory.open_log(PARTITION, uuid.uuid4(), TopicSettings(), 0)
    assert "another topic" in log.quarantined
    with pytest.raises(StorageError):
        directory.create_log(PARTITION, uuid.uuid4(), TopicSettings(), 0)
    directory.delete_leftover(PARTITION, uuid.uuid4())
    assert directory.open_log(PARTITION, TOPIC_ID, TopicSettings(), 0).end_offset == 3


def test_one_damaged_partition_does_not_stop_the_others():
    world = World()
    other = world.directory.create_log(OTHER, TOPIC_ID, world.settings, 0)
    other.append(batch(b"fine"), now_ms=START_MS, leader_epoch=0)
    flush = other.begin_flush()
    flush.sync()
    other.finish_flush(flush)
    world.fill(10)
    world.directory.checkpoint([world.log, other])
    world.files.remove(f"{FOLDER}/{0:020d}.log")
    world.files.sync_all()
    world.files.crash()
    world.reopen()
    assert world.log.quarantined is not None
    other = world.directory.open_log(OTHER, TOPIC_ID, world.settings, 0)
    assert [record.value for record in read_all(other)] == [b"fine"]
    world.directory.close([world.log, other])
    world.files.crash()
    world.reopen()
    assert world.log.quarantined is not None, "a clean stop does not make it well"


def test_a_quarantined_log_keeps_its_recovery_point():
    world = World(partition=STATE_PARTITION)
    world.fill(10)
    world.checkpoint()
    path = f"{world.folder}/{0:020d}.log"
    data = world.files.peek(path)
    world.files.poke(path, b"rubbish")
    world.files.crash()
    world.reopen()
    world.checkpoint()
    world.files.poke(path, data[:-10])
    world.files.crash()
    world.reopen()
    assert world.log.quarantined is not None
    world.files.poke(path, data)
    world.files.crash()
    world.reopen()
    assert len(read_all(world.log)) == 10


def test_a_deleted_log_is_gone_and_its_name_is_free():
    world = World()
    world.fill(20)
    free_space = world.directory.delete_log(world.log)
    assert not world.directory.has_log(PARTITION)
    again = world.directory.create_log(PARTITION, uuid.uuid4(), world.settings, 0)
    again.append(batch(b"fresh"), now_ms=START_MS, leader_epoch=0)
    flush = again.begin_flush()
    flush.sync()
    again.finish_flush(flush)
    free_space()
    assert [record.value for record in read_all(again)] == [b"fresh"]
    assert world.files.list(PATH) == [".lock", "clicks-0", "strom.json"]


def test_a_deletion_that_a_crash_interrupted_is_completed():
    for seed in range(20):
        world = World(seed=seed)
        world.fill(20)
        world.directory.delete_log(world.log)
        world.files.crash()
        directory = opened(world.files)
        directory.delete_leftover(PARTITION, TOPIC_ID)
        assert world.files.list(PATH) == [".lock", "strom.json"]


def test_a_new_topic_does_not_inherit_the_recovery_point_of_its_name():
    world = World()
    world.fill(20)
    world.checkpoint()
    world.directory.delete_log(world.log)()
    topic_id = uuid.uuid4()
    world.directory.create_log(PARTITION, topic_id, world.settings, 0)
    world.files.crash()
    log = opened(world.files).open_log(PARTITION, topic_id, world.settings, 0)
    assert log.quarantined is None


def test_strays_are_reported_and_kept():
    world = World()
    world.fill(3)
    world.directory.create_log(OTHER, TOPIC_ID, world.settings, 0)
    assert world.directory.strays({OTHER}) == ["clicks-0"]
    assert world.directory.strays({OTHER, PARTITION}) == []
    world.files.crash()
    assert opened(world.files).has_log(PARTITION)


def test_a_failed_directory_stays_offline_and_is_not_marked_clean():
    world = World()
    world.fill(3)
    first = world.directory.fail(OSError("broken"))
    assert world.directory.fail(OSError("later")) is first is world.directory.offline
    with pytest.raises(DirectoryOffline):
        world.checkpoint()
    world.stop()
    world.files.crash()
    world.reopen()
    assert not world.directory.was_clean
    assert len(read_all(world.log)) == 3


MANY = [TopicPartition("many", index) for index in range(12)]
IDENTITIES = [LogIdentity(one, TOPIC_ID, TopicSettings()) for one in MANY]


def many_logs(seed=0):
    """A directory with a durable record in each of many logs, and one that was not flushed."""
    files = MemoryFiles(seed)
    directory = opened(files)
    logs = [directory.create_log(one, TOPIC_ID, TopicSettings(), 0) for one in MANY]
    for log in logs:
        log.append(batch(b"durable"), now_ms=START_MS, leader_epoch=0)
        flush = log.begin_flush()
        flush.sync()
        log.finish_flush(flush)
        log.append(batch(b"late"), now_ms=START_MS, leader_epoch=0)
    return files, directory, logs


def test_a_stop_flushes_many_logs_and_the_next_start_needs_no_recovery():
    files, directory, logs = many_logs()
    directory.close(logs)
    files.crash()
    directory = opened(files)
    assert directory.was_clean
    for log in directory.open_logs(IDENTITIES, 0):
        assert [record.value for record in read_all(log)] == [b"durable", b"late"]


@pytest.mark.parametrize("nth", [1, 5, 12, 20])
def test_a_stop_during_which_one_sync_fails_is_not_clean(nth):
    files, directory, logs = many_logs(seed=nth)
    files.fail(nth, errno.EIO, only="datasync")
    with pytest.raises(DirectoryOffline, match="injected"):
        directory.close(logs)
    files.crash()
    directory = opened(files)
    assert not directory.was_clean
    for log in directory.open_logs(IDENTITIES, 0):
        assert log.quarantined is None
        assert read_all(log)[0].value == b"durable"


def test_a_stop_without_space_is_not_clean():
    files, directory, logs = many_logs()
    files.fail(1, errno.ENOSPC, sticky=True, only="append")
    directory.close(logs)
    files.heal()
    files.kill()
    directory = opened(files)
    assert not directory.was_clean
    for log in directory.open_logs(IDENTITIES, 0):
        assert [record.value for record in read_all(log)] == [b"durable", b"late"]


def test_many_logs_are_recovered_and_durable_before_they_are_used():
    for seed in range(5):
        files, directory, logs = many_logs(seed)
        directory.checkpoint(logs)
        files.kill()
        first = [read_all(log) for log in opened(files).open_logs(IDENTITIES, 1)]
        assert [[one.value for one in each] for each in first] == [[b"durable", b"late"]] * len(
            MANY
        )
        files.crash()
        assert [read_all(log) for log in opened(files).open_logs(IDENTITIES, 2)] == first


def test_a_start_during_which_one_sync_fails_is_refused():
    files, directory, logs = many_logs()
    directory.checkpoint(logs)
    files.kill()
    directory = opened(files)
    files.fail(7, errno.EIO, only="datasync")
    with pytest.raises(DirectoryOffline, match="injected"):
        directory.open_logs(IDENTITIES, 1)
