"""Identifies a log file while it is renamed, copied, compressed and recreated.

A file's **generations** are what its path has held over time. The newest is at the path itself, older
ones are beside it under rotated names (`app.log.1`, `app.log-20261115.gz`). A generation is identified
by its inode, by its **head**, the first bytes, and by its **tail**, the last bytes that were read: they
do not change in a file that only grows. A copied or compressed one has another inode, but the same head
and tail. Another file may have the same head, such as a header and a licence.
"""

import gzip
import logging
import os
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, cast

from strom.connect.api import ConnectError

_log = logging.getLogger(__name__)
HEAD_BYTES = 1024
TAIL_BYTES = 1024
GZIP = ".gz"
_HEAD = re.compile(r"\d{1,6}:[0-9a-f]+")
_TAIL = re.compile(r"\d{1,19}:\d{1,6}:[0-9a-f]+")
_ROTATED = re.compile(r"[.-](\d[\w.:-]*?|old)(\.gz)?")
"""The suffix of a rotated log file: a number, a date, `.old`."""


@dataclass(frozen=True)
class Mark:
    """The position in a generation, as stored in source offsets.

    Kafka's FileStreamSource stores the position alone: such a mark matches any file that is long enough.
    """

    position: int
    inode: int | None = None
    head: str | None = None
    """`LENGTH:DIGEST` of the first bytes."""
    tail: str | None = None
    """`END:LENGTH:DIGEST` of the last bytes that were read, up to END. Version 0.1.0 did not store it."""
    rotates: bool = False
    """Whether the file was seen rotated under the usual names."""

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any]) -> "Mark":
        """The mark in a source offset; ConnectError if the offset is invalid."""
        names = ("position", "inode", "head", "tail")
        position, inode, head, tail = (offset.get(name) for name in names)
        good = isinstance(position, int) and position >= 0
        good = good and (inode is None or isinstance(inode, int))
        good = good and (head is None or _HEAD.fullmatch(str(head)) is not None)
        good = good and (tail is None or _TAIL.fullmatch(str(tail)) is not None)
        if not good or not isinstance(position, int):
            raise ConnectError(
                f"Invalid source offset of a file: {dict(offset)}. Reset the connector's offsets."
            )
        return cls(position, inode, head, tail, offset.get("rotates") is True)

    def identity(self) -> dict[str, Any]:
        """The part of a source offset that identifies the file."""
        identity: dict[str, Any] = {"inode": self.inode, "head": self.head, "tail": self.tail}
        return identity | {"rotates": True} if self.rotates else identity

    def fits(self, generation: "Generation") -> bool:
        """Whether the generation can be the marked one, by its length, head and tail."""
        if self.head is not None:
            length = int(self.head.partition(":")[0])
            if head_digest(generation.first(length)) != self.head:
                return False
        if self.tail is None:
            return not generation.shorter_than(self.position)
        end, length = (int(number) for number in self.tail.split(":")[:2])
        if Tail(end, generation.read(end - length, length)).digest() != self.tail:
            return False
        return self.position <= end or not generation.shorter_than(self.position)

    def is_proof_for(self, generation: "Generation") -> bool:
        """Whether a matching generation is certainly the marked one."""
        return self.inode == generation.inode or (self.tail is not None and self.position > 0)


def head_digest(head: bytes) -> str:
    """The length and digest of a head."""
    return f"{len(head)}:{blake2b(head, digest_size=8).hexdigest()}"


