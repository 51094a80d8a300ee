"""Which file is which: a log file is renamed, copied, compressed and begun anew while it is read.

A file's **generations** are what its path has held over time. The newest is at the path itself,
older ones lie beside it under rotated names (`app.log.1`, `app.log-20261115.gz`). A generation is
known by its inode and by its **head**, the first bytes, which do not change in a file that only
grows; a copied or compressed one has another inode, but still the same head.
"""

import gzip
import logging
import os
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, cast

from strom.connect.api import ConnectError

_log = logging.getLogger(__name__)
HEAD_BYTES = 1024
GZIP = ".gz"
_HEAD = re.compile(r"\d{1,6}:[0-9a-f]+")
_ROTATED = re.compile(r"[.-](\d[\w.:-]*?|old)(\.gz)?")
"""What follows a log file's name when it was rotated: a number, a date, `.old`."""


@dataclass(frozen=True)
class Mark:
    """How far a generation was read, as it is kept in source offsets.

    Kafka's own file source keeps the position alone: such a mark fits any file that is long enough.
    """

    position: int
    inode: int | None = None
    head: str | None = None
    """`LENGTH:DIGEST` of the first bytes."""

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any]) -> "Mark":
        """The mark in a source offset; ConnectError if someone has put nonsense there."""
        position, inode, head = (offset.get(name) for name in ("position", "inode", "head"))
        good = isinstance(position, int) and position >= 0
        good = good and (inode is None or isinstance(inode, int))
        good = good and (head is None or _HEAD.fullmatch(str(head)) is not None)
        if not good or not isinstance(position, int):
            raise ConnectError(f"A file's offset holds a position, not {dict(offset)}: reset it.")
        return cls(position, inode, head)

    def fits(self, generation: "Generation") -> bool:
        """Whether the generation can be the marked one, going by its length and its head."""
        if generation.shorter_than(self.position):
            return False
        if self.head is None:
            return True
        length = int(self.head.partition(":")[0])
        return head_digest(generation.first(length)) == self.head


def head_digest(head: bytes) -> str:
    """The short form in which a head is kept."""
    return f"{len(head)}:{blake2b(head, digest_size=8).hexdigest()}"


