"""Which files of a pattern are rotated generations of another file, and which are independent.

`logs/*` matches `app.log` and `app.log.1`, and `parts/*` matches `part` and `part-1`: names alone do not
decide. `app.log.1` belongs to `app.log` once a rotation was observed: what was read as `app.log` is now
found under such a name, by its inode or by its content.
"""

import time
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path

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
