"""Damage to durable data: a changed byte costs one batch, a missing file is reported.

In a user's topic only the damaged batch cannot be read. In a topic with the broker's state the whole
partition is offline, because a skipped record would falsify that state.
"""

from dataclasses import replace
from typing import Any

import pytest

from strom.model.errors import ApiError, ErrorCode
from strom.storage.checksummed import encode_lines
from strom.storage.start_offset import read_start
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import ControlType, Marker, build_marker, read_records
from tests.storage.world import (
    PATH,
    START_MS,
    STATE_PARTITION,
    World,
    batch,
    batch_headers,
    read_all,
    read_around,
)

STOPS = [pytest.param(True, id="after a clean stop"), pytest.param(False, id="after a crash")]


def stopped(world: World, *, clean: bool) -> World:
    """Stop it with everything below the recovery point."""
    world.checkpoint()
    if clean:
        world.stop()
    world.files.sync_all()
    world.files.crash()
    return world


def log_files(world: World) -> list[str]:
    return [path for path in world.files.paths(world.folder) if path.endswith(".log")]


def flip(world: World, path: str, at: int, bit: int = 0) -> None:
    data = bytearray(world.files.peek(path))
    data[at] ^= 1 << bit
    world.files.poke(path, data)


def error_at(world: World, offset: int) -> ErrorCode:
    try:
        world.log.reader.read(offset, 10_000)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def batch_starts(world: World, path: str) -> list[int]:
    return [position for position, _ in headers(world.files.peek(path))]


# One changed byte


@pytest.mark.parametrize("clean", STOPS)
@pytest.mark.parametrize("file", [0, 1, -1])
@pytest.mark.parametrize("nth", [0, 2, -1])
def test_a_changed_byte_costs_exactly_one_batch(clean, file, nth):
    world = World()
    world.fill(14)
    expected = [record.value for record in read_all(world.log)]
    path = log_files(world)[file]
    starts = batch_starts(world, path)
    damaged = int(path[-24:-4]) + range(len(starts))[nth]
    content = world.files.peek(path)
    stopped(world, clean=clean)
    files = {name: world.files.peek(name) for name in world.files.paths(PATH)}
    for byte in range(starts[nth], starts[nth] + 70):
        for name, data in files.items():
            if world.files.exists(name):
                world.files.poke(name, data)
            else:
                world.files.open(name, create=True).close()
                world.files.poke(name, data)
        world.files.poke(path, content)
        flip(world, path, byte, bit=byte % 8)
        world.files.sync_all()
        world.reopen()
        assert world.log.quarantined is None, byte
        found = [record.value for record in read_around(world.log)]
        assert found == expected[:damaged] + expected[damaged + 1 :], byte
        assert error_at(world, damaged) is ErrorCode.CORRUPT_MESSAGE
        assert error_at(world, damaged) is ErrorCode.CORRUPT_MESSAGE, "a second time too"
        assert world.log.end_offset == 14
        assert world.log.reader.find_timestamp(START_MS) is not None
        assert world.log.reader.find_max_timestamp() is not None
        assert world.append(batch(b"next")).base_offset == 14
        world.flush()
        assert read_around(world.log)[-1].value == b"next"
        for name in [one for one in world.files.paths(PATH) if one not in files]:
            world.files.remove(name)
        world.files.sync_all()
        world.files.crash()


@pytest.mark.parametrize("clean", STOPS)
def test_writes_go_on_in_a_new_segment_after_damage_and_survive(clean):
    world = World(segment_bytes=100_000)
    world.fill(10)
    (path,) = log_files(world)
    last = batch_starts(world, path)[-1]
    stopped(world, clean=clean)
    flip(world, path, last + 65)
    world.reopen()
    assert error_at(world, 9) is ErrorCode.CORRUPT_MESSAGE
    damaged = world.files.peek(path)
    world.fill(3)
    assert [int(each[-24:-4]) for each in log_files(world)] == [0, 10]
    assert world.files.peek(path) == damaged, "nothing is appended to a damaged file"
    world.crash()
    assert world.log.end_offset == 13
    assert [record.offset for record in read_around(world.log)] == [*range(9), 10, 11, 12]
    world.restart()
    assert [record.offset for record in read_around(world.log)] == [*range(9), 10, 11, 12]


