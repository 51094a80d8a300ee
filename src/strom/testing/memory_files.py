"""A file system in memory that simulates crashes and failing disks, for tests of durability.

`crash()` simulates a power failure. Of what was written and not synced, any part may survive: nothing,
all, the first bytes, or a later page without an earlier one. The same holds for directory entries: a
creation, rename or removal in a folder that was not synced since may be undone. `fail()` makes a call
fail. Everything random comes from the seed.
"""

import errno
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from strom.storage.files import DirectoryNotOpened, Space
from strom.supervision.file_lock import LockHeld
from strom.wire.kafka.batch import Buffer

_PAGE = 512
"""Small, so that small tests tear across pages too."""


@dataclass
class _Content:
    """A file's bytes, as programs see them and as they are on the medium."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    sync_failed: bool = False
    modified_ms: int = 0


@dataclass
class _Folder:
    """A folder's entries; `durable` are those on the medium, `changes` what came since."""

    entries: "dict[str, _Content | _Folder]" = field(default_factory=dict)
    durable: "dict[str, _Content | _Folder]" = field(default_factory=dict)
    changes: "list[tuple[str, str, _Content | _Folder | None]]" = field(default_factory=list)


@dataclass
class _Failure:
    """The call that will fail, counted down, and how."""

    countdown: int
    error: OSError
    sticky: bool
    only: str | None


