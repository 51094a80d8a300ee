"""Replaces small files atomically and durably."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file; after a crash, it has its old or new content. Concurrent writers need a lock."""
    temporary = path.with_suffix(f".{os.getpid()}.new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        _sync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make created and renamed entries of a folder durable."""
    if os.name != "posix":  # Windows cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    # Tests kill a process here.
    os.fsync(descriptor)
