"""What a log does while nothing goes wrong, and what it refuses."""

import errno
import itertools
import uuid
from contextlib import suppress
from typing import Any

import pytest

from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.model.topic_settings import TopicSettings
from strom.model.topics import TopicPartition
from strom.storage.directory import DataDirectory
from strom.storage.files import DiskFiles
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import ControlType, Marker, build_marker
from tests.storage.world import FOLDER, PARTITION, START_MS, World, batch, batch_headers, read_all


def log_files(world, suffix=".log"):
    return [path for path in world.files.paths(FOLDER) if path.endswith(suffix)]


def test_a_batch_gets_the_next_offsets_and_the_leaders_epoch():
    world = World()
    first = world.append(batch(b"a", b"b", b"c"))
    second = world.append(batch(b"d"))
    assert (first.base_offset, first.last_offset, first.duplicate) == (0, 2, False)
    assert (second.base_offset, second.last_offset) == (3, 3)
    world.flush()
    assert [record.value for record in read_all(world.log)] == [b"a", b"b", b"c", b"d"]
    assert {header.leader_epoch for header in batch_headers(world.log)} == {0}


def test_readers_see_nothing_before_it_is_on_disk():
    world = World()
    world.append(batch(b"a"))
    assert world.log.end_offset == 1
    assert world.log.high_watermark == 0
    assert world.log.reader.read(0, 1000).data == b""
    assert world.log.reader.bytes_after(0, limit=1000) == 0
    world.flush()
    assert world.log.high_watermark == world.log.flushed_offset == 1
    assert world.log.reader.read(0, 1000).data != b""


def test_without_durability_readers_see_it_at_once():
    world = World(flush="os")
    world.append(batch(b"a"))
    assert world.log.high_watermark == 1
    assert world.log.flushed_offset == 0
    assert [record.value for record in read_all(world.log)] == [b"a"]


def test_what_readers_saw_stays_visible_when_a_topic_becomes_durable():
    world = World(flush="os")
    world.append(batch(b"a"))
    world.log.change_settings(TopicSettings())
    world.append(batch(b"b"))
    assert [record.value for record in read_all(world.log)] == [b"a"]
    world.flush()
    assert [record.value for record in read_all(world.log)] == [b"a", b"b"]


def test_a_flush_covers_what_was_there_when_it_began():
    world = World()
    world.append(batch(b"a"))
    flush = world.log.begin_flush()
    world.append(batch(b"b"))
    flush.sync()
    world.log.finish_flush(flush)
    assert world.log.high_watermark == 1
    assert [record.value for record in read_all(world.log)] == [b"a"]
    world.flush()
    assert world.log.begin_flush() is None
    assert world.log.high_watermark == 2


def test_a_later_flush_that_ends_first_covers_the_earlier_one():
    world = World()
    world.fill(5)
    world.append(batch(b"x" * 400))
    early = world.log.begin_flush()
    world.append(batch(b"y" * 400))
    late = world.log.begin_flush()
    late.sync()
    world.log.finish_flush(late)
    assert world.log.flushed_offset == 7
    world.crash()
    assert world.log.end_offset == 7
    assert early.end_offset == 6


def test_an_append_is_one_write_and_touches_nothing_else():
    world = World(segment_bytes=10**6)
    world.append(batch(b"a"))
    before = world.files.calls.copy()
    world.append(batch(b"b"))
    assert world.files.calls - before == {"append": 1}


def test_reads_begin_with_the_batch_that_holds_the_offset():
    world = World()
    world.append(batch(b"a", b"b", b"c"))
    world.append(batch(b"d", b"e"))
    world.flush()
    for offset, base in [(0, 0), (1, 0), (2, 0), (3, 3), (4, 3)]:
        (_, first), *_ = headers(world.log.reader.read(offset, 1000).data)
        assert first.base_offset == base
    assert world.log.reader.read(5, 1000).data == b""


def test_offsets_out_of_range_are_refused_as_kafka_refuses_them():
    world = World()
    world.fill(3)
    world.log.delete_before(1)
    for offset in (-1, 0, 4):
        with pytest.raises(ApiError) as caught:
            world.log.reader.read(offset, 1000)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_first_batch_is_whole_and_the_last_may_be_cut():
    world = World(segment_bytes=10**6)
    world.fill(10, size=100)
    size = len(batch(b"." * 100))
    assert len(world.log.reader.read(4, 1).data) == size
    assert len(world.log.reader.read(4, size + 10).data) == size + 10
    assert world.log.reader.read(4, size - 1, at_least_one=False).data == b""
    assert len(world.log.reader.read(4, size, at_least_one=False).data) == size


