"""The manifests of views: versions, each a chain of segments without gaps.

A segment holds the states of all records between two positions. The chain starts at the version's base,
and each segment starts where the one before ends: so every record is in exactly one. A micro-batch
appends a segment. Compaction, and publishing a batch, replace segments by one that covers the same
records. Each operation keeps the chain contiguous, or fails.

Manifests are files: read without a lock, changed under one, replaced by a rename.
"""

import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from strom.model.errors import StromError, UserError
from strom.pipelines.offsets import TopicOffsets
from strom.supervision.durable_files import write_atomically
from strom.supervision.file_lock import locked

Layer = Literal["speed", "batch"]
VersionState = Literal["building", "ready"]


class ChainConflict(StromError):
    """A segment that does not fit the chain: another writer has changed it meanwhile. Read it again."""


@dataclass(frozen=True)
class ViewSegment:
    """The states of the records from `start` up to, not including, `end`."""

    start: TopicOffsets
    end: TopicOffsets
    files: tuple[str, ...]
    layer: Layer = "speed"
    level: int = 0
    """The number of times it was compacted."""
    written_ms: int = 0

    @property
    def records(self) -> int:
        """The number of offsets that it covers."""
        return self.end - self.start

    @property
    def is_empty(self) -> bool:
        """Whether these records produced no states in the speed layer, and so no file."""
        return self.layer == "speed" and not self.files


@dataclass(frozen=True)
class Version:
    """One definition of a view, with what it has computed."""

    number: int
    fingerprint: str
    definition: str
    """A summary for people: keys and measures."""
    output: tuple[tuple[str, str], ...]
    """The types of the folded rows' columns, and of expressions in its measures."""
    base: TopicOffsets
    created_ms: int
    identity: str
    """A file without states that has all columns."""
    segments: tuple[ViewSegment, ...] = ()
    pinned: TopicOffsets | None = None
    """A position that compaction must preserve: a batch up to here is in progress."""
    incarnation: int = 0
    """Identifies the topic among those of the same name.

    A recreated one has another number. 0: unknown.
    """
    state: VersionState = "ready"
    """`building` until it has caught up with the log. A manifest of 0.1.0 has no states: any version
    in it may be kept for a rollback, so it is `ready`, and nothing removes it."""
    skipped: tuple[tuple[int, int], ...] = ()
    """Partition and offset of the records that it cannot compute. Batches skip them, too."""

    @property
    def position(self) -> TopicOffsets:
        """The position up to which records are included."""
        return self.segments[-1].end if self.segments else self.base

    @property
    def files(self) -> list[str]:
        """All files that a reader has to merge."""
        return [self.identity, *(file for segment in self.segments for file in segment.files)]

    @property
    def boundaries(self) -> list[TopicOffsets]:
        """The positions at which the chain can be cut."""
        return [self.base, *(segment.end for segment in self.segments)]

    def spliced(self, new: ViewSegment) -> "Version":
        """Replace the segments that this one covers; ChainConflict if it does not fit.

        At the end of the chain a segment may extend beyond those that it replaces.
        """
        bounds = self.boundaries
        if new.start not in bounds:
            raise ChainConflict(f"version {self.number} has no boundary at {new.start}")
        begin = bounds.index(new.start)
        if new.end in bounds:
            # The last match: a segment between two equal boundaries is empty.
            end = len(bounds) - 1 - bounds[::-1].index(new.end)
        elif self.position <= new.end:
            end = len(bounds) - 1
        else:
            raise ChainConflict(f"version {self.number} has no boundary at {new.end}")
        if end < begin:
            raise ChainConflict(f"a segment cannot end at {new.end}, before it starts")
        segments = (*self.segments[:begin], new, *self.segments[end:])
        return replace(self, segments=segments)

    def appended(self, new: ViewSegment) -> "Version":
        """Append a segment, which must start at the end of the chain.

        An empty one extends an empty predecessor, so that the chain of a quiet stream does not grow.
        """
        if new.start != self.position:
            raise ChainConflict(f"version {self.number} is at {self.position}, not at {new.start}")
        return replace(self, segments=(*self.segments[:-1], *self._joined(self.segments[-1:], new)))

    def collapsed(self) -> "Version":
        """Replace each run of empty segments by one."""
        segments: list[ViewSegment] = []
        for segment in self.segments:
            segments[-1:] = self._joined(segments[-1:], segment)
        return (
            self if len(segments) == len(self.segments) else replace(self, segments=tuple(segments))
        )

    def _joined(self, last: Sequence[ViewSegment], new: ViewSegment) -> Sequence[ViewSegment]:
        """The last segment and a new one; merged if both are empty.

        Boundaries of segments with states are kept: a batch is cut at one, and would otherwise have to
        wait until the archive has all records of a segment that never ends. So is a pinned one.
        """
        if last and last[0].is_empty and new.is_empty and last[0].end != self.pinned:
            return [replace(last[0], end=new.end, written_ms=new.written_ms)]
        return [*last, new]


