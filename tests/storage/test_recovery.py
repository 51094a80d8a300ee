"""Truncation at every byte, and flips of bits: what recovery makes of it.

Beyond the recovery point the log ends at the last whole batch. Below it nothing is cut: a damaged batch
cannot be read, and the others are served; where the outcome of a transaction cannot be told, and in
topics with the broker's state, the partition is quarantined. In no case are wrong bytes served.
"""

import contextlib
import itertools
from typing import Any

import pytest

from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.model.steps import run_at_once
from strom.wire.kafka.records import ControlType, Marker, build_marker
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

EVERY = [23, pytest.param(1, marks=pytest.mark.soak)]
"""Which bits are flipped; in the default run a prime number, so that all kinds of field are met."""


def is_quarantined(world: World) -> bool:
    return world.log.quarantined is not None


def mixed_world(**changes) -> World:
    """Several segments with plain, compressed, idempotent, aborted and committed batches."""
    world = World(**changes)
    for at in range(4):
        world.append(batch(b"plain %d" % at, timestamp=START_MS + at))
        world.append(batch(b"packed" * 20, b"more" * 9, codec=at + 1, timestamp=START_MS + at))
        ids: dict[str, Any] = {"producer_id": at, "producer_epoch": 0}
        world.append(batch(b"once", base_sequence=0, transactional=True, **ids))
        kind = ControlType.COMMIT if at % 2 else ControlType.ABORT
        world.append(build_marker(Marker(kind, 0), timestamp=START_MS, **ids), from_client=False)
    world.flush()
    return world


def contents(world: World) -> dict[str, bytes]:
    return {path: world.files.peek(path) for path in world.files.paths(PATH)}


def restored(files: dict[str, bytes], world: World) -> World:
    """Put all files back, as after a crash."""
    for path in list(world.files.paths(world.folder)):
        if path not in files:
            world.files.remove(path)
    for path, data in files.items():
        if not world.files.exists(path):
            world.files.open(path, create=True).close()
        world.files.poke(path, data)
    world.files.sync_all()
    world.files.crash()
    return world


def log_files(world: World) -> list[str]:
    return [path for path in world.files.paths(world.folder) if path.endswith(".log")]


def last_log_file(world: World) -> str:
    return log_files(world)[-1]


def test_truncation_of_the_last_segment_leaves_exactly_the_whole_batches():
    world = mixed_world()
    path, before = last_log_file(world), batch_headers(world.log)
    base = int(path.rpartition("/")[2][:20])
    last = [header for header in before if header.base_offset >= base]
    ends = [0]
    for header in last:
        ends.append(ends[-1] + header.size_bytes)
    files = contents(world)
    for size in range(ends[-1]):
        restored({**files, path: files[path][:size]}, world).reopen()
        assert world.log.quarantined is None
        whole = sum(1 for end in ends[1:] if end <= size)
        assert batch_headers(world.log) == before[: len(before) - len(last) + whole]
        assert world.files.size(path) == ends[whole]


def test_a_cut_log_goes_on_after_the_cut():
    world = mixed_world()
    path, files = last_log_file(world), contents(world)
    restored({**files, path: files[path][:-1]}, world).reopen()
    end = world.log.end_offset
    assert world.append(batch(b"next")).base_offset == end
    world.flush()
    world.crash()
    assert read_all(world.log)[-1].value == b"next"
    assert world.log.end_offset == end + 1


def test_segments_behind_a_cut_go_but_not_below_the_recovery_point():
    world = mixed_world()
    files = contents(world)
    first = next(path for path in world.files.paths(world.folder) if path.endswith(".log"))
    restored({**files, first: files[first][:-5]}, world).reopen()
    assert world.log.quarantined is None
    assert last_log_file(world) == first
    restored(files, world).reopen()
    world = mixed_world(partition=STATE_PARTITION)
    first = log_files(world)[0]
    world.checkpoint()
    files = contents(world)
    damaged = {**files, first: files[first][:-5]}
    restored(damaged, world).reopen()
    assert "00000000000000000000.log" in str(world.log.quarantined)
    assert {path: data for path, data in contents(world).items() if world.folder in path} == {
        path: data for path, data in damaged.items() if world.folder in path
    }


@pytest.mark.parametrize("cut", [1, 61, 400])
def test_state_shorter_than_its_recovery_point_is_quarantined_untouched(cut):
    world = mixed_world(partition=STATE_PARTITION)
    world.checkpoint()
    path, files = last_log_file(world), contents(world)
    restored({**files, path: files[path][:-cut]}, world).reopen()
    assert world.log.quarantined is not None
    assert world.files.peek(path) == files[path][:-cut]
    for call in (
        lambda: world.append(batch(b"x")),
        lambda: world.log.reader.read(0, 100),
        lambda: world.log.begin_flush(),
        lambda: run_at_once(world.log.reader.find_timestamp(0)),
        lambda: world.log.delete_before(0),
        lambda: world.log.delete_old_segments(0),
        lambda: world.log.plan_compaction(0),
    ):
        with pytest.raises(ApiError) as caught:
            call()
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_missing_segment_below_the_recovery_point_is_noticed():
    world = World()
    world.fill(60)
    world.checkpoint()
    logs = [path for path in world.files.paths(world.folder) if path.endswith(".log")]
    for gone in (logs[2], logs[-1]):
        files = contents(world)
        restored({path: data for path, data in files.items() if path != gone}, world).reopen()
        assert world.log.quarantined is not None
        restored(files, world).reopen()
        assert world.log.quarantined is None