def test_a_segment_is_closed_when_it_would_grow_too_large():
    world = World(segment_bytes=1000)
    world.fill(20, size=200)
    assert len(log_files(world)) > 3
    assert all(world.files.size(path) <= 1000 for path in log_files(world))


def test_appended_bytes_are_those_of_all_segments_since_the_log_was_opened():
    world = World(segment_bytes=1000)
    world.fill(20, size=200)
    assert world.log.segment_count == len(log_files(world)) > 3
    assert world.log.appended_bytes == world.log.size_bytes
    before = world.log.size_bytes
    world.restart()
    assert world.log.appended_bytes == 0
    world.fill(3, size=200)
    assert world.log.appended_bytes == world.log.size_bytes - before


def test_a_segment_is_closed_after_its_time():
    world = World(segment_ms=1000)
    world.append(batch(b"a", timestamp=START_MS))
    world.append(batch(b"b", timestamp=START_MS + 1000))
    world.append(batch(b"c", timestamp=START_MS + 1001))
    world.flush()
    assert [path[-24:] for path in log_files(world)] == [f"{0:020}.log", f"{2:020}.log"]


def test_a_quiet_segment_is_closed_when_it_is_due():
    world = World(segment_ms=1000)
    assert not world.log.roll_if_due(START_MS + 5000)
    world.fill(1)
    assert not world.log.roll_if_due(START_MS + 1000)
    assert world.log.roll_if_due(START_MS + 1001)
    assert not world.log.roll_if_due(START_MS + 5000)
    assert world.append(batch(b"next")).base_offset == 1


def test_a_closed_segment_asks_for_a_flush():
    world = World(flush="os", retention_bytes=0)
    world.append(batch(b"a"))
    asked = [world.log.wants_flush]
    world.log.roll_if_due(START_MS + world.settings.segment_ms + 1)
    asked.append(world.log.wants_flush)
    assert world.log.delete_old_segments(START_MS) == 0
    world.flush()
    asked.append(world.log.wants_flush)
    assert asked == [False, True, False]
    assert world.log.delete_old_segments(START_MS) == 1


def test_a_segment_is_closed_when_its_index_is_full():
    world = World(segment_bytes=10**6, segment_index_bytes=24, index_interval_bytes=0)
    world.fill(20)
    assert len(log_files(world)) == 5


def test_a_segment_never_spans_more_offsets_than_its_index_can_count():
    world = World(segment_bytes=10**6)
    world.append(batch(b"first"))
    header_of_many = batch(b"x")
    world.log._state.end_offset = 2**31 - 1
    world.append(header_of_many)
    world.append(batch(b"y"))
    assert [path[-24:] for path in log_files(world)] == [f"{0:020}.log", f"{2**31:020}.log"]


def test_descriptors_stay_bounded():
    world = World()
    world.files.limit = 4
    world.restart()
    world.fill(100)
    assert len(read_all(world.log)) == 100
    assert len(world.directory._disk.open_files) <= 4


def test_append_time_is_the_brokers():
    world = World(message_timestamp_type="LogAppendTime")
    appended = world.append(batch(b"a", timestamp=5))
    world.flush()
    assert appended.append_time_ms == START_MS
    assert read_all(world.log)[0].timestamp == START_MS


def test_epochs_are_kept_over_restarts():
    world = World()
    world.fill(5)
    world.crash()
    world.fill(3)
    world.restart()
    assert world.log.end_of_epoch(0) == (0, 5)
    assert world.log.end_of_epoch(1) == (1, 8)
    assert world.log.end_of_epoch(2) == (-1, -1)


def test_a_duplicate_gets_its_first_offset_also_after_a_crash():
    world = World()
    sent = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    assert world.append(bytearray(sent)).base_offset == 0
    world.fill(3)
    world.crash()
    again = world.append(bytearray(sent))
    assert (again.base_offset, again.duplicate) == (0, True)
    with pytest.raises(ApiError) as caught:
        world.append(batch(b"c", producer_id=7, producer_epoch=0, base_sequence=5))
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_a_killed_process_left_is_durable_once_it_is_opened_again():
    for seed in range(20):
        world = World(seed=seed)
        for _ in range(20):
            world.append(batch(b"written, never synced"))
        world.kill()
        assert world.log.flushed_offset == 20
        world.crash()
        assert world.log.end_offset == 20


