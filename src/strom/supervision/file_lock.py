"""A file lock between processes: the native lock of `filelock` (flock, or LockFileEx on Windows).

The operating system releases it when its holder ends, however it ends. Neither the existence of the file
nor the process id in it means anything: the id may be reused, and is only for messages.

It uses `filelock.lock_descriptor` instead of `FileLock`, because a sink locks the file that it writes to,
and because FileLock falls back to the existence of a file where the file system has no flock.
"""

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from filelock import lock_descriptor

from strom.model.errors import StromError

POLL_S = 0.005
PROBE_S = 0.2
"""`is_held` locks the file for an instant; a lock held for longer than this has a real holder."""
_TEXT_BYTES = 500
_SAFE_OPEN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class LockHeld(StromError):
    """Another process, or another part of this one, holds a lock."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(f"{path} is in use by {holder}.")
        self.holder = holder
        """As in "process 123 (strom run, since 2026-11-16 09:30:00+01:00)"."""


class ProcessLock:
    """A lock that this process holds until `release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock by closing its file."""
        os.close(self._descriptor)


def acquire(
    path: str, *, wait: bool = False, sleep: Callable[[float], object] = time.sleep
) -> ProcessLock:
    """Take a lock, creating its file if necessary; LockHeld if another holds it, unless `wait`.

    OSError where the file system cannot lock: a lock without effect would be worse than none.
    """
    waited = 0.0
    while True:
        descriptor = _open(path, os.O_CREAT)
        try:
            if _is_locked(descriptor, path) and _is_at(descriptor, path):
                _write_holder(descriptor)
                return ProcessLock(descriptor)
            holder = _holder(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not wait and waited >= PROBE_S:
            raise LockHeld(path, holder)
        sleep(POLL_S)
        waited += POLL_S


def lock_open_file(descriptor: int, path: str) -> None:
    """Lock a file that the caller has open, until it is closed; LockHeld if another holds it."""
    if not _is_locked(descriptor, path):
        raise LockHeld(path, "another process")


def locked(path: Path) -> contextlib.AbstractContextManager[None]:
    """Hold a lock; waits while this or another process holds it."""
    return _holding(path, wait=True)


def held(path: Path) -> contextlib.AbstractContextManager[None]:
    """Hold a lock; LockHeld if this or another process already does."""
    return _holding(path, wait=False)


def is_held(path: Path) -> bool:
    """Whether a lock is held now. Creates no file."""
    try:
        descriptor = _open(str(path))
    except FileNotFoundError:
        return False
    try:
        return not _is_locked(descriptor, str(path), _lock_shared)
    finally:
        os.close(descriptor)


def _open(path: str, more_flags: int = 0) -> int:
    """Open a lock file, which must be a file of its own: the holder is written into it.

    OSError if it is a link, which could lead to any file, or a pipe, which could block.
    """
    descriptor = os.open(path, os.O_RDWR | _SAFE_OPEN | more_flags, 0o666)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "A lock must be a regular file", path)


@contextlib.contextmanager
def _holding(path: Path, *, wait: bool) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = acquire(str(path), wait=wait)
    try:
        yield
    finally:
        lock.release()


def _lock_exclusively(descriptor: int) -> bool:
    return lock_descriptor(descriptor, blocking=False)


def _lock_shared(descriptor: int) -> bool:
    """For those who only ask: two that do so at the same time must not take each other for a holder."""
    if sys.platform == "win32":  # the C runtime has exclusive locks only
        return _lock_exclusively(descriptor)
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(descriptor: int, path: str, lock: Callable[[int], bool] = _lock_exclusively) -> bool:
    """Try to lock a descriptor; whether it has the lock now."""
    try:
        return lock(descriptor)
    except OSError as error:
        raise OSError(
            error.errno,
            f"The file system cannot lock files ({error.strerror}); use a local disk",
            path,
        ) from error


def _is_at(descriptor: int, path: str) -> bool:
    """Whether the locked file is still at its path: the lock of a removed file has no effect."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _write_holder(descriptor: int) -> None:
    # The text starts at the second byte: on Windows the lock prevents reading the first.
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    text = f"\nprocess {os.getpid()} ({_command()}, since {since})\n"
    with contextlib.suppress(OSError):  # on a full disk, messages just do not name the holder
        os.ftruncate(descriptor, 0)
        os.write(descriptor, text.encode()[:_TEXT_BYTES])


def _holder(descriptor: int) -> str:
    try:
        os.lseek(descriptor, 1 if sys.platform == "win32" else 0, os.SEEK_SET)
        text = os.read(descriptor, _TEXT_BYTES).decode(errors="replace").strip()
    except OSError:
        text = ""
    if text.isdigit():  # strom 0.1 wrote the process id alone
        return f"process {text}"
    return text if text.startswith("process ") else "another process"


def _command() -> str:
    """The program and its subcommand. No further arguments: one may be a secret."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    words = [word for word in sys.argv[1:2] if word.isidentifier()]
    return " ".join((name or "python", *words))