def test_truncation_of_every_other_file_loses_nothing():
    world = mixed_world()
    world.checkpoint()
    expected, aborted = (
        read_all(world.log),
        world.log.reader.read(0, 10**4, committed_only=True).aborted,
    )
    world.stop()
    files = contents(world)
    beside = [
        path for path in files if "clicks" in path and not path.endswith((".log", "metadata"))
    ]
    assert {path.rpartition(".")[2] for path in beside} >= {
        "index",
        "timeindex",
        "txnindex",
        "snapshot",
    }
    for path in [*beside, f"{PATH}/checkpoint", f"{PATH}/clean-stop"]:
        for size in range(0, len(files[path]), 3):
            restored({**files, path: files[path][:size]}, world).reopen()
            assert world.log.quarantined is None, path
            assert read_all(world.log) == expected
            assert world.log.reader.read(0, 10**4, committed_only=True).aborted == aborted
            assert run_at_once(world.log.reader.find_timestamp(START_MS + 3)).offset == 15
            assert world.append(
                batch(b"once", base_sequence=0, transactional=True, producer_id=3, producer_epoch=0)
            ).duplicate
            world.directory.close([], clean=False)


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("checkpointed", [True, False])
def test_a_flipped_bit_is_never_served(clean, checkpointed, every):
    world = mixed_world()
    expected = [record._asdict() for record in read_all(world.log)]
    headers = batch_headers(world.log)
    if checkpointed:
        world.checkpoint()
    if clean:
        world.stop()
    files = contents(world)
    for path in [path for path in files if "clicks" in path]:
        for bit in range(0, len(files[path]) * 8, every):
            damaged = bytearray(files[path])
            damaged[bit // 8] ^= 1 << bit % 8
            restored({**files, path: bytes(damaged)}, world).reopen()
            check_after_a_flip(world, expected, headers, below=checkpointed or clean)
            if not (path.endswith((".log", "metadata"))):
                assert world.log.quarantined is None, path
            world.directory.close([], clean=False)


def check_after_a_flip(world, expected, headers, *, below):
    """Everything served is right, and without a quarantine only one batch of what was safe is not."""
    try:
        found = [record._asdict() for record in read_around(world.log)]
        run_at_once(world.log.reader.find_timestamp(START_MS + 2))
        world.log.delete_old_segments(world.now_ms)
    except ApiError:
        assert world.log.quarantined is not None
        return
    if world.log.quarantined is not None:
        return
    assert world.log.start_offset == 0
    offsets = {each["offset"] for each in found}
    lost = [header for header in headers if header.base_offset not in offsets]
    assert found == [each for each in expected if each["offset"] in offsets]
    if below:
        assert len(lost) <= 1
        assert world.log.end_offset == headers[-1].next_offset
    else:
        assert lost == headers[len(headers) - len(lost) :]


def test_hardly_a_flipped_bit_takes_the_partition_offline():
    """Only if the outcome of a transaction cannot be told; see `test_damage.py`."""
    world = World()
    for at in range(12):
        world.append(batch(b"packed" * 20, b"more" * 9, codec=at % 5))
    world.flush()
    world.checkpoint()
    files = contents(world)
    for path in log_files(world):
        for bit in range(0, len(files[path]) * 8, 13):
            damaged = bytearray(files[path])
            damaged[bit // 8] ^= 1 << bit % 8
            restored({**files, path: bytes(damaged)}, world).reopen()
            assert world.log.quarantined is None
            assert len(read_around(world.log)) >= 22
            world.directory.close([], clean=False)


def test_damage_of_state_that_is_found_while_reading_quarantines_only_then():
    world = mixed_world(partition=STATE_PARTITION)
    world.checkpoint()
    world.stop()
    files = contents(world)
    first = next(path for path in files if path.endswith(".log"))
    damaged = bytearray(files[first])
    damaged[100] ^= 1
    restored({**files, first: bytes(damaged)}, world).reopen()
    assert not is_quarantined(world)
    end = world.log.end_offset
    assert world.log.reader.read(end - 1, 1000).data
    with pytest.raises(ApiError):
        world.log.reader.read(0, 1000)
    assert is_quarantined(world)
    world.restart()
    assert world.files.peek(first) == bytes(damaged)


def test_a_snapshot_of_what_the_crash_took_is_not_believed_later():
    once = batch(b"once", producer_id=7, producer_epoch=0, base_sequence=0)
    taken = 0
    for nth, seed, more in itertools.product(range(6, 14), range(8), range(1, 9)):
        world = World(seed=seed)
        world.fill(2)
        world.append(bytearray(once))
        for _ in range(6):
            world.append(batch(b"x" * 150))
        flush = world.log.begin_flush()
        world.files.fail(nth, only="datasync")
        with contextlib.suppress(DirectoryOffline):
            flush.sync()
        world.crash()
        is_there = any(record.value == b"once" for record in read_all(world.log))
        for _ in range(more):
            world.append(batch(b"y"))
        world.flush()
        world.crash()
        assert world.append(bytearray(once)).duplicate == is_there
        taken += not is_there
    assert taken > 10


def test_after_a_clean_stop_closed_segments_are_not_read():
    world = World(segment_bytes=100_000)
    world.fill(2000, size=100)
    world.stop()
    world.files.crash()
    before = world.files.calls["pread"]
    world.reopen()
    assert world.log.end_offset == 2000
    assert world.files.calls["pread"] - before < 15
