"""Locks between processes: held once, given back by the dead, and honest about who and why."""

import errno
import os
import signal
import subprocess
import sys
import threading

import pytest
from filelock import lock_descriptor

from strom.model.errors import UserError
from strom.storage.directory import DataDirectory
from strom.storage.files import DiskFiles
from strom.supervision import file_lock
from strom.supervision.file_lock import LockHeld, acquire, held, is_held, lock_open_file, locked

HOLD = """
import sys
from pathlib import Path
from strom.supervision.file_lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds tmp_path/lock."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_another_process_is_kept_out_and_gets_the_holder(tmp_path, holder):
    with pytest.raises(LockHeld, match=rf"in use by process {holder.pid} \(") as refused:
        acquire(str(tmp_path / "lock"))
    assert ", since 20" in refused.value.holder
    assert is_held(tmp_path / "lock")


def test_a_holder_that_was_killed_holds_nothing(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait(30)
    assert str(holder.pid) in (tmp_path / "lock").read_text(), "the file is still there"
    assert not is_held(tmp_path / "lock")
    acquire(str(tmp_path / "lock")).release()


def test_a_file_with_the_id_of_a_living_process_blocks_no_other(tmp_path):
    """A process id is used again sooner or later: it says nothing of the lock."""
    (tmp_path / "lock").write_text(f"process {os.getppid()} (strom run, since 2026-01-01 00:00:00)")
    (tmp_path / ".lock").write_text(f"{os.getpid()}\n")  # as strom 0.1 wrote it
    for name in ("lock", ".lock"):
        assert not is_held(tmp_path / name)
        with held(tmp_path / name):
            assert is_held(tmp_path / name)


def test_a_holder_of_strom_0_1_is_named(tmp_path):
    path = tmp_path / "lock"
    lock = acquire(str(path))
    path.write_text("4711\n")
    with pytest.raises(LockHeld, match=r"in use by process 4711\."):
        acquire(str(path))
    lock.release()


def test_arguments_which_may_be_secret_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/strom", "run", "--set", "sasl.password=x"])
    acquire(str(tmp_path / "lock")).release()
    text = (tmp_path / "lock").read_text()
    assert f"process {os.getpid()} (strom run, since " in text
    assert "password" not in text


def test_a_query_keeps_no_process_from_the_lock(tmp_path):
    """`is_held` takes the lock for an instant; a start at that very moment must not fail."""
    probe = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    lock_open_file(probe, "lock")
    lock = acquire(str(tmp_path / "lock"), sleep=lambda _: os.close(probe))
    assert is_held(tmp_path / "lock")
    lock.release()


def test_two_that_ask_at_once_do_not_take_each_other_for_a_holder(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    path.touch()
    close, answers = os.close, []

    def ask_again_before_closing(descriptor):
        monkeypatch.setattr(os, "close", close)
        answers.append(is_held(path))
        close(descriptor)

    monkeypatch.setattr(os, "close", ask_again_before_closing)
    answers.append(is_held(path))
    assert answers == [False, False]


def test_asking_creates_no_file(tmp_path):
    assert not is_held(tmp_path / "folder" / "lock")
    assert list(tmp_path.iterdir()) == []


def test_locked_waits_for_its_turn(tmp_path):
    lock = acquire(str(tmp_path / "lock"))
    order = []

    def wait():
        with locked(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=wait)
    thread.start()
    order.append("first")
    lock.release()
    thread.join(30)
    assert order == ["first", "second"]


def test_a_lock_whose_file_was_removed_is_not_taken_for_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "lock"
    really_lock = lock_descriptor
    removals = iter((True,))

    def remove_before(descriptor, *, blocking):
        if next(removals, False):
            path.unlink()
        return really_lock(descriptor, blocking=blocking)

    monkeypatch.setattr(file_lock, "lock_descriptor", remove_before)
    lock = acquire(str(path), sleep=lambda _: None)
    assert path.exists()
    with pytest.raises(LockHeld):
        acquire(str(path), sleep=lambda _: None)
    lock.release()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_not_taken_for_a_holder(tmp_path, monkeypatch, code):
    def fail(descriptor, *, blocking):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(file_lock, "lock_descriptor", fail)
    with pytest.raises(OSError, match="cannot lock files") as failed:
        acquire(str(tmp_path / "lock"))
    assert failed.value.errno == code
    with pytest.raises(UserError, match="cannot lock files"):
        DataDirectory.open(DiskFiles(), str(tmp_path / "data"), now_ms=0, node_id=1)


def test_descriptors_are_closed_in_the_end(tmp_path):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    lock = acquire(str(tmp_path / "lock"))
    with pytest.raises(LockHeld):
        acquire(str(tmp_path / "lock"), sleep=lambda _: None)
    is_held(tmp_path / "lock")
    lock.release()
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="no O_NOFOLLOW")
@pytest.mark.parametrize("take", [lambda path: acquire(str(path)), is_held])
def test_a_link_is_not_followed(tmp_path, take):
    """The holder is written into the file: a link would have any file overwritten."""
    (tmp_path / "precious").write_text("data")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError) as refused:
        take(tmp_path / ".lock")
    assert refused.value.errno == errno.ELOOP
    assert (tmp_path / "precious").read_text() == "data"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(OSError, match="regular file"):
        acquire(str(tmp_path / ".lock"))
