"""The files that match a pattern: which of them a task reads as independent files.

`logs/*` matches `app.log` and `app.log.1`, and `parts/*` matches `part` and `part-1`: names alone do not
decide which files are rotated generations of another. `app.log.1` belongs to `app.log` once a rotation
was observed: what was read as `app.log` is now found under such a name, by its inode or by its content.
Every task examines the files and the stored offsets and comes to the same result, so the files can be
assigned to tasks by their names.
"""

import glob
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from strom.connect.connectors.files.generations import (
    TAIL_BYTES,
    Generation,
    Generations,
    Mark,
    is_rotated,
    open_generation,
)

COPYING_S = 10.0
"""How long a file that starts like another may be an unfinished copy of it (`copytruncate`)."""
_ESCAPE = re.compile(r"\[([\[*?])\]")


def literal_path(pattern: str) -> str | None:
    """The single path that a pattern denotes; None if it can match several.

    Special characters are escaped by brackets: `a[[]1].csv` is `a[1].csv`.
    """
    if glob.has_magic(_ESCAPE.sub("", pattern)):
        return None
    return _ESCAPE.sub(r"\1", pattern)


def matching_files(pattern: str) -> list[str]:
    """The files that match a pattern, sorted, including one with exactly this name."""
    found = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
    if os.path.isfile(pattern):
        itself = os.path.normpath(pattern)  # as `logs//a?` the pattern itself is found as `logs/a?`
        if all(os.path.normpath(path) != itself for path in found):
            found.append(pattern)
    return sorted(found)


class FileRelation(Enum):
    """The relation of one file to another."""

    OWN = auto()
    """An independent file."""
    GENERATION = auto()
    """A rotated generation of the other."""
    UNKNOWN = auto()
    """Not decided yet."""


@lru_cache(maxsize=100_000)
def possible_bases(path: str) -> tuple[str, ...]:
    """The files, existing or not, of which a file could be a generation, by its name."""
    name = Path(path).name
    start = len(path) - len(name)
    cuts = (place for place, character in enumerate(name) if character in ".-")
    return tuple(path[: start + cut] for cut in cuts if is_rotated(name, name[:cut]))


class Family:
    """A file and those with rotated forms of its name, as of one moment."""

    def __init__(self, base: str, mark: Mark | None) -> None:
        """`mark` is the position in the base file; None if it was never read."""
        self._base = Path(base)
        self._mark = mark
        self.rotates = mark is not None and (
            mark.rotates or (is_of_0_1_0(mark) and self._base.is_file())
        )
        self._is_intact = False
        if mark is not None and not self.rotates:
            generations = Generations(self._base, by_name=False)
            found = generations.marked(mark)
            self.rotates = generations.rotates
            if found is not None:
                self._is_intact = found.path == self._base
                found.close()

    def relation(self, path: str) -> FileRelation:
        """The relation of a file to the base."""
        if self.rotates:
            return FileRelation.GENERATION
        if self._mark is None:
            return FileRelation.OWN
        candidate = open_generation(Path(path))
        if candidate is None:
            return FileRelation.UNKNOWN
        try:
            if candidate.inode == self._mark.inode and self._mark.fits(candidate):
                return FileRelation.GENERATION  # another name of the same file
            if candidate.age_s(time.time()) < COPYING_S and self._may_be_copy(candidate):
                return FileRelation.UNKNOWN
            return FileRelation.OWN
        finally:
            candidate.close()

    def _may_be_copy(self, candidate: Generation) -> bool:
        """Whether a file's content equals the base's, as far as it goes.

        The base is truncated after that.
        """
        base = open_generation(self._base) if self._is_intact else None
        if base is None:
            # An incomplete compressed copy may contain data that is no longer in the base.
            return candidate.compressed and not candidate.first(1)
        try:
            if candidate.compressed:
                beginning = candidate.first(TAIL_BYTES)
                return base.first(len(beginning)) == beginning
            length = candidate.size
            return length <= base.size and all(
                candidate.read(place, TAIL_BYTES) == base.read(place, min(TAIL_BYTES, length))
                for place in (0, max(0, length - TAIL_BYTES))
            )
        finally:
            base.close()


def is_of_0_1_0(mark: Mark) -> bool:
    """Whether version 0.1.0 wrote a mark.

    It treated every such name beside the file as a generation, and has read it as one.
    """
    return mark.head is not None and mark.tail is None


class ReadFile(Protocol):
    """The reader of one file."""

    @property
    def mark(self) -> Mark | None:
        """The current position in the file."""

    @property
    def is_finished(self) -> bool:
        """Whether everything read was delivered, and the file is no longer at the path."""

    def close(self) -> None:
        """Close the file, if it is open."""


ReaderT = TypeVar("ReaderT", bound=ReadFile)


