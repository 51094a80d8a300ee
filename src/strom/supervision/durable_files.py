"""Small files that survive a crash: replaced atomically, and folders whose entries are durable."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file; after a crash, it has its old or new content. Concurrent writers need a lock."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        _sync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make created and renamed entries of a folder durable."""
    if os.name != "posix":  # Windows cannot open folders, and persists names itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    # Tests kill a process here.
    os.fsync(descriptor)