class Generation:
    """A file opened for reading; it stays the same one when it is renamed or removed."""

    compressed = False
    whole = True
    """Whether all that it holds can be read; not so for a compressed one that is still copied."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("rb", buffering=0)
        status = os.fstat(self._file.fileno())
        self.inode = status.st_ino
        self.head = b""
        """Its first bytes as they were when they were read."""

    @property
    def modified_ns(self) -> int:
        """When it was last written."""
        return os.fstat(self._file.fileno()).st_mtime_ns

    @property
    def size(self) -> int:
        """Its length at present."""
        return os.fstat(self._file.fileno()).st_size

    def shorter_than(self, length: int) -> bool:
        """Whether it has not even this many bytes."""
        return self.size < length

    def first(self, length: int) -> bytes:
        """Up to so many of its first bytes."""
        return self.read(0, length)

    def read(self, position: int, size: int) -> bytes:
        """The bytes at a position; fewer at its end."""
        self._file.seek(position)
        return self._file.read(size)

    def note_head(self) -> bool:
        """Take over more of the head while it is short; False if it is no longer what it was."""
        now = self.first(HEAD_BYTES)
        if now[: len(self.head)] != self.head:
            return False
        self.head = now
        return True

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class CompressedGeneration(Generation):
    """A gzip file; positions count the bytes that it holds uncompressed."""

    compressed = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._begin()

    def _begin(self) -> None:
        self._file.seek(0)
        self._plain = cast("BinaryIO", gzip.GzipFile(fileobj=self._file, mode="rb"))

    def read(self, position: int, size: int) -> bytes:
        """The bytes at a position; fewer at its end, and where the file is not whole yet."""
        try:
            self._plain.seek(position)  # backwards means to begin anew, which gzip does by itself
            block = self._plain.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if self.whole:
                _log.warning("%s cannot be decompressed (yet): %s", self.path, error)
            self.whole = False
            self._begin()
            return b""
        self.whole = True
        return block

    def note_head(self) -> bool:
        """Take over the head, once: a compressed file does not change any more."""
        self.head = self.head or self.first(HEAD_BYTES)
        return True

    def shorter_than(self, length: int) -> bool:
        """Whether it has not even this many bytes."""
        return length > 0 and not self.read(length - 1, 1)

    @property
    def size(self) -> int:
        """Its uncompressed length, modulo 4 GiB: the last four bytes say it."""
        self._file.seek(-4, os.SEEK_END)
        length = int.from_bytes(self._file.read(4), "little")
        self._begin()
        return length

    def close(self) -> None:
        """Let go of the file."""
        self._plain.close()
        super().close()


def open_generation(path: Path) -> Generation | None:
    """The file at a path; None if there is none, or it may not be read."""
    try:
        return (CompressedGeneration if path.name.endswith(GZIP) else Generation)(path)
    except OSError:
        return None


def is_rotated(name: str, of: str) -> bool:
    """Whether one file's name is a rotated form of another's."""
    return name.startswith(of) and _ROTATED.fullmatch(name[len(of) :]) is not None


class Generations:
    """All that a path has held, as far as it is still there."""

    def __init__(self, path: Path, pattern: str | None = None) -> None:
        """`pattern` says what the rotated ones are called, where they are called otherwise."""
        self.path = path
        self._pattern = pattern

    def newest(self) -> Generation | None:
        """The one at the path itself; None if there is none."""
        return open_generation(self.path)

    def marked(self, mark: Mark) -> Generation | None:
        """The one that a mark was made in; None if it is not there any more."""
        candidates = [
            generation
            for where in (*self._rotated(), self.path)
            if (generation := open_generation(where)) is not None
        ]
        fitting = [generation for generation in candidates if mark.fits(generation)]
        chosen = next(iter(sorted(fitting, key=lambda one: self._likeness(one, mark))), None)
        for candidate in candidates:
            if candidate is not chosen:
                candidate.close()
        return chosen

    def _likeness(self, generation: Generation, mark: Mark) -> int:
        # The same inode is the best sign. Without one, an older file comes first: to begin in it and
        # read some lines twice is better than to lose what follows in it.
        if mark.inode is None:
            return 0 if generation.path == self.path else 1
        return 0 if generation.inode == mark.inode else 1

    def after(self, current: Generation) -> Generation | None:
        """The one that followed one that is no longer at the path; None if none is there yet.

        A new file at the path that is still empty does not count: its writer may still be writing to
        the old one. Once it has written to the new one, the old one is finished.
        """
        for where in (*self._rotated(), self.path):
            generation = open_generation(where)
            if generation is None:
                continue
            if where == self.path:
                newer = generation.inode != current.inode and not generation.shorter_than(1)
            else:
                newer = generation.modified_ns > current.modified_ns
                newer = newer and not _same(generation, current)
            if newer:
                return generation
            generation.close()
        return None

    def _rotated(self) -> list[Path]:
        """The rotated ones, oldest first."""
        found = []
        try:
            entries = list(os.scandir(self.path.parent))
        except OSError:
            return []
        for entry in entries:
            if self._is_rotated(entry.name):
                try:
                    found.append((entry.stat().st_mtime_ns, entry.name))
                except OSError:
                    continue  # removed meanwhile
        return [self.path.parent / name for _, name in sorted(found)]

    def _is_rotated(self, name: str) -> bool:
        if self._pattern is not None:
            return name != self.path.name and fnmatch(name, self._pattern)
        return is_rotated(name, self.path.name)


def _same(generation: Generation, current: Generation) -> bool:
    """Whether a rotated file is the current one, perhaps compressed meanwhile."""
    if generation.inode == current.inode:
        return True
    if not generation.compressed or current.compressed:
        return False
    same_head = generation.first(len(current.head)) == current.head
    return same_head and generation.size == current.size % 2**32
