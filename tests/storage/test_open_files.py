"""The pool of open files stays bounded, and never closes what a flush is syncing."""

import pytest

from strom.storage.open_files import OpenFiles
from strom.testing.memory_files import MemoryFiles


@pytest.fixture
def files():
    files = MemoryFiles()
    for name in "abcdef":
        files.open(name, create=True).close()
    return files


def test_the_least_recently_used_file_is_closed(files):
    pool = OpenFiles(files, limit=2)
    first = pool.get("a", "a")
    pool.get("b", "b")
    assert pool.get("a", "a") is first
    second = pool.get("b", "b")
    pool.get("a", "a")
    pool.get("c", "c")
    assert len(pool) == 2
    assert first.size() == 0
    with pytest.raises(OSError, match="closed"):
        second.size()


def test_a_pinned_file_stays_open(files):
    pool = OpenFiles(files, limit=1)
    pinned = pool.pin("a", "a")
    for name in "bcdef":
        pool.get(name, name)
    pinned.file.datasync()
    pool.unpin(pinned)


def test_half_of_the_pool_may_be_pinned_before_it_is_crowded(files):
    pool = OpenFiles(files, limit=4)
    pinned = [pool.pin("a", "a"), pool.pin("a", "a"), pool.pin("b", "b")]
    assert pool.is_crowded
    pool.forget("b")
    assert pool.is_crowded, "its descriptor is still in use"
    pool.unpin(pinned.pop())
    assert not pool.is_crowded


def test_a_forgotten_file_is_closed_when_its_last_user_is_done(files):
    pool = OpenFiles(files, limit=5)
    pinned = pool.pin("a", "a")
    pool.forget("a")
    pinned.file.datasync()
    pool.unpin(pinned)
    with pytest.raises(OSError, match="closed"):
        pinned.file.datasync()


def test_owners_of_the_same_path_do_not_share_a_file(files):
    pool = OpenFiles(files, limit=5)
    old = pool.get("old owner", "a")
    old.append(b"x")
    files.remove("a")
    files.open("a", create=True).close()
    assert pool.get("new owner", "a").size() == 0


def test_closing_the_pool_closes_all(files):
    pool = OpenFiles(files, limit=5)
    file = pool.get("a", "a")
    pool.close()
    assert len(pool) == 0
    with pytest.raises(OSError, match="closed"):
        file.size()
