"""The cruel double must be cruel, and must not be crueller than a disk."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strom.storage.files import read_file, write_file
from strom.testing.memory_files import MemoryFiles

SEEDS = range(60)


def survivors(prepare) -> set[bytes | None]:
    """What a file `d/a` may hold after a crash, over many seeds; None if it is gone."""
    found = set()
    for seed in SEEDS:
        files = MemoryFiles(seed)
        files.make_directory("d")
        files.sync_directory("")
        prepare(files)
        files.crash()
        found.add(files.peek("d/a") if files.exists("d/a") else None)
    return found


def synced_file(files, content=b"safe"):
    write_file(files, "d/a", content)
    files.sync_directory("d")


def test_what_was_synced_stays():
    assert survivors(synced_file) == {b"safe"}


def test_a_file_without_a_synced_entry_may_be_gone():
    assert survivors(lambda files: write_file(files, "d/a", b"x")) == {None, b"x"}


def test_a_removal_without_a_sync_may_be_undone():
    def prepare(files):
        synced_file(files)
        files.remove("d/a")

    assert survivors(prepare) == {None, b"safe"}


def test_a_rename_without_a_sync_may_be_undone_but_is_never_half_done():
    for seed in SEEDS:
        files = MemoryFiles(seed)
        files.make_directory("d")
        files.sync_directory("")
        synced_file(files)
        files.rename("d/a", "d/b")
        files.crash()
        assert files.list("d") in (["a"], ["b"])


def test_unsynced_bytes_may_be_lost_torn_or_kept():
    def prepare(files):
        synced_file(files)
        file = files.open("d/a")
        file.append(b"0123456789")

    found = survivors(prepare)
    assert {b"safe", b"safe0123456789"} < found
    assert any(4 < len(content) < 14 for content in found if content)
    assert all(content and content.startswith(b"safe") for content in found)


def test_a_later_page_may_be_kept_without_an_earlier_one():
    def prepare(files):
        synced_file(files, b"")
        files.open("d/a").append(b"1" * 512 + b"2" * 512)

    assert b"\0" * 512 + b"2" * 512 in survivors(prepare)


@settings(deadline=None)
@given(seed=st.integers(), parts=st.lists(st.binary(min_size=1, max_size=700), max_size=5))
def test_bytes_synced_before_are_never_touched_by_later_appends(seed, parts):
    files = MemoryFiles(seed)
    files.make_directory("d")
    files.sync_directory("")
    synced_file(files, b"".join(parts))
    files.open("d/a").append(b"more" * 300)
    files.crash()
    assert files.peek("d/a").startswith(b"".join(parts))


def test_a_failed_sync_is_not_made_good_by_the_next():
    def prepare(files):
        synced_file(files)
        file = files.open("d/a")
        file.append(b"lost")
        files.fail(1, only="datasync")
        with pytest.raises(OSError, match="injected"):
            file.datasync()
        file.datasync()

    assert b"safe" in survivors(prepare)


def test_the_nth_call_fails_once_or_from_then_on():
    files = MemoryFiles()
    files.fail(2, errno.ENOSPC)
    files.make_directory("d")
    with pytest.raises(OSError, match="injected"):
        files.make_directory("e")
    files.make_directory("e")
    files.fail(1, sticky=True)
    for _ in range(3):
        with pytest.raises(OSError, match="injected"):
            files.list("d")
    assert files.has_failed
    files.heal()
    assert files.list("d") == []


def test_a_failing_append_may_leave_a_part():
    lengths = set()
    for seed in SEEDS:
        files = MemoryFiles(seed)
        file = files.open("a", create=True)
        files.fail(1, only="append")
        with pytest.raises(OSError, match="injected"):
            file.append(b"0123456789")
        lengths.add(file.size())
    assert len(lengths) > 3


def test_calls_are_counted_by_name():
    files = MemoryFiles()
    write_file(files, "a", b"x")
    read_file(files, "a")
    assert files.calls["open"] == 2
    assert files.calls["datasync"] == 1


def test_files_opened_before_a_crash_are_dead_after_it():
    files = MemoryFiles()
    file = files.open("a", create=True)
    files.sync_directory("")
    files.crash()
    with pytest.raises(OSError, match="closed"):
        file.append(b"x")
