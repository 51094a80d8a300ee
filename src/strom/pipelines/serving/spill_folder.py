"""Where one query engine writes what exceeds its memory; what killed ones have left is removed.

DuckDB removes the files of killed processes only when it spills itself, which may be never. So each
engine has a folder of its own in `data/spill`. A lock beside it shows whether its engine lives, for
`strom run` and several `strom query` may use the same data.
"""

import contextlib
import logging
import os
import re
import shutil
import sys
import uuid
from pathlib import Path

from strom.supervision.file_lock import LockHeld, ProcessLock, acquire, is_held

log = logging.getLogger(__name__)

_LOCK = ".lock"
_LOOSE = re.compile(r"duckdb_temp_(?:(\d+)_)?")
"""Files of releases without a folder for each engine, with the process id if DuckDB is new enough."""


class SpillFolder:
    """A new folder in `root`, until it is closed or its process ends."""

    def __init__(self, root: Path) -> None:
        self.path = root / uuid.uuid4().hex
        self._lock: ProcessLock | None = None
        # Without a lock, on a disk that is read-only or full, queries work as long as they fit memory.
        with contextlib.suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            self._lock = acquire(str(_lock_of(self.path)))
            _remove_abandoned(root)

    def close(self) -> None:
        """Remove the folder with all that was spilled."""
        lock, self._lock = self._lock, None
        if lock is not None:
            _remove(self.path, lock)


def _lock_of(folder: Path) -> Path:
    return folder.with_suffix(_LOCK)


def _remove_abandoned(root: Path) -> None:
    for path in root.iterdir():
        loose = _LOOSE.match(path.name)
        if loose and not _is_alive(loose[1]):
            with contextlib.suppress(OSError):
                path.unlink()
    for path in root.glob(f"*{_LOCK}"):
        folder = path.with_suffix("")
        with contextlib.suppress(OSError, LockHeld):
            if not is_held(path):
                _remove(folder, acquire(str(path)))
                log.info("Removed %s, which a killed process has left", folder)


def _is_alive(pid: str | None) -> bool:
    if pid is None or sys.platform == "win32":  # there, an open file cannot be removed anyway
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _remove(folder: Path, lock: ProcessLock) -> None:
    """Remove the folder before its lock, so that nothing is left unnoticed."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        with contextlib.suppress(OSError):  # Windows removes no open file: the next engine does
            _lock_of(folder).unlink()
    lock.release()
