"""Locks between processes, by files."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from strom.model.errors import StromError


class Taken(StromError):
    """Somebody else holds a lock."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until nobody else, in this process or another, holds the lock; a dead holder holds nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        _lock(file, wait=True)
        yield  # closing the file gives the lock back


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a lock; Taken, at once, if somebody else does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        try:
            _lock(file, wait=False)
        except OSError:
            raise Taken(f"{path} is locked") from None
        yield


def is_held(path: Path) -> bool:
    """Whether a process holds a lock now. Asking creates no file."""
    if not path.exists():
        return False
    try:
        with held(path):
            return False
    except Taken:
        return True


def _lock(file: IO[bytes], *, wait: bool) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