@dataclass(frozen=True)
class Manifest:
    """The state of a view. One read gives a consistent snapshot."""

    view: str
    topic: str
    active: int | None = None
    previous: int | None = None
    """The previously active version: the target of a rollback."""
    versions: tuple[Version, ...] = ()
    retired: tuple[tuple[str, int], ...] = ()
    """Files that are no longer listed, and since when: readers with an older snapshot may need them."""

    @property
    def files(self) -> set[str]:
        """All files that some version lists."""
        return {file for version in self.versions for file in version.files}

    def version(self, number: int) -> Version:
        for version in self.versions:
            if version.number == number:
                return version
        raise ChainConflict(f"view {self.view} has no version {number}")

    @property
    def active_version(self) -> Version | None:
        """The version that queries see."""
        return None if self.active is None else self.version(self.active)

    def with_version(self, version: Version) -> "Manifest":
        """Add a version, or replace the one with its number."""
        others = [one for one in self.versions if one.number != version.number]
        versions = sorted([*others, version], key=lambda one: one.number)
        return replace(self, versions=tuple(versions))

    def with_ready(self, number: int) -> "Manifest":
        """Mark a version as ready, because it has caught up."""
        return self.with_version(replace(self.version(number), state="ready"))

    def switched_to(self, number: int) -> "Manifest":
        """Activate another version, which becomes ready."""
        if number == self.active:
            return self
        return replace(self.with_ready(number), active=number, previous=self.active)

    def state_of(self, number: int) -> str:
        """`active` for the version that queries see; otherwise `building` or `ready`."""
        return "active" if number == self.active else self.version(number).state

    def without(self, number: int) -> "Manifest":
        """Remove an inactive version."""
        if number == self.active:
            raise ChainConflict(f"version {number} of view {self.view} is the active one")
        versions = tuple(one for one in self.versions if one.number != number)
        previous = None if self.previous == number else self.previous
        return replace(self, versions=versions, previous=previous)


def to_json(manifest: Manifest) -> dict[str, Any]:
    """The manifest as values for a JSON file."""
    return asdict(manifest)


def from_json(values: dict[str, Any]) -> Manifest:
    """The manifest of such values."""
    versions = tuple(map(_version, values["versions"]))
    retired = tuple((file, since) for file, since in values["retired"])
    return Manifest(**{**values, "versions": versions, "retired": retired})


def _version(values: dict[str, Any]) -> Version:
    segments = tuple(
        ViewSegment(
            **{
                **one,
                "files": tuple(one["files"]),
                "start": _offsets(one["start"]),
                "end": _offsets(one["end"]),
            }
        )
        for one in values["segments"]
    )
    return Version(
        **{
            **values,
            "base": _offsets(values["base"]),
            "pinned": values["pinned"] and _offsets(values["pinned"]),
            "segments": segments,
            "output": tuple((name, kind) for name, kind in values["output"]),
            "skipped": tuple((p, offset) for p, offset in values.get("skipped", ())),
        }
    )


def _offsets(values: dict[str, Sequence[int]]) -> TopicOffsets:
    return TopicOffsets(tuple(values["next"]))


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
        names = self.names()
        manifest = self.read(view) if view in names else None  # not every text is a file's name
        if manifest is None:
            known = ", ".join(names) or "none yet; start with: strom run"
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
