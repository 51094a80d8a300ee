"""The one seam to the disk. Nothing else in `strom.storage` touches the operating system.

`Files` and `File` are the verbs that storage needs, and no more. `DiskFiles` does them for real;
`strom.testing.MemoryFiles` does them cruelly, so that tests can pull the plug. What differs between
operating systems is chosen here.
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
_OTHER_DESCRIPTORS = 72
"""What the process needs at least for the event loop, listeners, spares and a few connections."""
_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
_SENDFILE = sys.platform == "linux"
"""macOS has sendfile too, but tells the bytes sent only through an error when it would block."""
_F_FULLFSYNC = 51
"""macOS: the request that also empties the drive's own cache, which fsync there does not."""


class Space(NamedTuple):
    """Bytes of a medium."""

    total: int
    free: int


class DirectoryNotOpened(OSError):
    """A folder could not even be opened to be synced: no sync has failed, and a retry is sound."""


class File(Protocol):
    """An open file that only grows at its end, or is cut. Failures are OSError."""

    def append(self, data: Buffer) -> None:
        """Write all of it at the end. After a failure a part of it may be there: cut it off."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Bytes from a position on; fewer only where the file ends."""
        ...

    def send(self, socket: int, position: int, length: int) -> int:
        """Send bytes to a socket without reading them; how many it took, 0 if none for now."""
        ...

    def size(self) -> int:
        """Length in bytes."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to a length."""
        ...

    def datasync(self) -> None:
        """Return when everything written is on the medium. Never call it again after it failed."""
        ...

    def close(self) -> None:
        """Give the descriptor back. Says nothing about what is on the medium."""
        ...


class Lock(Protocol):
    """A lock on a data directory, held until released or until the process ends."""

    def release(self) -> None:
        """Let others have it."""
        ...


class Files(Protocol):
    """What storage asks of a file system. Paths have forward slashes. Failures are OSError."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and appending."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder within its parent, over the target if there is one, in one step."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a folder and everything in it."""
        ...

    def list(self, path: str) -> "list[str]":
        """Names in a folder, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        ...

    def is_directory(self, path: str) -> bool:
        """Whether it is a folder."""
        ...

    def size(self, path: str) -> int:
        """Length of a file in bytes, without opening it."""
        ...

    def modified_ms(self, path: str) -> int:
        """When a file was last written, in milliseconds since 1970."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a folder, and its parents, unless it is there."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return when creations, renames and removals in a folder are on the medium.

        DirectoryNotOpened if it was not tried; after any other failure never call it again.
        """
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock of that name, or raise LockHeld."""
        ...

    def space(self, path: str) -> Space:
        """How large the medium is, and how much is left."""
        ...

    def open_file_limit(self) -> int:
        """How many files storage may hold open at once."""
        ...


def is_temporary(error: OSError) -> bool:
    """Whether a failure is a shortage (space, descriptors, memory) that passes, not damage."""
    return error.errno in _TEMPORARY


def is_out_of_space(error: OSError) -> bool:
    """Whether the medium, or the quota on it, is full."""
    return error.errno in _NO_SPACE


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether the process, or the system, has as many files open as it may."""
    return error.errno in _NO_DESCRIPTORS


def make_durable_directory(files: Files, path: str) -> None:
    """Make a folder and its parents so that a crash does not undo it."""
    parent = path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
    if not files.exists(parent):
        make_durable_directory(files, parent)
    files.make_directory(path)
    files.sync_directory(parent)


def read_whole(files: Files, path: str) -> bytes:
    """Everything in a file."""
    file = files.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def write_whole(files: Files, path: str, data: Buffer) -> None:
    """Make the file hold exactly this, on the medium; its directory entry is not synced."""
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.append(data)
        file.datasync()
    except OSError:
        with suppress(OSError):  # half a file is worse than none
            files.remove(path)
        raise
    finally:
        file.close()


def replace_whole(files: Files, folder: str, name: str, data: Buffer) -> None:
    """Replace a file so that a crash leaves the old or the new content, and sync the folder."""
    path = f"{folder}/{name}"
    write_whole(files, f"{path}.tmp", data)
    files.rename(f"{path}.tmp", path)
    files.sync_directory(folder)


class DiskFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor", "_reading", "_reserve")

    def __init__(self, descriptor: int, reserve: DescriptorReserve) -> None:
        self._descriptor = descriptor
        self._reserve = reserve
        self._reading = threading.Lock() if _WINDOWS else None

    def append(self, data: Buffer) -> None:
        """Write all of it at the end."""
        written = os.write(self._descriptor, data)
        if written == len(data):
            return
        rest = memoryview(data)[written:]
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def pread(self, length: int, position: int) -> bytes:
        """Bytes from a position on."""
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
        """Send bytes to a socket; 0 also where the platform has no sendfile."""
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
        """Length in bytes."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        """Cut the file to a length."""
        os.ftruncate(self._descriptor, size)

    def datasync(self) -> None:
        """Return when everything written is on the medium."""
        _datasync(self._descriptor)

    def close(self) -> None:
        """Give the descriptor back."""
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
    """The operating system's files; spare descriptors help out when all others are in use."""

    def __init__(self, spare_descriptors: int = 0) -> None:
        self._reserve = DescriptorReserve(spare_descriptors, _open_nothing, os.close)

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open a file for reading and appending."""
        flags = _OPEN_FLAGS | os.O_CREAT if create else _OPEN_FLAGS
        descriptor = self._with_reserve(lambda: os.open(path, flags, 0o644))
        return DiskFile(descriptor, self._reserve)

    def _with_reserve(self, call: Callable[[], T]) -> T:
        """Make a call that needs a descriptor, if need be with one of the reserve's."""
        while True:
            try:
                return call()
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS or not self._reserve.give_up_one():
                    raise

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder, over the target if there is one."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        """Remove a folder and everything in it."""
        self._with_reserve(lambda: shutil.rmtree(path))
        self._reserve.refill()

    def list(self, path: str) -> "list[str]":
        """Names in a folder, sorted."""
        names = self._with_reserve(lambda: os.listdir(path))
        self._reserve.refill()
        return sorted(names)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        """Whether it is a folder."""
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """When a file was last written."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def make_directory(self, path: str) -> None:
        """Make a folder, and its parents, unless it is there."""
        os.makedirs(path, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        """Return when the folder's entries are on the medium; Windows does that by itself."""
        if _WINDOWS:
            return
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
        """How large the medium is, and how much is left."""
        usage = shutil.disk_usage(path)
        return Space(usage.total, usage.free)

    def open_file_limit(self) -> int:
        """Half of what the process may open, less if that leaves too few for the rest of it."""
        if _WINDOWS:
            return 1024
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return _MOST_OPEN_FILES
        return max(8, min(soft // 2, soft - _OTHER_DESCRIPTORS, _MOST_OPEN_FILES))