def test_idle_producers_are_forgotten():
    world = World()
    sent = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    world.append(bytearray(sent))
    world.log.expire_producers(START_MS + 1000, 1000)
    assert not world.append(bytearray(sent)).duplicate


def test_committed_readers_stop_at_an_open_transaction_and_learn_of_aborts():
    world = World()
    ids: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}
    world.append(batch(b"plain"))
    world.append(batch(b"void", base_sequence=0, transactional=True, **ids))
    world.flush()
    assert world.log.last_stable_offset == 1
    assert len(read_all(world.log, committed_only=True)) == 1
    world.append(build_marker(Marker(ControlType.ABORT, 0), **ids), from_client=False)
    world.flush()
    assert world.log.last_stable_offset == 3
    for reopen in (None, world.restart, world.crash):
        if reopen:
            reopen()
        (aborted,) = world.log.reader.read(0, 1000, committed_only=True).aborted
        assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (9, 1, 2)
        assert world.log.reader.read(0, 1000).aborted == ()


def test_deleting_records_moves_the_start_but_not_beyond_the_watermark():
    world = World()
    world.fill(10)
    world.append(batch(b"unflushed"))
    assert world.log.delete_before(4) == 4
    assert world.log.delete_before(2) == 4
    with pytest.raises(ApiError) as caught:
        world.log.delete_before(11)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert world.log.delete_before(-1) == 10
    world.restart()
    assert world.log.start_offset == 10


def test_old_segments_go_and_the_next_offset_is_not_forgotten():
    world = World(retention_ms=1000)
    world.fill(30)
    size = world.log.size_bytes
    assert world.log.delete_old_segments(START_MS + 1000) == 0
    assert world.log.delete_old_segments(START_MS + 1001) > 3
    assert 0 < world.log.start_offset < 30  # the last one is closed first
    world.flush()
    assert world.log.delete_old_segments(START_MS + 1001) == 1
    assert world.log.start_offset == world.log.end_offset == 30
    assert world.log.size_bytes < size
    world.directory.remove_deleted_files(START_MS + 1001)
    assert log_files(world, ".deleted") == []
    world.crash()
    assert world.log.start_offset == world.log.end_offset == 30
    assert world.append(batch(b"next")).base_offset == 30


def test_a_log_over_its_size_loses_its_oldest_segments():
    world = World(retention_bytes=2000)
    world.fill(100)
    assert world.log.delete_old_segments(START_MS) > 0
    assert 2000 <= world.log.size_bytes < 2700
    assert read_all(world.log)[0].offset == world.log.start_offset > 0


@pytest.mark.parametrize("shortage", [errno.ENOSPC, errno.EMFILE])
def test_a_shortage_while_old_segments_go_is_no_damage(shortage):
    for step in itertools.count(1):
        world = World(retention_bytes=1500)
        world.fill(40)
        world.files.fail(step, shortage, only="rename")
        with suppress(ApiError):
            world.log.delete_old_segments(START_MS)
        if not world.files.has_failed:
            break
        world.files.heal()
        assert [record.offset for record in read_all(world.log)][-1] == 39
        world.log.delete_old_segments(START_MS)
        world.directory.remove_deleted_files(START_MS)
        assert not any(path.endswith(".deleted") for path in world.files.paths(FOLDER))
        start = world.log.start_offset
        world.kill()
        assert [record.offset for record in read_all(world.log)] == list(range(start, 40))
    assert step > 5


def test_files_stay_for_a_while_after_they_left_the_log():
    world = World(retention_bytes=0, file_delete_delay_ms=60_000)
    world.fill(30)
    world.log.delete_old_segments(START_MS)
    world.directory.remove_deleted_files(START_MS + 59_999)
    assert log_files(world, ".log.deleted")
    world.directory.remove_deleted_files(START_MS + 60_000)
    assert log_files(world, ".deleted") == []


def test_a_full_disk_refuses_the_request_and_the_log_goes_on_when_there_is_space():
    world = World()
    world.fill(3)
    for nth in range(1, 4):
        world.files.fail(1, errno.ENOSPC, only="append")
        with pytest.raises(ApiError) as caught:
            world.append(batch(b"no room" * nth))
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.log.end_offset == 3
    world.files.heal()
    world.fill(3)
    world.crash()
    assert [record.offset for record in read_all(world.log)] == list(range(6))


