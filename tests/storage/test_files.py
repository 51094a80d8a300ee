"""One conformance suite for the seam to the disk: the real one and the double behave alike."""

import errno
import os
import sys

import pytest

from strom.storage.files import (
    DiskFiles,
    create_durable_directory,
    is_temporary,
    read_file,
    replace_file,
    write_file,
)
from strom.supervision.file_lock import LockHeld
from strom.testing.memory_files import MemoryFiles


@pytest.fixture(params=["disk", "memory"])
def place(request, tmp_path):
    """Files, and a folder in them."""
    files, path = (
        (DiskFiles(), str(tmp_path)) if request.param == "disk" else (MemoryFiles(), "tmp")
    )
    files.make_directory(path)
    return files, path


def test_what_is_appended_can_be_read_at_any_position(place):
    files, path = place
    file = files.open(f"{path}/a", create=True)
    file.append(b"hello ")
    file.append(bytearray(b"wide "))
    file.append(memoryview(b"world"))
    assert file.size() == 16
    assert file.pread(4, 6) == b"wide"
    assert file.pread(100, 11) == b"world"
    assert file.pread(10, 100) == b""
    file.close()
    assert files.size(f"{path}/a") == 16


def test_appends_go_on_at_the_new_end_after_a_cut(place):
    files, path = place
    file = files.open(f"{path}/a", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    file.append(b"x")
    file.datasync()
    file.close()
    assert read_file(files, f"{path}/a") == b"0123x"


def test_a_file_that_is_not_there_is_not_created_by_reading(place):
    files, path = place
    with pytest.raises(FileNotFoundError):
        files.open(f"{path}/a")
    assert not files.exists(f"{path}/a")
    for call in (files.remove, files.size, files.modified_ms):
        with pytest.raises(FileNotFoundError):
            call(f"{path}/a")


def test_a_rename_replaces_its_target(place):
    files, path = place
    write_file(files, f"{path}/a", b"old")
    write_file(files, f"{path}/b", b"new")
    files.rename(f"{path}/b", f"{path}/a")
    files.sync_directory(path)
    assert files.list(path) == ["a"]
    assert read_file(files, f"{path}/a") == b"new"


def test_folders_are_made_listed_and_removed(place):
    files, path = place
    create_durable_directory(files, f"{path}/one/two")
    create_durable_directory(files, f"{path}/one/two")
    write_file(files, f"{path}/one/two/b", b"")
    write_file(files, f"{path}/one/two/a", b"")
    assert files.list(f"{path}/one/two") == ["a", "b"]
    assert files.is_directory(f"{path}/one")
    assert not files.is_directory(f"{path}/one/two/a")
    files.rename(f"{path}/one", f"{path}/other")
    files.remove_tree(f"{path}/other")
    assert files.list(path) == []
    with pytest.raises(FileNotFoundError):
        files.list(f"{path}/one")


def test_writing_whole_files_replaces_all_of_them(place):
    files, path = place
    write_file(files, f"{path}/a", b"a long content")
    write_file(files, f"{path}/a", b"short")
    assert read_file(files, f"{path}/a") == b"short"
    replace_file(files, path, "a", b"other")
    assert read_file(files, f"{path}/a") == b"other"
    assert files.list(path) == ["a"]


def test_a_lock_is_held_once_and_can_be_released(place):
    files, path = place
    lock = files.lock(f"{path}/.lock")
    with pytest.raises(LockHeld):
        files.lock(f"{path}/.lock")
    lock.release()
    files.lock(f"{path}/.lock").release()


def test_there_is_space_and_there_are_descriptors(place):
    files, path = place
    assert files.space(path).free > 0
    assert files.open_file_limit() >= 32


def test_an_open_file_survives_the_removal_of_its_name(place):
    files, path = place
    file = files.open(f"{path}/a", create=True)
    file.append(b"still here")
    files.remove(f"{path}/a")
    assert file.pread(5, 0) == b"still"
    file.close()


def test_the_lock_names_the_process_that_holds_it(tmp_path):
    files = DiskFiles()
    lock = files.lock(f"{tmp_path}/.lock")
    with pytest.raises(LockHeld) as caught:
        files.lock(f"{tmp_path}/.lock")
    assert caught.value.holder.startswith(f"process {os.getpid()} (")
    lock.release()


def test_a_short_write_is_completed(tmp_path, monkeypatch):
    file = DiskFiles().open(f"{tmp_path}/a", create=True)
    really_write = os.write
    monkeypatch.setattr(os, "write", lambda number, data: really_write(number, data[:3]))
    file.append(b"0123456789")
    monkeypatch.undo()
    assert file.pread(20, 0) == b"0123456789"
    file.close()


def test_lack_of_space_passes_and_a_broken_medium_does_not():
    assert is_temporary(OSError(errno.ENOSPC, "full"))
    assert is_temporary(OSError(errno.EMFILE, "too many"))
    assert not is_temporary(OSError(errno.EIO, "broken"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(("limit", "expected"), [(64, 8), (100, 28), (256, 128), (10**6, 16_384)])
def test_segment_files_leave_the_rest_of_the_process_enough_descriptors(
    monkeypatch, limit, expected
):
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    assert DiskFiles().open_file_limit() == expected


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(256, 128, id="half of few"),
        pytest.param(8192, 4096, id="half"),
        pytest.param(14_000, 4096, id="no less than enough"),
        pytest.param(20_000, 7928, id="what connections do not need"),
        pytest.param(65_536, 16_384, id="plenty"),
    ],
)
def test_connections_get_the_descriptors_that_segment_files_can_do_without(
    monkeypatch, limit, expected
):
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    assert DiskFiles(connections=12_000).open_file_limit() == expected
