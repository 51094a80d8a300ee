"""Checking and repairing a data directory: nothing whole is lost, even if a repair is interrupted."""

import contextlib
import errno
import itertools
from dataclasses import replace
from typing import Any

import pytest

from strom.model.errors import DirectoryOffline, UserError
from strom.model.topics import TopicPartition
from strom.storage.directory_check import INCOMPLETE, open_for_check
from strom.storage.files import Space
from strom.testing.memory_files import MemoryFiles
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import ControlType, Marker, Record, build_marker, read_marker
from tests.storage.world import (
    PARTITION,
    PATH,
    START_MS,
    STATE_PARTITION,
    World,
    batch,
    read_all,
    read_around,
)


def verify(world: World):
    with open_for_check(world.files, PATH, repair=False) as directory:
        return list(directory.partitions(lambda _: None))


def findings(world: World) -> list[tuple[str, int, int]]:
    return [
        (each.kind, each.first_offset, each.next_offset)
        for check in verify(world)
        for each in check.findings
    ]


def repair(world: World):
    with open_for_check(world.files, PATH, repair=True) as directory:
        damaged = [one for one in directory.partitions(lambda _: None) if one.findings]
        return list(directory.salvage(damaged, "then"))


def logs(world: World) -> list[str]:
    return [path for path in world.files.paths(world.folder) if path.endswith(".log")]


def stopped(world: World, *, clean: bool = True) -> World:
    world.checkpoint()
    if clean:
        world.stop()
    world.files.sync_all()
    world.files.crash()
    return world


def flip(world: World, path: str, nth: int, byte: int = 65) -> None:
    data = bytearray(world.files.peek(path))
    data[[at for at, _ in headers(data)][nth] + byte] ^= 1
    world.files.poke(path, data)


def remove(world: World, path: str) -> None:
    world.files.remove(path)
    world.files.sync_all()


def contents(files: MemoryFiles, folder: str) -> dict[str, bytes]:
    return {path.rpartition("/")[2]: files.peek(path) for path in files.paths(folder)}


@pytest.mark.parametrize("clean", [True, False])
def test_a_whole_directory_has_no_findings_and_is_not_changed(clean):
    world = World(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    world.fill(30)
    assert world.compact()
    world.fill(10)
    stopped(world, clean=clean)
    before = {path: world.files.peek(path) for path in world.files.paths(PATH)}
    (check,) = verify(world)
    assert check.findings == []
    assert check.batches > 10
    assert {path: world.files.peek(path) for path in world.files.paths(PATH)} == before


def test_a_torn_write_is_no_damage():
    world = World()
    world.fill(10)
    world.checkpoint()
    world.files.sync_all()
    world.files.crash()
    file = world.files.open(logs(world)[-1])
    file.append(b"torn")
    world.files.sync_all()
    (check,) = verify(world)
    assert check.findings == []
    assert check.torn_bytes == 4


def test_a_directory_in_use_is_only_read_up_to_its_recovery_points():
    world = World()
    world.fill(30)
    world.checkpoint()
    world.append(batch(b"not flushed"))
    with open_for_check(world.files, PATH, repair=False) as directory:
        assert directory.holder is not None
        (check,) = directory.partitions(lambda _: None)
        assert check.findings == []
        assert check.batches >= 30
    flip(world, logs(world)[1], 0)
    assert findings(world) == [("damaged", 5, 6)]
    with pytest.raises(UserError, match="in use by"):
        repair(world)


def test_a_folder_without_an_identity_is_refused():
    world = World()
    stopped(world)
    world.files.remove(f"{PATH}/strom.json")
    with pytest.raises(UserError, match="is not a data directory"):
        verify(world)


def damage_batches(world):
    flip(world, logs(world)[0], 1)
    flip(world, logs(world)[2], 0, byte=10)
    flip(world, logs(world)[-1], -1)


def lose_the_first(world):
    remove(world, logs(world)[0])


def lose_one_within(world):
    remove(world, logs(world)[2])


def lose_the_last(world):
    remove(world, logs(world)[-1])


def lose_all(world):
    for path in logs(world):
        remove(world, path)


def lose_the_identity(world):
    world.files.poke(f"{world.folder}/partition.metadata", b"noise")


DAMAGES = [damage_batches, lose_the_first, lose_one_within, lose_the_last, lose_all]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [*DAMAGES, lose_the_identity])
@pytest.mark.parametrize("partition", [None, STATE_PARTITION])
def test_a_repair_keeps_all_that_is_whole_and_a_copy(clean, damage, partition):
    world = World(**({"partition": partition} if partition else {}))
    world.fill(28)
    values = {record.offset: record.value for record in read_all(world.log)}
    stopped(world, clean=clean)
    damage(world)
    files = contents(world.files, world.folder)
    lost = {
        offset
        for kind, first, end in findings(world)
        if kind != "identity"
        for offset in range(first, end)
    }
    assert findings(world)
    (salvaged,) = repair(world)
    assert contents(world.files, salvaged.copy) == files
    assert findings(world) == []
    world.files.crash()
    world.reopen()
    assert world.log.quarantined is None
    found = {record.offset: record.value for record in read_all(world.log)}
    assert found == {at: value for at, value in values.items() if at not in lost}
    assert world.append(batch(b"next")).base_offset == 28, "no offset is assigned twice"
    world.flush()
    world.crash()
    assert world.log.quarantined is None
    assert read_all(world.log)[-1].value == b"next"
    world.restart()
    assert world.log.quarantined is None
    assert read_all(world.log)[-1].value == b"next"