def test_a_full_disk_does_not_let_a_segment_be_closed_half():
    world = World(segment_bytes=300)
    world.fill(2)
    world.files.fail(1, errno.ENOSPC, only="open")
    with pytest.raises(ApiError):
        world.append(batch(b"x" * 200))
    world.files.heal()
    assert world.append(batch(b"x" * 200)).base_offset == 2


def test_a_broken_disk_takes_the_directory_offline_for_good():
    world = World()
    world.fill(2)
    world.files.fail(1, errno.EIO, only="append")
    with pytest.raises(DirectoryOffline):
        world.append(batch(b"x"))
    world.files.heal()
    assert world.directory.offline is not None
    for call in (
        lambda: world.append(batch(b"x")),
        lambda: world.log.reader.read(0, 100),
        lambda: world.log.begin_flush(),
        lambda: world.checkpoint(),
    ):
        with pytest.raises(DirectoryOffline):
            call()
    world.crash()
    assert len(read_all(world.log)) == 2


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_is_never_tried_again(error):
    world = World()
    world.fill(1)
    world.append(batch(b"x"))
    flush = world.log.begin_flush()
    world.files.fail(1, error, only="datasync")
    with pytest.raises(DirectoryOffline):
        flush.sync()
    world.files.heal()
    syncs = world.files.calls["datasync"]
    with pytest.raises(DirectoryOffline):
        flush.sync()
    assert world.files.calls["datasync"] == syncs
    assert world.log.high_watermark == 1


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_folder_that_cannot_be_opened_is_no_failed_sync(error):
    world = World()
    world.fill(4)
    for _ in range(8):
        world.append(batch(b"x" * 100))
    flush = world.log.begin_flush()
    world.files.fail(1, error, only="open_directory")
    with pytest.raises(ApiError) as caught:
        flush.sync()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    world.log.abandon_flush(flush)
    assert world.directory.offline is None
    assert world.log.flushed_offset == 4
    world.flush()
    assert world.log.flushed_offset == 12
    world.crash()
    assert len(read_all(world.log)) == 12


def test_a_sync_of_a_folder_that_failed_is_final():
    world = World()
    world.fill(4)
    for _ in range(8):
        world.append(batch(b"x" * 100))
    world.files.fail(1, errno.EIO, only="sync_directory")
    with pytest.raises(DirectoryOffline):
        world.flush()
    assert world.directory.offline is not None


def test_no_space_for_an_index_does_not_hold_up_the_data():
    world = World()
    world.fill(4)
    for _ in range(8):
        world.append(batch(b"x" * 100))
    flush = world.log.begin_flush()
    world.files.fail(1, errno.ENOSPC, only="open")
    flush.sync()
    world.log.finish_flush(flush)
    assert world.log.flushed_offset == 12
    assert world.log.recovery_point == 4
    world.files.heal()
    world.flush()
    assert world.log.recovery_point == 12
    world.checkpoint()
    world.crash()
    assert len(read_all(world.log)) == 12


def test_a_deleted_log_leaves_nothing_to_sync():
    world = World()
    world.append(batch(b"x"))
    flush = world.log.begin_flush()
    free_space = world.directory.delete_log(world.log)
    flush.sync()
    world.log.finish_flush(flush)
    free_space()
    assert world.directory.offline is None
    assert not world.directory.has_log(PARTITION)


def test_the_real_disk_does_the_same(tmp_path):
    topic_id, partition = uuid.uuid4(), TopicPartition("real", 3)
    settings = TopicSettings(segment_bytes=2000, index_interval_bytes=200)

    def opened():
        directory = DataDirectory.open(DiskFiles(), str(tmp_path / "d"), now_ms=START_MS, node_id=1)
        return directory, getattr(
            directory, "open_log" if directory.has_log(partition) else "create_log"
        )(partition, topic_id, settings, 0)

    for start, clean in [(0, True), (100, False), (200, True), (300, True)]:
        directory, log = opened()
        assert log.quarantined is None
        assert [record.offset for record in read_all(log)] == list(range(start))
        for at in range(100):
            log.append(batch(b"%d" % at), now_ms=START_MS, leader_epoch=0)
        flush = log.begin_flush()
        flush.sync()
        log.finish_flush(flush)
        directory.checkpoint([log])
        directory.close([log], clean=clean)
