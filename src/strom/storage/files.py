"""The only access to the disk. Nothing else in `strom.storage` calls the operating system.

`FileSystem` and `File` are the operations that storage needs. `DiskFiles` runs them on the operating
system; `strom.testing.MemoryFiles` runs them in memory and simulates crashes and failing disks.
Differences between operating systems are handled here.
"""

import errno
import os
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar

from strom.storage.descriptor_reserve import DescriptorReserve
from strom.supervision.file_lock import ProcessLock, acquire
from strom.wire.kafka.batch import Buffer

T = TypeVar("T")

_WINDOWS = sys.platform == "win32"
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_TEMPORARY = _NO_SPACE | _NO_DESCRIPTORS | {errno.ENOMEM}
_MOST_OPEN_FILES = 16_384
ENOUGH_OPEN_FILES = 4096
"""As many are for storage rather than for connections, if that is at most half of all descriptors."""
_OTHER_DESCRIPTORS = 72
"""Descriptors reserved for the event loop, listeners, spares and a few connections."""
_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
_SENDFILE = sys.platform == "linux"
"""macOS has sendfile too, but reports the bytes sent only in an error when it would block."""
_F_FULLFSYNC = 51
"""macOS: the fcntl that also flushes the drive's cache, which fsync does not do there."""


class Space(NamedTuple):
    total: int
    free: int


class DirectoryNotOpened(OSError):
    """A folder could not be opened for a sync: no sync has failed, so a retry is allowed."""


class File(Protocol):
    """An open file that is appended to or truncated. Failures are OSError."""

    def append(self, data: Buffer) -> None:
        """Append all of it. After a failure a part may be written: truncate the file."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Bytes from a position on; fewer only at the end of the file."""
        ...

    def send(self, socket: int, position: int, length: int) -> int:
        """Send bytes to a socket with sendfile; returns how many, 0 if the socket is full."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def datasync(self) -> None:
        """Return when everything written is on the medium. Never retry after a failure (see `Disk`)."""
        ...

    def close(self) -> None:
        """Close the descriptor, without syncing."""
        ...


class Lock(Protocol):
    """A lock on a data directory, held until released or until the process ends."""

    def release(self) -> None: ...


class FileSystem(Protocol):
    """The file system as storage needs it. Paths have forward slashes. Failures are OSError."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and appending."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder within its parent atomically, replacing the target if it exists."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def list(self, path: str) -> "list[str]":
        """Names in a folder, sorted."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """Length of a file in bytes, without opening it."""
        ...

    def modified_ms(self, path: str) -> int:
        """When a file was last written, in milliseconds since 1970."""
        ...

    def make_directory(self, path: str) -> None:
        """Create a folder and its parents, unless it exists."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return when creations, renames and removals in a folder are on the medium.

        DirectoryNotOpened if no sync was attempted; never retry after any other failure.
        """
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock of that name, or raise LockHeld."""
        ...

    def space(self, path: str) -> Space: ...

    def open_file_limit(self) -> int:
        """How many files storage may hold open at once."""
        ...


def is_temporary(error: OSError) -> bool:
    """Whether a failure is a temporary shortage (space, descriptors, memory), not damage."""
    return error.errno in _TEMPORARY


def is_out_of_space(error: OSError) -> bool:
    return error.errno in _NO_SPACE


def is_out_of_descriptors(error: OSError) -> bool:
    return error.errno in _NO_DESCRIPTORS


def create_durable_directory(files: FileSystem, path: str) -> None:
    """Create a folder and its parents durably: a crash does not undo it."""
    parent = path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
    if not files.exists(parent):
        create_durable_directory(files, parent)
    files.make_directory(path)
    files.sync_directory(parent)


def read_file(files: FileSystem, path: str) -> bytes:
    file = files.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def write_file(files: FileSystem, path: str, data: Buffer) -> None:
    """Write and sync a file; its directory entry is not synced."""
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.append(data)
        file.datasync()
    except OSError:
        with suppress(OSError):  # a partial file is worse than none
            files.remove(path)
        raise
    finally:
        file.close()