def copies(world: World) -> list[str]:
    return [path for path in world.files.paths(PATH) if path.startswith(f"{PATH}/damaged/")]


def test_the_incomplete_copy_of_a_killed_repair_is_removed_by_the_next_one():
    world = World()
    world.fill(28)
    stopped(world)
    damage_batches(world)
    world.files.fail(8, errno.EIO, sticky=True, only="append")
    with pytest.raises(OSError, match="injected"):
        repair(world)
    world.files.crash()
    assert copies(world)
    assert all(INCOMPLETE in path for path in copies(world))
    repair(world)
    assert copies(world)
    assert not any(INCOMPLETE in path for path in copies(world))


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("damage", DAMAGES)
def test_an_interrupted_repair_loses_nothing_and_can_be_repeated(damage, error, every):
    for nth in itertools.count(1, every):
        world = World(seed=nth)
        world.fill(28)
        values = {record.offset: record.value for record in read_all(world.log)}
        stopped(world)
        damage(world)
        lost = {at for _, first, end in findings(world) for at in range(first, end)}
        world.files.fail(nth, error, sticky=True)
        with contextlib.suppress(OSError, UserError):
            repair(world)
        met = world.files.has_failed
        world.files.crash()
        whole = [path for path in copies(world) if INCOMPLETE not in path]
        before = {path: world.files.peek(path) for path in whole}
        repair(world)
        assert {path: world.files.peek(path) for path in whole} == before
        assert not [path for path in copies(world) if INCOMPLETE in path]
        assert findings(world) == []
        world.files.crash()
        world.reopen()
        assert world.log.quarantined is None
        found = {record.offset: record.value for record in read_all(world.log)}
        assert found == {at: value for at, value in values.items() if at not in lost}
        if not met:
            break
    assert nth > 20


def test_without_room_for_the_copy_nothing_is_changed(monkeypatch):
    world = World()
    world.fill(28)
    stopped(world)
    damage_batches(world)
    before = {path: world.files.peek(path) for path in world.files.paths(PATH)}
    monkeypatch.setattr(world.files, "space", lambda _: Space(10**9, 5000))
    with pytest.raises(UserError, match=r"needs \d+ bytes .* 5000 are free. Nothing was changed"):
        repair(world)
    assert {path: world.files.peek(path) for path in world.files.paths(PATH)} == before


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_copy_that_finds_no_room_is_removed_again_and_nothing_is_changed(error):
    world = World()
    world.fill(28)
    stopped(world)
    damage_batches(world)
    after = before = {path: world.files.peek(path) for path in world.files.paths(PATH)}
    for nth in itertools.count(1):
        world.files.fail(nth, error, only="append")
        with pytest.raises((UserError, OSError)) as failed:
            repair(world)
        assert world.files.has_failed
        after = {path: world.files.peek(path) for path in world.files.paths(PATH)}
        if after != before:
            break
        assert isinstance(failed.value, UserError) is (error == errno.ENOSPC)
        if error == errno.ENOSPC:
            assert "Nothing was changed. Free space" in str(failed.value)
    assert nth > 20, "each of its files was copied"
    assert any(path.startswith(f"{PATH}/damaged/") for path in after), "the copy is complete"