class Tail:
    """The last bytes that were delivered of a generation, which identify it."""

    def __init__(self, end: int, data: bytes) -> None:
        """`data` ends at the position `end`."""
        self._end, self._data = end, data
        self._fed, self._fed_end = data, end

    def feed(self, block: bytes, given: int) -> None:
        """Add the next block, which was delivered up to the position `given`."""
        start = self._fed_end
        if given >= start:  # else the bytes before it are unknown: the old tail remains valid
            inside = given - start
            part = block[max(0, inside - TAIL_BYTES) : inside]
            self._end, self._data = given, (self._fed + part)[-TAIL_BYTES:]
        self._fed = (self._fed + block[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._fed_end = start + len(block)

    def is_in(self, generation: "Generation") -> bool:
        """Whether the generation still has these bytes at their position."""
        return generation.read(self._end - len(self._data), len(self._data)) == self._data

    def digest(self) -> str:
        """The stored form of the tail."""
        return f"{self._end}:{head_digest(self._data)}"


class Generation:
    """A file opened for reading; it remains the same file when it is renamed or removed."""

    compressed = False
    whole = True
    """Whether all its content can be read; false for a compressed file that is still being copied."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("rb", buffering=0)
        status = os.fstat(self._file.fileno())
        self.inode = status.st_ino
        self.head = b""
        """Its first bytes as of when they were read."""

    @property
    def modified_ns(self) -> int:
        return os.fstat(self._file.fileno()).st_mtime_ns

    @property
    def size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def age_s(self, now: float) -> float:
        """The time since it was last written, renamed or created."""
        return now - os.fstat(self._file.fileno()).st_ctime

    def shorter_than(self, length: int) -> bool:
        """Whether it has fewer bytes than this."""
        return self.size < length

    def first(self, length: int) -> bytes:
        """At most this many of its first bytes."""
        return self.read(0, length)

    def read(self, position: int, size: int) -> bytes:
        """The bytes at a position; fewer at the end."""
        self._file.seek(position)
        return self._file.read(size)

    def tail_before(self, position: int) -> Tail:
        length = min(position, TAIL_BYTES)
        return Tail(position, self.read(position - length, length))

    def note_head(self) -> bool:
        """Extend the known head while it is short; False if the head has changed."""
        now = self.first(HEAD_BYTES)
        if now[: len(self.head)] != self.head:
            return False
        self.head = now
        return True

    def close(self) -> None:
        self._file.close()


class CompressedGeneration(Generation):
    """A gzip file; positions refer to the uncompressed content."""

    compressed = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._begin()

    def _begin(self) -> None:
        self._file.seek(0)
        self._plain = cast("BinaryIO", gzip.GzipFile(fileobj=self._file, mode="rb"))

    def read(self, position: int, size: int) -> bytes:
        """The bytes at a position; fewer at the end, and if the file is incomplete."""
        try:
            self._plain.seek(position)  # gzip rewinds and decompresses again to seek backwards
            block = self._plain.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if self.whole:
                _log.warning("%s cannot be decompressed yet: %s", self.path, error)
            self.whole = False
            self._begin()
            return b""
        self.whole = True
        return block

    def note_head(self) -> bool:
        """Read the head once: a compressed file does not change."""
        self.head = self.head or self.first(HEAD_BYTES)
        return True

    def shorter_than(self, length: int) -> bool:
        """Whether it has fewer bytes than this."""
        return length > 0 and not self.read(length - 1, 1)

    @property
    def size(self) -> int:
        """Its uncompressed length modulo 4 GiB, from the last four bytes."""
        self._file.seek(-4, os.SEEK_END)
        length = int.from_bytes(self._file.read(4), "little")
        self._begin()
        return length

    def close(self) -> None:
        self._plain.close()
        super().close()


def open_generation(path: Path) -> Generation | None:
    """The file at a path; None if it does not exist or is not readable."""
    try:
        return (CompressedGeneration if path.name.endswith(GZIP) else Generation)(path)
    except OSError:
        return None


def is_rotated(name: str, of: str) -> bool:
    return name.startswith(of) and _ROTATED.fullmatch(name[len(of) :]) is not None


class Generations:
    """The existing generations of a path."""

    def __init__(
        self,
        path: Path,
        pattern: str | None = None,
        *,
        by_name: bool = True,
        beside: str | None = None,
        is_foreign: Callable[[Path], bool] = lambda path: False,
    ) -> None:
        """`pattern` matches the names of rotated files, if they are not the usual ones.

        Without `by_name`, names make no generations until the marked one is found under a rotated name.
        `beside` is another file whose rotated names this one may have been given, and `is_foreign`
        identifies paths that belong to another file.
        """
        self.path = path
        self.rotates = False
        """Whether the marked file was found under a rotated name (without `by_name`)."""
        self._by_name = by_name
        self._pattern = pattern
        self._beside = beside
        self._is_foreign = is_foreign

    def newest(self) -> Generation | None:
        """The file at the path itself; None if there is none."""
        return None if self._is_foreign(self.path) else open_generation(self.path)

    def marked(self, mark: Mark) -> Generation | None:
        """The file that a mark refers to; None if it no longer exists."""
        if mark.inode is not None and (present := open_generation(self.path)) is not None:
            # Usually it is still in place: then the folder, which may be large, need not be listed.
            if present.inode == mark.inode and mark.fits(present):
                return present
            present.close()
        # The same inode is the best evidence. Without one, an older file comes first: reading some
        # lines twice is better than losing the lines behind them.
        paths = [*self._rotated(), self.path]
        if mark.inode is None:
            paths.insert(0, paths.pop())
        else:
            paths.sort(key=lambda path: _inode(path) != mark.inode)
        for path in paths:
            generation = open_generation(path)
            if generation is not None:
                if mark.fits(generation):
                    moved = path != self.path and mark.is_proof_for(generation)
                    self.rotates = self.rotates or (moved and not self._by_name)
                    return generation
                generation.close()
        return None

    def after(self, current: Generation, mark: Mark) -> Generation | None:
        """The successor of a generation that is no longer at the path; None if there is none yet.

        An empty new file at the path does not count: its writer may still append to the old one. Once
        it has written to the new one, the old one is complete.
        """
        if not self._by_name and not self.rotates and (old := self.marked(mark)) is not None:
            old.close()  # only its position among the others matters
        rotated = self._rotated() if self._by_name or self.rotates else []
        for where in (*rotated, self.path):
            generation = None if self._is_foreign(where) else open_generation(where)
            if generation is None:
                continue
            if where == self.path:
                newer = generation.inode != current.inode and not generation.shorter_than(1)
            else:
                newer = generation.modified_ns > current.modified_ns
                newer = newer and not _same(generation, current, mark)
            if newer:
                return generation
            generation.close()
        return None

    def _rotated(self) -> list[Path]:
        """The rotated files, oldest first."""
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
        if self._beside is not None and is_rotated(name, self._beside):
            return name != self.path.name
        return is_rotated(name, self.path.name)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _same(generation: Generation, current: Generation, mark: Mark) -> bool:
    """Whether a rotated file is the current one, possibly compressed meanwhile."""
    if generation.inode == current.inode:
        return True
    if not generation.compressed or current.compressed:
        return False
    return generation.size == current.size % 2**32 and mark.fits(generation)
