"""Which files of a pattern are rotated generations of another one, and which are files of their own.

`logs/*` matches `app.log` and `app.log.1`, and `parts/*` matches `part` and `part-1`: names alone do not
tell which is which. `app.log.1` belongs to `app.log` once that was seen to be rotated: what was read as
`app.log` is now found under such a name, by its inode or by its content.
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
"""How long a file that begins like another may be a copy of it that is still made (`copytruncate`)."""


class Relation(Enum):
    """What one file is to another."""

    OWN = auto()
    """A file of its own."""
    GENERATION = auto()
    """A rotated generation of the other."""
    UNKNOWN = auto()
    """Not known yet."""


@lru_cache(maxsize=100_000)
def possible_bases(path: str) -> tuple[str, ...]:
    """The files, there or not, of whose names a file's name could be a rotated form."""
    name = Path(path).name
    start = len(path) - len(name)
    cuts = (place for place, character in enumerate(name) if character in ".-")
    return tuple(path[: start + cut] for cut in cuts if is_rotated(name, name[:cut]))


class Family:
    """A file and those with rotated forms of its name, as they are at one moment."""

    def __init__(self, base: str, mark: Mark | None) -> None:
        """`mark` says how far the base was read; None: not at all."""
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

    def relation(self, path: str) -> Relation:
        """What a file is to the base."""
        if self.rotates:
            return Relation.GENERATION
        if self._mark is None:
            return Relation.OWN
        candidate = open_generation(Path(path))
        if candidate is None:
            return Relation.UNKNOWN
        try:
            if candidate.inode == self._mark.inode and self._mark.fits(candidate):
                return Relation.GENERATION  # another name of the same file
            if candidate.age_s(time.time()) < COPYING_S and self._may_be_copy(candidate):
                return Relation.UNKNOWN
            return Relation.OWN
        finally:
            candidate.close()

    def _may_be_copy(self, candidate: Generation) -> bool:
        """Whether a file holds what the base holds, as far as it goes; the base is cut after that."""
        base = open_generation(self._base) if self._is_intact else None
        if base is None:
            # A compressed copy that cannot be read yet may be of what is not there any more.
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
    """Whether version 0.1.0 made a mark.

    It took every such name beside the file for a generation, and has read it as one if it was.
    """
    return mark.head is not None and mark.tail is None