def test_the_room_for_small_files_is_counted_in_blocks(monkeypatch):
    world = World()
    world.fill(28)
    stopped(world)
    damage_batches(world)
    blocks = 4096 * len([path for path in world.files.paths(PATH) if world.files.peek(path)])
    monkeypatch.setattr(world.files, "space", lambda _: Space(10**9, 2**20 + blocks // 2))
    with pytest.raises(UserError, match="Nothing was changed"):
        repair(world)


def transactions(world: World, *kinds: ControlType | None) -> None:
    """A transaction of one record for each kind, and its marker if it has ended."""
    ids: Any = {"producer_id": 7, "producer_epoch": 0}
    for at, kind in enumerate(kinds):
        world.append(batch(b"%d" % at, base_sequence=at, transactional=True, **ids))
        if kind is not None:
            marker = build_marker(Marker(kind, 0), timestamp=START_MS, **ids)
            world.append(marker, from_client=False)
    world.flush()


def committed(world: World) -> set[bytes | None]:
    """The values of committed records."""
    chunk = world.log.reader.read(world.log.start_offset, 10**5, committed_only=True)
    stable = world.log.last_stable_offset
    return {
        record.value
        for record in read_around(world.log)
        if record.offset < stable
        and len(record.value or b"") == 1
        and not any(
            each.first_offset <= record.offset <= each.last_offset for each in chunk.aborted
        )
    }


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("first", [ControlType.ABORT, ControlType.COMMIT])
def test_the_outcome_of_a_transaction_whose_marker_is_damaged_never_becomes_a_commit(clean, first):
    world = World(segment_bytes=100_000)
    transactions(world, first, ControlType.COMMIT)
    stopped(world, clean=clean)
    flip(world, logs(world)[0], 1)
    (salvaged,) = repair(world)
    world.reopen()
    assert world.log.quarantined is None
    if clean:
        assert salvaged.aborted == [], "what was saved at the stop tells"
        assert committed(world) == ({b"0", b"1"} if first is ControlType.COMMIT else {b"1"})
    else:
        assert salvaged.aborted == [0]
        assert committed(world) == {b"1"}


@pytest.mark.parametrize("clean", [True, False])
def test_a_transaction_that_is_open_at_the_end_can_be_ended_after_a_repair(clean):
    world = World(segment_bytes=100_000)
    transactions(world, None, None, None)
    stopped(world, clean=clean)
    flip(world, logs(world)[0], 1)
    repair(world)
    world.reopen()
    assert world.log.quarantined is None
    assert world.log.has_open_transactions
    ids: Any = {"producer_id": 7, "producer_epoch": 0}
    end = build_marker(Marker(ControlType.COMMIT, 0), timestamp=START_MS, **ids)
    world.append(end, from_client=False)
    world.flush()
    assert committed(world) == ({b"0", b"2"} if clean else {b"2"})


def aborted_in_two_batches(world: World) -> None:
    ids: Any = {"producer_id": 7, "producer_epoch": 0}
    world.append(batch(b"0", base_sequence=0, transactional=True, **ids))
    world.append(batch(b"1", base_sequence=1, transactional=True, **ids))
    abort = build_marker(Marker(ControlType.ABORT, 0), timestamp=START_MS, **ids)
    world.append(abort, from_client=False)
    world.append(batch(b"2", base_sequence=2, transactional=True, **ids))
    commit = build_marker(Marker(ControlType.COMMIT, 0), timestamp=START_MS, **ids)
    world.append(commit, from_client=False)
    world.flush()


@pytest.mark.parametrize("segments", [1, 2, 5])
@pytest.mark.parametrize("loses_first", [True, False])
def test_an_aborted_transaction_stays_aborted_if_batches_of_it_are_damaged(segments, loses_first):
    world = World(segment_bytes=100_000)
    aborted_in_two_batches(world)
    for _ in range(segments - 1):  # the snapshot at the end of the first one is removed at last
        world.settings = replace(world.settings, segment_bytes=130)
        world.log.change_settings(world.settings)
        world.fill(1)
    stopped(world)
    assert len(logs(world)) == segments
    if loses_first:
        flip(world, logs(world)[0], 0)
    flip(world, logs(world)[0], 2)
    repair(world)
    world.reopen()
    assert world.log.quarantined is None
    assert committed(world) == {b"2"}
    position, header = list(headers(data := world.files.peek(logs(world)[0])))[-3]
    assert read_marker(data, position, header).type is ControlType.ABORT


@pytest.mark.parametrize("lost", [".txnindex", ".snapshot"])
def test_an_outcome_that_was_not_saved_as_a_whole_is_an_abort(lost):
    world = World(segment_bytes=100_000)
    aborted_in_two_batches(world)
    stopped(world)
    for path in world.files.paths(world.folder):
        if path.endswith(lost):
            world.files.poke(path, b"noise")
    flip(world, logs(world)[0], 2)
    flip(world, logs(world)[0], 4)
    repair(world)
    world.reopen()
    assert world.log.quarantined is None
    assert committed(world) == set()


def test_the_outcome_that_recovery_has_read_from_the_log_is_saved():
    world = World(segment_bytes=100_000)
    aborted_in_two_batches(world)
    world.checkpoint()
    world.crash()
    stopped(world, clean=False)
    flip(world, logs(world)[0], 2)
    (salvaged,) = repair(world)
    assert salvaged.aborted == []
    world.reopen()
    assert committed(world) == {b"2"}


def test_a_transaction_that_is_open_and_began_in_damage_is_not_committed():
    world = World(segment_bytes=100_000)
    transactions(world, None, None, None, None)
    stopped(world)
    flip(world, logs(world)[0], 0)
    flip(world, logs(world)[0], 2)
    repair(world)
    world.reopen()
    assert world.log.has_open_transactions
    assert committed(world) == set()


def test_a_partition_that_cannot_be_repaired_keeps_no_other_from_it():
    world = World(segment_bytes=100_000)
    for producer in (1, 2):
        ids: Any = {"producer_id": producer, "producer_epoch": 0}
        world.append(batch(b"open", base_sequence=0, transactional=True, **ids))
    world.fill(2)
    stopped(world, clean=False)
    flip(world, logs(world)[0], 2)  # one of both may have ended there, and it is not known which
    other = World(files=world.files, partition=TopicPartition("other", 0))
    other.fill(2)
    stopped(other)
    flip(other, logs(other)[0], 0)
    with open_for_check(world.files, PATH, repair=True) as directory:
        damaged = [one for one in directory.partitions(lambda _: None) if one.findings]
        assert [one.name for one in damaged] == ["clicks-0", "other-0"]
        assert [one.name for one in directory.salvage(damaged, "then")] == ["other-0"]
        problem = directory.problems[-1]
    assert problem.startswith("clicks-0 was not repaired: ")
    assert problem.endswith("Restore it from a backup")


def compacted(partition: TopicPartition) -> World:
    world = World(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, partition=partition)
    for at in range(40):
        world.append(batch(b"x" * 90, key=b"%d" % at))
    world.flush()
    assert world.compact()
    return stopped(world)


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("again", [World.restart, World.crash, World.kill])
@pytest.mark.parametrize("partition", [PARTITION, STATE_PARTITION])
def test_a_missing_file_of_a_compacted_log_is_reported_until_it_is_restored(
    partition, again, is_full
):
    world = compacted(partition)
    path = logs(world)[2]
    data = world.files.peek(path)
    remove(world, path)
    (found,) = findings(world)
    assert found[0] == "missing"
    if is_full:
        world.files.fail(1, errno.ENOSPC, only="append", sticky=True)
    world.reopen()
    world.files.heal()
    for _ in range(3):
        assert path in str(world.log.quarantined)
        assert findings(world) == [found]
        again(world)
    world.files.open(path, create=True).close()
    world.files.poke(path, data)
    world.files.sync_all()
    world.crash()
    assert world.log.quarantined is None
    world.restart()
    assert world.log.quarantined is None
    stopped(world)
    assert findings(world) == []


def test_a_start_that_is_interrupted_does_not_forget_that_a_file_is_missing():
    for nth in itertools.count(1):
        world = compacted(PARTITION)
        path = logs(world)[2]
        remove(world, path)
        world.files.fail(nth, errno.EIO, sticky=True)
        with contextlib.suppress(UserError, DirectoryOffline):
            world.reopen()
        met = world.files.has_failed
        world.crash()
        assert path in str(world.log.quarantined)
        if not met:
            break


@pytest.mark.parametrize("starts", [0, 1])
def test_a_missing_file_of_a_compacted_log_is_accepted_by_a_repair(starts):
    world = compacted(PARTITION)
    values = {record.offset for record in read_all_of(world)}
    remove(world, logs(world)[2])
    for _ in range(starts):
        world.reopen()
        world.files.crash()
    ((_, first, end),) = findings(world)
    repair(world)
    assert findings(world) == []
    world.reopen()
    assert world.log.quarantined is None
    assert {record.offset for record in read_all(world.log)} == values - set(range(first, end))
    world.restart()
    assert world.log.quarantined is None


def read_all_of(world: World) -> list[Record]:
    world.reopen()
    found = read_all(world.log)
    stopped(world)
    return found
