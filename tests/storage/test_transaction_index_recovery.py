"""A lost transaction index is rebuilt: aborted records never become committed ones."""

import contextlib
import itertools
import random
from typing import Any

import pytest

from strom.model.errors import ApiError, DirectoryOffline, ErrorCode, UserError
from strom.storage.directory_check import open_for_check
from strom.storage.partition_metadata import FILE_NAME, decode_metadata, encode_metadata
from strom.wire.kafka.batch import headers
from strom.wire.kafka.records import ControlType, Marker, build_marker, read_records
from tests.storage.world import PATH, START_MS, World, batch

STOPS = ["clean", "kill", "crash"]
ALL_INDEXES = (".txnindex", ".index", ".timeindex")


def transact(world: World, first: int, count: int) -> None:
    """Interleaved transactions of three producers; every second one is aborted."""
    for number in range(first, first + count):
        ids: Any = {"producer_id": number % 3, "producer_epoch": 0}
        kind = ControlType.ABORT if number % 2 else ControlType.COMMIT
        for at in range(2):
            value = b"%s %d" % (kind.name.encode(), number)
            sequence = 2 * (number // 3) + at
            key = b"%d %d" % (number, at)
            world.append(batch(value, key=key, base_sequence=sequence, transactional=True, **ids))
            world.append(batch(b"COMMIT plain", key=b"p%d %d" % (number, at)))
        world.append(build_marker(Marker(kind, 0), timestamp=START_MS, **ids), from_client=False)
    world.flush()


def filled(**changes: Any) -> World:
    world = World(segment_bytes=700, **changes)
    transact(world, 0, 12)
    assert len(paths(world, ".log")) > 6
    return world


def paths(world: World, suffix: str) -> list[str]:
    return [path for path in world.files.paths(world.folder) if path.endswith(suffix)]


def stop(world: World, how: str) -> None:
    world.checkpoint()
    if how == "clean":
        world.stop()
        world.files.sync_all()
    if how == "kill":
        world.files.kill()
    else:
        world.files.crash()
    world.epoch += 1


def remove(world: World, *names: str) -> None:
    for path in names:
        world.files.remove(path)
    world.files.sync_all()


def committed(world: World, max_bytes: int = 10_000) -> list[bytes | None]:
    """What a consumer of committed records sees, which filters as Kafka's does."""
    values: list[bytes | None] = []
    offset = world.log.start_offset
    while offset < world.log.last_stable_offset:
        try:
            chunk = world.log.reader.read(offset, max_bytes, committed_only=True)
        except ApiError as error:
            if error.code is not ErrorCode.CORRUPT_MESSAGE:
                raise
            offset += 1  # as a consumer that skips what is damaged
            continue
        if not chunk.data:
            break  # what followed is missing
        waiting = sorted(chunk.aborted, key=lambda one: one.first_offset)
        skipped: set[int] = set()
        for position, header in headers(chunk.data):
            while waiting and waiting[0].first_offset <= header.last_offset:
                skipped.add(waiting.pop(0).producer_id)
            if header.is_control:
                skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                values += [each.value for each in read_records(chunk.data, position, header)]
            offset = header.next_offset
    return values


def repair(world: World) -> None:
    with open_for_check(world.files, PATH, repair=True) as directory:
        damaged = [one for one in directory.partitions(lambda _: None) if one.findings]
        list(directory.salvage(damaged, "then"))


def findings(world: World) -> list[tuple[str, str]]:
    with open_for_check(world.files, PATH, repair=False) as directory:
        return [
            (one.kind, one.path)
            for check in directory.partitions(lambda _: None)
            for one in check.findings
        ]


@pytest.mark.parametrize("suffixes", [(".txnindex",), ALL_INDEXES])
@pytest.mark.parametrize("how", STOPS)
def test_a_lost_transaction_index_is_rebuilt_and_saved(how, suffixes, caplog):
    world = filled()
    expected = committed(world)
    assert not any(value and value.startswith(b"ABORT") for value in expected)
    for nth in range(len(paths(world, ".log"))):
        stop(world, how)
        saved = {path: world.files.peek(path) for path in paths(world, ".txnindex")}
        stem = paths(world, ".log")[nth].removesuffix(".log")
        lost = [stem + suffix for suffix in suffixes if world.files.exists(stem + suffix)]
        caplog.clear()
        remove(world, *lost)
        if stem + ".txnindex" in lost and (how == "clean" or nth < len(saved) - 1):
            assert ("index", stem + ".txnindex") in findings(world)
        world.reopen()
        assert world.log.quarantined is None
        for max_bytes in (300, 10_000):
            assert committed(world, max_bytes) == expected
        stop(world, "crash")
        assert findings(world) == []
        for path in lost:
            if path.endswith(".txnindex") and "clean" in how:
                assert world.files.peek(path) == saved[path]
                assert stem in caplog.text
        world.reopen()


@pytest.mark.parametrize("how", STOPS)
def test_all_lost_indexes_are_rebuilt(how):
    world = filled()
    expected = committed(world)
    stop(world, how)
    remove(world, *[path for suffix in ALL_INDEXES for path in paths(world, suffix)])
    world.reopen()
    assert committed(world) == expected


@pytest.mark.parametrize("is_damaged", [True, False])
def test_an_index_that_is_lost_while_the_log_is_open_is_rebuilt(is_damaged, caplog):
    world = filled()
    expected = committed(world)
    stop(world, "clean")
    world.reopen()
    for path in paths(world, ".txnindex"):
        if is_damaged:
            world.files.poke(path, b"")
        else:
            world.files.remove(path)
    assert committed(world) == expected
    assert "rebuilding it from the log" in caplog.text
    for segment in world.log._segments:
        segment.unload()
    caplog.clear()
    assert committed(world) == expected
    assert "rebuilding" not in caplog.text, "what is not on disk is kept in memory"


def test_an_outcome_that_only_the_lost_index_has_takes_the_partition_offline():
    world = World(segment_bytes=100_000)
    transact(world, 1, 1)
    (path,) = paths(world, ".log")
    stop(world, "clean")
    data = bytearray(world.files.peek(path))
    data[[at for at, _ in headers(data)][-1] + 65] ^= 1
    world.files.poke(path, data)
    remove(world, *paths(world, ".txnindex"))
    world.reopen()
    assert "committed or aborted is unknown" in str(world.log.quarantined)


@pytest.mark.parametrize("is_damaged", [True, False])
def test_the_end_of_a_file_that_is_lost_with_its_index_commits_nothing(is_damaged):
    world = filled()
    expected = committed(world)
    stop(world, "clean")
    *closed, _ = paths(world, ".log")
    for path in closed:
        for position, _ in list(headers(world.files.peek(path))):
            world = filled()
            stop(world, "clean")
            world.files.poke(path, world.files.peek(path)[:position])
            index = path.replace(".log", ".txnindex")
            if is_damaged:
                world.files.poke(index, b"noise")
            else:
                remove(world, index)
            world.reopen()
            values: list[bytes | None] = []
            with contextlib.suppress(ApiError):
                values = committed(world)
            assert world.log.quarantined or not set(values) - set(expected)


def test_a_repair_never_commits_what_only_the_lost_index_has_as_aborted():
    world = World(segment_bytes=100_000)
    transact(world, 1, 1)
    (path,) = paths(world, ".log")
    stop(world, "clean")
    data = bytearray(world.files.peek(path))
    data[[at for at, _ in headers(data)][-1] + 65] ^= 1
    world.files.poke(path, data)
    remove(world, *paths(world, ".txnindex"))
    with open_for_check(world.files, PATH, repair=True) as directory:
        damaged = [one for one in directory.partitions(lambda _: None) if one.findings]
        (salvaged,) = directory.salvage(damaged, "then")
    assert salvaged.aborted == [0]
    assert findings(world) == []
    world.reopen()
    assert set(committed(world)) == {b"COMMIT plain"}


@pytest.mark.parametrize("how", ["clean", "crash"])
def test_a_repair_rebuilds_lost_indexes(how):
    world = filled()
    expected = committed(world)
    stop(world, how)
    saved = {path: world.files.peek(path) for path in paths(world, ".txnindex")[:4]}
    remove(world, *list(saved)[:2])
    for path in list(saved)[2:]:
        world.files.poke(path, b"noise")
    assert [path for kind, path in findings(world) if kind == "index"] == list(saved)
    repair(world)
    assert findings(world) == []
    assert {path: world.files.peek(path) for path in saved} == saved
    world.reopen()
    assert committed(world) == expected


@pytest.mark.parametrize("how", STOPS)
def test_a_damaged_index_is_rebuilt_and_saved_when_it_is_read(how):
    world = filled()
    expected = committed(world)
    stop(world, how)
    saved = {path: world.files.peek(path) for path in paths(world, ".txnindex")[:4]}
    for path in saved:
        world.files.poke(path, b"noise")
    world.reopen()
    assert committed(world) == expected
    assert findings(world) == []
    assert {path: world.files.peek(path) for path in saved} == saved


def test_an_active_segment_with_aborted_transactions_needs_no_check_after_a_clean_stop(caplog):
    world = World(segment_bytes=100_000)
    transact(world, 0, 12)
    expected = committed(world)
    assert len(paths(world, ".log")) == 1
    stop(world, "clean")
    caplog.clear()
    world.reopen()
    assert committed(world) == expected
    assert not caplog.records


@pytest.mark.parametrize("how", STOPS)
def test_swapped_indexes_are_noticed(how):
    world = filled()
    expected = committed(world)
    stop(world, how)
    one, other = [path for path in paths(world, ".txnindex") if len(world.files.peek(path)) > 4][:2]
    saved = world.files.peek(one), world.files.peek(other)
    world.files.poke(one, saved[1])
    world.files.poke(other, saved[0])
    assert findings(world) == [("index", one), ("index", other)]
    world.reopen()
    assert committed(world) == expected
    assert (world.files.peek(one), world.files.peek(other)) == saved


@pytest.mark.parametrize("byte", range(19))
def test_a_lost_index_is_noticed_although_the_line_about_it_is_damaged(byte):
    world = filled()
    expected = committed(world)
    stop(world, "clean")
    metadata = bytearray(world.files.peek(f"{world.folder}/{FILE_NAME}"))
    metadata[metadata.index(b"transaction_indexes") + byte] ^= 1
    world.files.poke(f"{world.folder}/{FILE_NAME}", bytes(metadata))
    remove(world, *paths(world, ".txnindex")[:4])
    world.reopen()
    assert committed(world) == expected


# Repairs


def of_two_epochs(how: str) -> World:
    """A stopped log whose later segments were written after a restart."""
    world = filled()
    stop(world, how)
    world.reopen()
    transact(world, 12, 6)
    stop(world, how)
    return world


def flip(world: World, path: str, position: int) -> None:
    data = bytearray(world.files.peek(path))
    data[position] ^= 1
    world.files.poke(path, data)


def lose_file(world: World, path: str) -> None:
    stem = path.removesuffix(".log")
    remove(world, *[one for one in world.files.paths(world.folder) if one.startswith(stem)])


def check_repaired(world: World) -> None:
    assert findings(world) == []
    world.reopen()
    assert world.log.quarantined is None
    values = committed(world)
    assert not any(value and value.startswith(b"ABORT") for value in values)


@pytest.mark.parametrize("how", ["clean", "crash"])
def test_a_repair_of_any_batch_never_commits_what_was_aborted(how):
    world = of_two_epochs(how)
    for path in paths(world, ".log"):
        for position, _ in list(headers(world.files.peek(path))):
            world = of_two_epochs(how)
            flip(world, path, position + 60)
            assert findings(world) == [("damaged", path)]
            repair(world)
            check_repaired(world)


@pytest.mark.parametrize("how", STOPS)
def test_a_repair_without_any_file_never_commits_what_was_aborted(how):
    for path in paths(of_two_epochs(how), ".log"):
        world = of_two_epochs(how)
        lose_file(world, path)
        repair(world)
        check_repaired(world)


@pytest.mark.parametrize("is_lost", [True, False])
def test_an_interrupted_repair_never_commits_what_was_aborted(is_lost):
    for nth in itertools.count(1, 3):
        world = of_two_epochs("crash")
        path = paths(world, ".log")[1]
        if is_lost:
            lose_file(world, path)
        else:
            flip(world, path, [at for at, _ in headers(world.files.peek(path))][2] + 60)
        world.files.fail(nth, sticky=True)
        with contextlib.suppress(OSError, UserError):
            repair(world)
        met = world.files.has_failed
        world.files.crash()
        world.reopen()
        values = [] if world.log.quarantined else committed(world)
        assert not any(value and value.startswith(b"ABORT") for value in values), nth
        stop(world, "crash")
        repair(world)
        check_repaired(world)
        if not met:
            break
    assert nth > 30


# Older versions


def make_older(world: World) -> None:
    """What an older version leaves: no line in the metadata, no empty index."""
    path = f"{world.folder}/{FILE_NAME}"
    metadata = decode_metadata(world.files.peek(path))
    world.files.poke(path, encode_metadata(metadata._replace(indexed=None)))
    remove(world, *[one for one in paths(world, ".txnindex") if len(world.files.peek(one)) == 4])


@pytest.mark.parametrize("how", STOPS)
def test_a_directory_of_an_older_version_opens_without_an_alarm_and_is_watched(how, caplog):
    world = filled()
    expected = committed(world)
    world.fill(12)
    stop(world, how)
    make_older(world)
    assert findings(world) == []
    world.reopen()
    assert "rebuilding" not in caplog.text
    assert committed(world)[: len(expected)] == expected
    stop(world, "crash")
    assert findings(world) == []
    path = max(paths(world, ".txnindex"), key=lambda one: len(world.files.peek(one)))
    remove(world, path)
    assert findings(world) == [("index", path)]
    world.reopen()
    assert path in caplog.text
    assert committed(world)[: len(expected)] == expected


def test_going_back_to_an_older_version_and_forth_is_no_damage():
    world = filled()
    world.fill(12)
    expected = committed(world)
    stop(world, "clean")
    remove(world, *[one for one in paths(world, ".txnindex") if len(world.files.peek(one)) == 4])
    world.reopen()
    assert world.log.quarantined is None
    assert committed(world) == expected
    stop(world, "crash")
    assert findings(world) == []


# Crashes


@pytest.mark.parametrize("older", [False, True])
def test_no_crash_gives_a_false_alarm_or_loses_an_index(older, caplog):
    """Appends, flushes, retention and compaction, interrupted at every call to the disk."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    for nth in itertools.count(1, 3):
        world = World(
            seed=seed + nth,
            segment_bytes=700,
            cleanup_policy=("compact", "delete"),
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=0,
        )
        transact(world, 0, 6)
        stop(world, "clean")
        if older:
            make_older(world)
        caplog.clear()
        world.files.fail(nth, sticky=True)
        with contextlib.suppress(ApiError, DirectoryOffline, OSError, UserError):
            world.reopen()
            transact(world, 6, 4)
            world.checkpoint()
            world.compact()
            world.log.delete_before(world.log.start_offset + 5)
            world.log.delete_old_segments(START_MS)
            world.directory.remove_deleted_files(START_MS + 10**9)
            world.stop()
        met = world.files.has_failed
        world.crash()
        assert world.log.quarantined is None
        values = committed(world)
        assert not any(value and value.startswith(b"ABORT") for value in values), nth
        stop(world, "crash")
        assert findings(world) == []
        world.reopen()
        assert committed(world) == values
        if not met:
            break
    assert nth > 30