class MemoryFiles:
    """A file system in memory that loses what is not synced, and keeps what is."""

    def __init__(self, seed: int = 0) -> None:
        self.calls: Counter[str] = Counter()
        """How often each operation was called."""
        self.now_ms = 0
        self.limit = 1000
        self._random = Random(seed)  # noqa: S311 - chance, not secrets
        self._root = _Folder()
        self._locks: set[str] = set()
        self._failure: _Failure | None = None
        self._counting = threading.Lock()
        self._life = 0

    # Failures

    def fail(
        self,
        nth: int,
        error: OSError | int = errno.EIO,
        *,
        sticky: bool = False,
        only: str | None = None,
    ) -> None:
        """Make the nth call from now fail, with `sticky` all later ones; `only` counts one operation."""
        failing = error if isinstance(error, OSError) else OSError(error, "injected")
        self._failure = _Failure(nth, failing, sticky, only)

    def heal(self) -> None:
        """Let all calls succeed again."""
        self._failure = None

    @property
    def has_failed(self) -> bool:
        """Whether the call that must fail was made."""
        return self._failure is not None and self._failure.countdown <= 0

    def crash(self) -> None:
        """Simulate a power failure: open files and locks are lost, and what was not synced may be."""
        self.kill()
        self._crash_folder(self._root)

    def kill(self) -> None:
        """Simulate the death of the process: open files and locks are lost, but not what was written."""
        self._failure = None
        self._locks.clear()
        self._life += 1

    def _crash_folder(self, folder: _Folder) -> None:
        survived = dict(folder.durable)
        keep_rate = self._random.choice((0.0, 0.5, 1.0))
        for verb, name, payload in folder.changes:
            if self._random.random() >= keep_rate:
                continue
            if verb == "add" and payload is not None:
                survived[name] = payload
            elif verb == "remove":
                survived.pop(name, None)
            elif verb.startswith("rename "):
                source = verb.removeprefix("rename ")
                if survived.get(source) is payload and payload is not None:
                    del survived[source]
                    survived[name] = payload
        folder.entries, folder.durable, folder.changes = survived, dict(survived), []
        for entry in survived.values():
            if isinstance(entry, _Folder):
                self._crash_folder(entry)
            else:
                self._crash_content(entry)

    def _crash_content(self, content: _Content) -> None:
        content.data = bytearray(self._survivor(bytes(content.data), content.durable))
        content.durable = bytes(content.data)
        content.sync_failed = False

    def _survivor(self, written: bytes, durable: bytes) -> bytes:
        if written == durable:
            return durable
        match self._random.choice(("nothing", "all", "prefix", "holes")):
            case "nothing":
                return durable
            case "all":
                return written
            case "prefix":
                if written.startswith(durable):
                    return written[: self._random.randint(len(durable), len(written))]
                return self._random.choice((written, durable))
            case _:
                return self._with_holes(written, durable)

    def _with_holes(self, written: bytes, durable: bytes) -> bytes:
        """Some pages with their old, some with their new content; pages never written are zeros."""
        size = self._random.choice((len(written), max(len(written), len(durable))))
        old, new = durable.ljust(size, b"\0"), written.ljust(size, b"\0")
        pages = []
        for at in range(0, size, _PAGE):
            if new[at : at + _PAGE] == old[at : at + _PAGE]:
                pages.append(old[at : at + _PAGE])
            else:
                # Within a page, what was synced before is not lost to a later append.
                pages.append(self._random.choice((old, new))[at : at + _PAGE])
        return b"".join(pages)[:size]

    def count(self, verb: str) -> OSError | None:
        """Count a call; returns the error that it must fail with, if any."""
        with self._counting:  # logs are flushed on several threads
            self.calls[verb] += 1
            failure = self._failure
            if failure is None or (failure.only is not None and failure.only != verb):
                return None
            failure.countdown -= 1
            if failure.countdown == 0 or (failure.countdown < 0 and failure.sticky):
                return failure.error
            return None

    def _call(self, verb: str) -> None:
        error = self.count(verb)
        if error is not None:
            raise error

    def chance(self, at_most: int) -> int:
        """A random number from 0 to `at_most`, inclusive."""
        return self._random.randint(0, at_most)

    @property
    def life(self) -> int:
        """How many processes have ended; files opened by an earlier one are closed."""
        return self._life

    # The operations of `FileSystem`

    def open(self, path: str, *, create: bool = False) -> "MemoryFile":
        """Open a file for reading and appending."""
        self._call("open")
        folder, name = self._parent(path)
        entry = folder.entries.get(name)
        if isinstance(entry, _Folder):
            raise IsADirectoryError(errno.EISDIR, "is a folder", path)
        if entry is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            entry = _Content(modified_ms=self.now_ms)
            folder.entries[name] = entry
            folder.changes.append(("add", name, entry))
        return MemoryFile(self, entry)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder within its parent."""
        self._call("rename")
        folder, old_name = self._parent(source)
        other, new_name = self._parent(target)
        if folder is not other:
            raise ValueError("renames across folders are not modelled")
        if old_name not in folder.entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        entry = folder.entries.pop(old_name)
        folder.entries[new_name] = entry
        folder.changes.append((f"rename {old_name}", new_name, entry))

    def remove(self, path: str) -> None:
        """Remove a file, not a folder."""
        self._call("remove")
        self._content(path)
        self._unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder and everything in it."""
        self._call("remove_tree")
        self._folder(path)
        self._unlink(path)

    def _unlink(self, path: str) -> None:
        folder, name = self._parent(path)
        del folder.entries[name]
        folder.changes.append(("remove", name, None))

    def list(self, path: str) -> "list[str]":
        """Names in a folder, sorted."""
        self._call("list")
        return sorted(self._folder(path).entries)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        """Whether the path is an existing folder."""
        return isinstance(self._find(path), _Folder)

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        self._call("size")
        return len(self._content(path).data)

    def modified_ms(self, path: str) -> int:
        """When a file was last written."""
        return self._content(path).modified_ms

    def make_directory(self, path: str) -> None:
        """Create a folder and its parents, unless it exists."""
        self._call("make_directory")
        folder = self._root
        for name in _parts(path):
            entry = folder.entries.get(name)
            if entry is None:
                entry = _Folder()
                folder.entries[name] = entry
                folder.changes.append(("add", name, entry))
            if not isinstance(entry, _Folder):
                raise FileExistsError(errno.EEXIST, "is a file", path)
            folder = entry

    def sync_directory(self, path: str) -> None:
        """Make the folder's entries durable; opening the folder counts as a separate call."""
        folder = self._folder(path)
        error = self.count("open_directory")
        if error is not None:
            raise DirectoryNotOpened(error.errno, error.strerror, path)
        self._call("sync_directory")
        folder.durable, folder.changes = dict(folder.entries), []

    def lock(self, path: str) -> "MemoryLock":
        """Take the lock of that name."""
        if path in self._locks:
            raise LockHeld(path, "another process")
        self.open(path, create=True).close()
        self._locks.add(path)
        return MemoryLock(self._locks, path)

    def space(self, path: str) -> Space:
        """A terabyte, all of it free."""
        return Space(2**40, 2**40 if self.exists(path) else 0)

    def open_file_limit(self) -> int:
        """The value of the attribute `limit`."""
        return self.limit

    # For tests: reading and damaging files

    def peek(self, path: str) -> bytes:
        """The content of a file; not counted as a call."""
        return bytes(self._content(path).data)

    def poke(self, path: str, data: Buffer) -> None:
        """Replace the content of a file, durably."""
        content = self._content(path)
        content.data, content.durable = bytearray(data), bytes(data)

    def paths(self, path: str = "") -> Iterator[str]:
        """All files below a folder."""
        folder = self._folder(path)
        for name, entry in sorted(folder.entries.items()):
            below = f"{path}/{name}" if path else name
            if isinstance(entry, _Folder):
                yield from self.paths(below)
            else:
                yield below

    def sync_all(self) -> None:
        """Make everything durable, as the kernel does after some time."""
        self._sync_folder(self._root)

    def _sync_folder(self, folder: _Folder) -> None:
        folder.durable, folder.changes = dict(folder.entries), []
        for entry in folder.entries.values():
            if isinstance(entry, _Folder):
                self._sync_folder(entry)
            else:
                entry.durable = bytes(entry.data)

    # Lookup

    def _find(self, path: str) -> "_Content | _Folder | None":
        entry: _Content | _Folder | None = self._root
        for name in _parts(path):
            entry = entry.entries.get(name) if isinstance(entry, _Folder) else None
        return entry

    def _folder(self, path: str) -> _Folder:
        folder = self._find(path)
        if not isinstance(folder, _Folder):
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        return folder

    def _content(self, path: str) -> _Content:
        content = self._find(path)
        if not isinstance(content, _Content):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return content

    def _parent(self, path: str) -> tuple[_Folder, str]:
        parent, _, name = path.rpartition("/")
        return self._folder(parent), name


