"""The manifests of all views as files: read without a lock, changed under one, replaced by a rename."""

import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from strom.model.errors import UserError
from strom.pipelines.data_folder import write_atomically
from strom.pipelines.views.chain import Manifest, from_json, to_json
from strom.supervision.file_lock import locked

GRACE_S = 120.0
"""The grace period of unlisted files: readers may still use an older snapshot."""
ORPHAN_S = 86_400.0
"""The minimum age of orphaned files: a batch in progress has files that are not listed yet."""

_DROP_ATTEMPTS = 5


class Manifests:
    """The folder of a project's views."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cache: dict[str, tuple[tuple[int, ...], Manifest]] = {}

    def names(self) -> list[str]:
        """The views that have been computed."""
        return sorted(path.parent.name for path in self.folder.glob("*/manifest.json"))

    def read(self, view: str) -> Manifest | None:
        """The newest snapshot of a view; None if nothing was ever computed."""
        path = self._path(view)
        try:
            about = path.stat()
            # All three: timestamps are coarse, and inode numbers are reused.
            stamp = (about.st_mtime_ns, about.st_ino, about.st_size)
            known = self._cache.get(view)
            if known is None or known[0] != stamp:
                known = stamp, from_json(json.loads(path.read_text("utf-8")))
                self._cache[view] = known
            return known[1]
        except FileNotFoundError:
            return None

    def existing(self, view: str) -> Manifest:
        """The newest snapshot; UserError if there is none."""
        manifest = self.read(view)
        if manifest is None:
            known = ", ".join(self.names()) or "none yet; start with: strom run"
            raise UserError(f"View {view!r} has no data yet. Known views: {known}.")
        return manifest

    def change(self, view: str, topic: str, change: Callable[[Manifest], Manifest]) -> Manifest:
        """Change a manifest atomically, under a lock."""
        folder = self.view_folder(view)
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "lock"):
            self._cache.pop(view, None)  # file timestamps are too coarse for the check
            before = self.read(view) or Manifest(view, topic)
            after = change(before)
            if gone := sorted(before.files - after.files):
                now = time.time_ns() // 1_000_000
                after = replace(after, retired=(*after.retired, *((file, now) for file in gone)))
            if after != before:
                write_atomically(self._path(view), json.dumps(to_json(after)).encode())
        return after

    def view_folder(self, view: str) -> Path:
        """The folder of a view."""
        return self.folder / view

    def version_folder(self, view: str, number: int) -> Path:
        """The folder of a version's files."""
        return self.folder / view / f"v{number}"

    def drop(self, view: str) -> None:
        """Remove everything that was computed of a view.

        The manifest is removed first: readers and layers never see a view without its files.
        """
        folder = self.view_folder(view)
        with locked(folder / "lock"):
            self._path(view).unlink(missing_ok=True)
        for _ in range(_DROP_ATTEMPTS - 1):  # a micro-batch may still write a file
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                return
        shutil.rmtree(folder)

    def sweep(self, view: str, *, grace_s: float = GRACE_S, orphan_s: float = ORPHAN_S) -> int:
        """Remove files that no reader needs any more, and those of crashes; returns their number."""
        folder = self.view_folder(view)
        if self.read(view) is None:
            return 0
        now = time.time()
        with locked(folder / "lock"):
            self._cache.pop(view, None)
            manifest = self.read(view)
            if manifest is None:
                return 0
            due = {file for file, since in manifest.retired if since / 1000 <= now - grace_s}
            known = manifest.files | {file for file, _ in manifest.retired}
            orphans = {
                str(path.relative_to(folder))
                for path in folder.glob("v*/**/*.parquet")
                if _modified(path) <= now - orphan_s
            }
            # Before anything is removed from them, which changes their timestamps.
            done = [
                written
                for written in folder.glob("v*/*/*/")
                if _modified(written)
                <= now - (grace_s if (written / "_SUCCESS").exists() else orphan_s)
            ]
            removed = due | (orphans - known)
            for file in removed:
                path = folder / file
                path.unlink(missing_ok=True)
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            if due:
                left = tuple(one for one in manifest.retired if one[0] not in due)
                write_atomically(
                    self._path(view), json.dumps(to_json(replace(manifest, retired=left))).encode()
                )
            for written in done:
                _remove_without_states(written)
        return len(removed)

    def _path(self, view: str) -> Path:
        return self.folder / view / "manifest.json"


def _remove_without_states(written: Path) -> None:
    """Remove a folder that Spark has written, with markers and checksums, if no states are left."""
    if written.is_dir() and next(written.rglob("*.parquet"), None) is None:
        shutil.rmtree(written, ignore_errors=True)


def _modified(path: Path) -> float:
    """When a file was written; one that no longer exists counts as new."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return math.inf