class MatchingReaders(Generic[ReaderT]):
    """The readers of the files that are assigned to a task, by path."""

    def __init__(
        self,
        share: tuple[int, int],
        offset: Callable[[str], Mapping[str, Any] | None],
        make: Callable[[str, Mapping[str, Any] | None, Generations], ReaderT],
    ) -> None:
        """`share` is the task's number and the number of tasks.

        `offset` returns a path's stored offset.
        """
        self._index, self._count = share
        self._offset = offset
        self._make = make
        self.readers: dict[str, ReaderT] = {}
        self._over: set[str] = set()
        self._found: set[str] = set()
        self._unread: set[str] = set()
        self._families: dict[str, Family] = {}
        self._claims: dict[int, list[tuple[str, Mark]]] | None = None

    def look(self, found: Iterable[str]) -> None:
        """Create and close readers for the files that exist now."""
        self._found = set(found)
        self._unread -= self._found
        self._families.clear()
        self._claims = None
        for path in sorted(self._found):
            for base in self._bases(path):
                # The file was renamed, and no new one exists yet: the rest of it is still to be read.
                if base not in self._found and self._family(base).rotates:
                    self._ensure(base)
            self._ensure(path)
        for path in [path for path, reader in self.readers.items() if reader.is_finished]:
            if self._relation(path) is FileRelation.GENERATION:
                self.readers.pop(path).close()
                self._over.add(path)

    def _ensure(self, path: str) -> None:
        """Create a reader for a path, if it is this task's and an independent file."""
        if path in self.readers or path in self._over or not self._is_mine(path):
            return
        offset = self._offset(path)
        relation = self._relation(path)
        if relation is FileRelation.OWN:
            generations = Generations(
                Path(path),
                by_name=False,
                is_foreign=lambda where: self._is_foreign(str(where), path),
            )
            generations.rotates = self._was_rotated(path, offset)
            self.readers[path] = self._make(path, offset, generations)
        elif relation is FileRelation.GENERATION and offset is not None:
            # It was an independent file before: it is read to its end.
            beside = Path(self._bases(path)[0]).name
            generations = Generations(
                Path(path), by_name=False, beside=beside, is_foreign=lambda where: True
            )
            self.readers[path] = self._make(path, offset, generations)

    def _is_mine(self, path: str) -> bool:
        return zlib.crc32(os.fsencode(path)) % self._count == self._index

    def _bases(self, path: str) -> list[str]:
        """The files, existing or read before, of which a file could be a rotated generation."""
        return [
            base
            for base in possible_bases(path)
            if base in self._found or base in self.readers or self._was_read(base)
        ]

    def _was_read(self, path: str) -> bool:
        """Whether a missing file has an offset; none is added while it is missing."""
        if path not in self._unread and self._offset(path) is None:
            self._unread.add(path)
        return path not in self._unread

    def _relation(self, path: str, besides: str | None = None) -> FileRelation:
        """The relation of a file to those of which it could be a generation."""
        relations = {
            self._family(base).relation(path) for base in self._bases(path) if base != besides
        }
        for relation in (FileRelation.GENERATION, FileRelation.UNKNOWN):
            if relation in relations:
                return relation
        return FileRelation.OWN

    def _is_foreign(self, where: str, path: str) -> bool:
        """Whether a file currently belongs to another file than the path's."""
        self._families.clear()
        if self._relation(where, besides=path) is not FileRelation.OWN:
            return True
        generation = open_generation(Path(where))
        if generation is None:
            return True
        try:
            claims = self._claims_by_inode().get(generation.inode, ())
            return any(name != path and mark.fits(generation) for name, mark in claims)
        finally:
            generation.close()

    def _claims_by_inode(self) -> dict[int, list[tuple[str, Mark]]]:
        """The paths under which inodes are being read, among those with names like rotated ones."""
        if self._claims is None:
            self._claims = {}
            for path in self._found:
                mark = self._mark(path) if possible_bases(path) else None
                if mark is not None and mark.inode is not None:
                    self._claims.setdefault(mark.inode, []).append((path, mark))
        return self._claims

    def _family(self, base: str) -> Family:
        if base not in self._families:
            self._families[base] = Family(base, self._mark(base))
        return self._families[base]

    def _mark(self, path: str) -> Mark | None:
        """The position in a path's file, of this task or another."""
        if path in self.readers:
            return self.readers[path].mark
        offset = self._offset(path)
        return Mark.of_offset(offset) if offset else None

    def _was_rotated(self, path: str, offset: Mapping[str, Any] | None) -> bool:
        """Whether version 0.1.0 has read a file, and possibly others as its generations."""
        if offset is None or not is_of_0_1_0(Mark.of_offset(offset)):
            return False
        return any(path in possible_bases(other) for other in self._found)