class MemoryFile:
    """An open file of MemoryFiles."""

    def __init__(self, files: MemoryFiles, content: _Content) -> None:
        self._files = files
        self._content = content
        self._life = files.life
        self._closed = False

    def append(self, data: Buffer) -> None:
        """Append all of it; a failing call appends a random part first."""
        error = self._enter("append")
        if error is not None:
            self._content.data += bytes(data)[: self._files.chance(len(data))]
            raise error
        self._content.data += data
        self._content.modified_ms = self._files.now_ms

    def send(self, socket: int, position: int, length: int) -> int:
        """Returns 0, as without sendfile: the caller reads the file instead."""
        return 0

    def pread(self, length: int, position: int) -> bytes:
        """Bytes from a position on."""
        self._raise("pread")
        return bytes(self._content.data[position : position + length])

    def size(self) -> int:
        """The length of the file in bytes."""
        self._raise("file_size")
        return len(self._content.data)

    def truncate(self, size: int) -> None:
        """Cut the file to a length."""
        self._raise("truncate")
        del self._content.data[size:]

    def datasync(self) -> None:
        """Make the bytes durable. After a failure, later calls succeed without effect, as on Linux."""
        error = self._enter("datasync")
        if error is not None:
            self._content.sync_failed = True
            raise error
        if not self._content.sync_failed:
            self._content.durable = bytes(self._content.data)

    def close(self) -> None:
        """Close the file; a second call fails."""
        if self._closed:
            raise OSError(errno.EBADF, "closed twice")
        self._closed = True

    def _enter(self, verb: str) -> OSError | None:
        if self._closed or self._life != self._files.life:
            raise OSError(errno.EBADF, "the file is closed")
        return self._files.count(verb)

    def _raise(self, verb: str) -> None:
        error = self._enter(verb)
        if error is not None:
            raise error


class MemoryLock:
    """A lock of MemoryFiles."""

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        """Release the lock for other processes."""
        self._locks.discard(self._path)


def _parts(path: str) -> "list[str]":
    return [part for part in path.split("/") if part not in {"", "."}]