def replace_file(files: FileSystem, folder: str, name: str, data: Buffer) -> None:
    """Replace a file atomically and durably: a crash leaves the old or the new content."""
    path = f"{folder}/{name}"
    write_file(files, f"{path}.tmp", data)
    files.rename(f"{path}.tmp", path)
    files.sync_directory(folder)


class DiskFile:
    __slots__ = ("_descriptor", "_reading", "_reserve")

    def __init__(self, descriptor: int, reserve: DescriptorReserve) -> None:
        self._descriptor = descriptor
        self._reserve = reserve
        self._reading = threading.Lock() if _WINDOWS else None

    def append(self, data: Buffer) -> None:
        written = os.write(self._descriptor, data)
        if written == len(data):
            return
        rest = memoryview(data)[written:]
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def pread(self, length: int, position: int) -> bytes:
        data = self._read_at(length, position)
        if len(data) == length:
            return data
        parts = [data]
        missing = length - len(data)
        while data and missing:
            data = self._read_at(missing, position + length - missing)
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def send(self, socket: int, position: int, length: int) -> int:
        if not _SENDFILE:
            return 0
        try:
            return os.sendfile(socket, self._descriptor, position, length)
        except BlockingIOError:
            return 0

    def _read_at(self, length: int, position: int) -> bytes:
        if self._reading is None:
            return os.pread(self._descriptor, length, position)
        with self._reading:  # Windows has no pread
            os.lseek(self._descriptor, position, os.SEEK_SET)
            return os.read(self._descriptor, length)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def datasync(self) -> None:
        _datasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)
        self._reserve.refill()


def _choose_datasync() -> Callable[[int], None]:
    if sys.platform == "darwin":
        import fcntl

        def full_sync(descriptor: int) -> None:
            fcntl.fcntl(descriptor, _F_FULLFSYNC)

        return full_sync
    return getattr(os, "fdatasync", os.fsync)


_datasync = _choose_datasync()


def _open_nothing() -> int:
    return os.open(os.devnull, os.O_RDONLY)


class DiskFiles:
    """The files of the operating system; uses spare descriptors when all others are taken.

    `connections` is how many descriptors the process wants for connections.
    """

    def __init__(self, spare_descriptors: int = 0, *, connections: int = 0) -> None:
        self._connections = connections
        self._reserve = DescriptorReserve(spare_descriptors, _open_nothing, os.close)

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        flags = _OPEN_FLAGS | os.O_CREAT if create else _OPEN_FLAGS
        descriptor = self._with_reserve(lambda: os.open(path, flags, 0o644))
        return DiskFile(descriptor, self._reserve)

    def _with_reserve(self, call: Callable[[], T]) -> T:
        """Run a call that needs a descriptor, if necessary with one of the reserve."""
        while True:
            try:
                return call()
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS or not self._reserve.release_one():
                    raise

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        self._with_reserve(lambda: shutil.rmtree(path))
        self._reserve.refill()

    def list(self, path: str) -> "list[str]":
        names = self._with_reserve(lambda: os.listdir(path))
        self._reserve.refill()
        return sorted(names)

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        if _WINDOWS:
            return  # NTFS journals directory entries
        flags = os.O_RDONLY | os.O_DIRECTORY
        try:
            descriptor = self._with_reserve(lambda: os.open(path, flags))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DirectoryNotOpened(error.errno, error.strerror, path) from error
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            self._reserve.refill()

    def lock(self, path: str) -> ProcessLock:
        """Take the lock of that name, or raise LockHeld."""
        return acquire(path)

    def space(self, path: str) -> Space:
        usage = shutil.disk_usage(path)
        return Space(usage.total, usage.free)

    def open_file_limit(self) -> int:
        """Half of the descriptor limit, or less if that leaves too few for the rest of the process.

        Connections may take more than the other half, but not from the last ENOUGH_OPEN_FILES.
        """
        if _WINDOWS:
            return 1024
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return _MOST_OPEN_FILES
        others = soft - _OTHER_DESCRIPTORS
        unwanted = max(others - self._connections, ENOUGH_OPEN_FILES)
        return max(8, min(soft // 2, others, unwanted, _MOST_OPEN_FILES))