@pytest.mark.parametrize("clean", STOPS)
def test_several_damaged_batches_cost_only_themselves(clean):
    world = World(segment_bytes=100_000)
    world.fill(20)
    (path,) = log_files(world)
    starts = batch_starts(world, path)
    stopped(world, clean=clean)
    for damaged in (3, 4, 11):
        flip(world, path, starts[damaged] + 9)
    world.reopen()
    left = [offset for offset in range(20) if offset not in {3, 4, 11}]
    assert [record.offset for record in read_around(world.log)] == left


def test_offsets_beside_damage_are_readable_at_once():
    world = World(segment_bytes=100_000, index_interval_bytes=100_000)
    world.fill(20)
    (path,) = log_files(world)
    starts = batch_starts(world, path)
    stopped(world, clean=True)
    flip(world, path, starts[5] + 10)
    world.reopen()
    assert error_at(world, 6) is ErrorCode.NONE
    assert error_at(world, 4) is ErrorCode.NONE
    assert error_at(world, 5) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("clean", STOPS)
def test_in_a_topic_with_state_the_partition_is_offline(clean):
    world = World(partition=STATE_PARTITION)
    world.fill(12)
    path = log_files(world)[-1]
    stopped(world, clean=clean)
    flip(world, path, 65)
    world.reopen()
    assert error_at(world, int(path[-24:-4])) is ErrorCode.KAFKA_STORAGE_ERROR
    assert error_at(world, 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.log.quarantined is not None


def test_retention_deletes_a_damaged_segment_as_usual():
    world = World(retention_ms=1000)
    world.fill(12)
    first, *_ = log_files(world)
    stopped(world, clean=True)
    for at in batch_starts(world, first):
        flip(world, first, at + 9)
    world.reopen()
    assert world.log.delete_old_segments(START_MS + 999) == 0
    assert world.log.delete_old_segments(START_MS + 2000) > 0
    world.directory.remove_deleted_files(START_MS + 10**9)
    assert first not in log_files(world)


def test_compaction_never_rewrites_a_damaged_batch():
    world = World(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    world.fill(12)
    first, *_ = log_files(world)
    stopped(world, clean=True)
    flip(world, first, batch_starts(world, first)[1] + 65)
    world.reopen()
    before = {path: world.files.peek(path) for path in log_files(world)}
    for _ in range(2):
        with pytest.raises(Exception, match="checksum"):
            world.compact()
        assert {path: world.files.peek(path) for path in log_files(world)} == before
    assert error_at(world, 1) is ErrorCode.CORRUPT_MESSAGE
    assert error_at(world, 2) is ErrorCode.NONE


def transactional(world: World, *kinds: ControlType) -> None:
    """One transaction of one producer for each marker."""
    ids: Any = {"producer_id": 7, "producer_epoch": 0}
    for at, kind in enumerate(kinds):
        data = b"%d %s" % (at, kind.name.encode())
        world.append(batch(data, base_sequence=at, transactional=True, **ids))
        world.append(build_marker(Marker(kind, 0), timestamp=START_MS, **ids), from_client=False)
    world.flush()


def committed(world: World) -> list[bytes | None]:
    """What a consumer of committed records sees, with damaged batches skipped."""
    values: list[bytes | None] = []
    offset = world.log.start_offset
    while offset < world.log.last_stable_offset:
        try:
            chunk = world.log.reader.read(offset, 10_000, committed_only=True)
        except ApiError:
            offset += 1
            continue
        for position, header in headers(chunk.data):
            aborted = any(
                one.first_offset <= header.base_offset <= one.last_offset for one in chunk.aborted
            )
            if not header.is_control and not aborted:
                values += [each.value for each in read_records(chunk.data, position, header)]
            offset = header.next_offset
    return values


@pytest.mark.parametrize("clean", STOPS)
@pytest.mark.parametrize("damaged", [0, 1, 2, 3])
def test_damage_in_a_transaction_commits_nothing_that_was_aborted(clean, damaged):
    world = World(segment_bytes=100_000)
    transactional(world, ControlType.ABORT, ControlType.COMMIT)
    (path,) = log_files(world)
    starts = batch_starts(world, path)
    stopped(world, clean=clean)
    flip(world, path, starts[damaged] + 65)
    world.reopen()
    if world.log.quarantined is None:
        assert b"0 ABORT" not in committed(world)
        if damaged != 2:
            assert b"1 COMMIT" in committed(world)
    else:
        assert not clean, "after a clean stop the outcome is on disk"
        assert "committed or aborted is unknown" in world.log.quarantined


def test_damage_within_an_open_transaction_leaves_it_open_after_a_clean_stop():
    world = World(segment_bytes=100_000)
    ids: Any = {"producer_id": 7, "producer_epoch": 0}
    for at in range(3):
        world.append(batch(b"%d" % at, base_sequence=at, transactional=True, **ids))
    world.flush()
    (path,) = log_files(world)
    second = batch_starts(world, path)[1]
    stopped(world, clean=True)
    flip(world, path, second + 65)
    world.reopen()
    assert world.log.last_stable_offset == 0
    assert error_at(world, 1) is ErrorCode.CORRUPT_MESSAGE
    marker = build_marker(Marker(ControlType.COMMIT, 0), timestamp=START_MS, **ids)
    world.append(marker, from_client=False)
    world.flush()
    assert world.log.last_stable_offset == 4


@pytest.mark.parametrize("clean", STOPS)
@pytest.mark.parametrize("byte", range(8))
@pytest.mark.parametrize("first", [0, 3])
def test_a_damaged_base_offset_after_a_damaged_batch_costs_two_batches(first, byte, clean):
    """No checksum covers it: with a larger one, the batches after it would be out of order."""
    world = World(segment_bytes=100_000)
    world.fill(8)
    expected = {record.offset: record.value for record in read_all(world.log)}
    (path,) = log_files(world)
    starts = batch_starts(world, path)
    stopped(world, clean=clean)
    flip(world, path, starts[first] + 66)
    flip(world, path, starts[first + 1] + byte, bit=5)
    world.reopen()
    assert world.log.quarantined is None
    assert world.log.end_offset == len(expected)
    for offset in expected:
        code = ErrorCode.CORRUPT_MESSAGE if offset in (first, first + 1) else ErrorCode.NONE
        assert error_at(world, offset) is code, offset


# Missing files


@pytest.mark.parametrize("clean", STOPS)
@pytest.mark.parametrize("gone", [0, 1, -1])
def test_a_missing_segment_is_reported_with_what_to_do(clean, gone, caplog):
    world = World()
    world.fill(30)
    path = log_files(world)[gone]
    data = world.files.peek(path)
    stopped(world, clean=clean)
    world.files.remove(path)
    world.files.sync_all()
    world.reopen()
    assert "missing" in str(world.log.quarantined)
    assert "strom verify --repair" in caplog.text
    world.directory.close([world.log])
    world.files.open(path, create=True).close()
    world.files.poke(path, data)
    world.files.sync_all()
    world.reopen()
    assert world.log.quarantined is None, "the restored file is enough"
    assert len(read_all(world.log)) == 30


def test_the_reason_names_the_missing_offsets():
    world = World()
    world.fill(30)
    first, second, *_ = log_files(world)
    stopped(world, clean=False)
    world.files.remove(first)
    world.files.sync_all()
    world.reopen()
    assert f"offsets 0 to {int(second[-24:-4]) - 1} are missing" in str(world.log.quarantined)


@pytest.mark.parametrize("clean", STOPS)
def test_a_missing_segment_of_a_compacted_log_is_reported_after_a_clean_stop(clean):
    world = World(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, segment_bytes=300)
    for at in range(30):
        world.append(batch(b"x" * 90, key=b"%d" % at))
    world.flush()
    assert world.compact()
    stopped(world, clean=clean)
    gone = log_files(world)[2 if clean else 0]
    world.files.remove(gone)
    world.files.sync_all()
    world.reopen()
    assert "missing" in str(world.log.quarantined)


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_retention_gives_no_false_alarm_wherever_it_is_interrupted(delay_ms):
    for nth in range(1, 60):
        met = False
        for seed in range(3):
            world = World(seed=seed, retention_ms=1000, file_delete_delay_ms=delay_ms)
            world.fill(30)
            world.checkpoint()
            world.files.fail(nth, sticky=True)
            try:
                world.log.delete_old_segments(START_MS + 5000)
                world.directory.remove_deleted_files(START_MS + 5000)
                world.directory.remove_deleted_files(START_MS + 10**6)
            except Exception:  # noqa: BLE001 - the power fails here
                pass
            met = world.files.has_failed
            world.crash()
            assert world.log.quarantined is None
            world.crash()
            assert world.log.quarantined is None, "what the start has completed gives no alarm"
        if not met:
            break


def test_retention_on_a_full_disk_gives_no_false_alarm():
    world = World(retention_ms=1000)
    world.fill(30)
    world.checkpoint()
    assert world.log.delete_old_segments(START_MS + 5000) > 0
    world.files.fail(1, 28, sticky=True, only="append")
    world.directory.remove_deleted_files(START_MS + 5000)
    assert not any(path.endswith(".deleted") for path in world.files.paths(PATH))
    world.files.heal()
    world.crash()
    assert world.log.quarantined is None
    first = world.log.start_offset
    world.fill(30)
    world.checkpoint()
    world.files.remove(log_files(world)[0])
    world.files.sync_all()
    world.crash()
    assert f"offsets {first} to" in str(world.log.quarantined), "the start has stored it"


def test_a_directory_of_an_older_version_opens_and_is_watched_from_then_on():
    world = World()
    world.fill(30)
    world.log.delete_before(15)
    world.log.delete_old_segments(START_MS)
    world.directory.remove_deleted_files(START_MS + 10**6)
    stopped(world, clean=False)
    world.files.remove(f"{world.folder}/log-start-offset")
    world.files.sync_all()
    world.reopen()
    assert world.log.quarantined is None
    world.files.remove(log_files(world)[0])
    world.files.sync_all()
    world.crash()
    assert "missing" in str(world.log.quarantined)


def test_a_clock_that_is_set_back_deletes_nothing_and_reports_no_damage():
    world = World(retention_ms=10**6, file_delete_delay_ms=60_000)
    world.fill(20)
    assert world.log.delete_old_segments(START_MS + 2 * 10**6) > 0
    world.fill(20, timestamp=START_MS + 2 * 10**6)
    left = len(log_files(world))
    world.now_ms = START_MS - 10**9
    assert world.log.delete_old_segments(world.now_ms) == 0
    world.directory.remove_deleted_files(world.now_ms)
    world.log.roll_if_due(world.now_ms)
    world.fill(5, timestamp=world.now_ms)
    world.crash()
    assert world.log.quarantined is None
    assert len(log_files(world)) >= left
    assert len(batch_headers(world.log)) >= 20


@pytest.mark.parametrize("back_ms", [0, 10**7])
@pytest.mark.parametrize("is_full", [False, True])
def test_files_that_are_removed_out_of_order_give_no_false_alarm(back_ms, is_full):
    world = World(file_delete_delay_ms=60_000)
    world.fill(30)
    world.log.delete_before(8)
    world.log.delete_old_segments(world.now_ms)
    world.settings = replace(world.settings, file_delete_delay_ms=0)
    world.log.change_settings(world.settings)
    world.log.delete_before(20)
    world.log.delete_old_segments(world.now_ms - back_ms)
    if is_full:  # the stored start is removed
        world.files.fail(1, 28, sticky=True, only="append")
    world.directory.remove_deleted_files(world.now_ms)
    world.files.heal()
    world.directory.remove_deleted_files(world.now_ms + 10**6)
    assert read_start(world.files, world.folder) == int(log_files(world)[0][-24:-4])
    world.crash()
    assert world.log.quarantined is None


@pytest.mark.parametrize("clean", STOPS)
def test_an_older_version_that_has_deleted_segments_gives_no_false_alarm(clean):
    """It updates the checkpoint but not `log-start-offset`, and lists no files at its stop."""
    world = World()
    world.fill(30)
    world.checkpoint()
    stale = world.files.peek(f"{world.folder}/log-start-offset")
    world.log.delete_before(20)
    world.log.delete_old_segments(START_MS)
    world.directory.remove_deleted_files(START_MS + 10**6)
    stopped(world, clean=clean)
    world.files.poke(f"{world.folder}/log-start-offset", stale)
    if clean:
        world.files.poke(f"{PATH}/clean-stop", encode_lines([]))
    world.files.sync_all()
    world.reopen()
    assert world.log.quarantined is None
    assert world.files.peek(f"{world.folder}/log-start-offset") != stale
    world.files.remove(log_files(world)[0])
    world.files.sync_all()
    world.crash()
    assert "missing" in str(world.log.quarantined)
