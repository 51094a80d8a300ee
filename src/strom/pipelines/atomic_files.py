"""Small files that are there wholly or not at all, even after a crash."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Put a file in the place of another, durably. Processes that write the same one hold a lock."""
    fresh = path.with_suffix(f".{os.getpid()}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        _sync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    os.fsync(descriptor)
