"""What all partitions of a data directory share: file access, the pool of open files, its health."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.storage.files import FileSystem, is_temporary
from strom.storage.open_files import OpenFiles
from strom.storage.shortage import Shortage
from strom.storage.start_offset import prepare_removal

LOADED_INDEXES = 64
"""How many closed segments keep their indexes in memory; those of a full one take up to 5 MB."""


class HasLoadedIndexes(Protocol):
    """A segment that can drop indexes from memory and load them again."""

    def unload(self) -> None: ...


class Garbage(NamedTuple):
    """Files that a log no longer uses, to be removed at `due_ms`."""

    folder: str
    paths: list[str]
    due_ms: int
    start_offset: int | None = None
    """Where the log begins without them; None if it keeps its start."""


class Disk:
    """Access to a data directory that goes offline, until a restart, after any failure of the medium.

    After a failed fsync the kernel marks the pages clean, so neither a second fsync nor a read from the
    page cache can be trusted ("fsyncgate").
    """

    def __init__(self, files: FileSystem, path: str) -> None:
        self.files = files
        self.shortage = Shortage(files, path)
        self.open_files = OpenFiles(files, files.open_file_limit())
        self.offline: DirectoryOffline | None = None
        self._loaded: OrderedDict[HasLoadedIndexes, None] = OrderedDict()
        self._garbage: list[Garbage] = []
        self._starts: dict[str, int] = {}
        """By folder, the largest start offset of its garbage. What is removed last may be older."""

    def fail(self, error: BaseException) -> DirectoryOffline:
        """Take the directory offline; returns the error to raise. The first reason is kept."""
        if self.offline is None:
            self.offline = DirectoryOffline(f"the data directory is offline: {error}")
        return self.offline

    def check_online(self) -> None:
        """Raise DirectoryOffline after a failure."""
        if self.offline is not None:
            raise self.offline

    @contextmanager
    def writing(self, *, optional: bool = False) -> Iterator[None]:
        """Turn a failure of the medium into DirectoryOffline, a shortage into ApiError.

        A shortage in `optional` work is not reported: no client's write failed.
        """
        self.check_online()
        try:
            yield
        except OSError as error:
            raise self.write_error(error, optional=optional) from error

    def write_error(self, error: OSError, *, optional: bool = False) -> ApiError | DirectoryOffline:
        if is_temporary(error):
            if not optional:
                self.shortage.on_write_failed(error)
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot write: {error.strerror}.")
        return self.fail(error)

    def note_loaded(self, holder: HasLoadedIndexes) -> None:
        """Register loaded indexes; the least recently used ones are unloaded beyond the limit."""
        self._loaded[holder] = None
        self._loaded.move_to_end(holder)
        if len(self._loaded) > LOADED_INDEXES:
            self._loaded.popitem(last=False)[0].unload()

    def note_unloaded(self, holder: HasLoadedIndexes) -> None:
        self._loaded.pop(holder, None)

    def remove_later(self, garbage: Garbage) -> None:
        """Schedule files for removal; their new names keep a start from reading them."""
        if garbage.start_offset is not None:
            start = max(garbage.start_offset, self._starts.get(garbage.folder, 0))
            self._starts[garbage.folder] = start
        self._garbage.append(garbage)

    def forget_garbage(self, folder: str) -> None:
        """Drop scheduled removals in a folder that is deleted as a whole."""
        self._garbage = [each for each in self._garbage if each.folder != folder]
        self._starts.pop(folder, None)

    def remove_garbage(self, now_ms: int) -> None:
        """Remove what is due. May run on any thread, because removing large files blocks."""
        for garbage in [each for each in self._garbage if each.due_ms <= now_ms]:
            with self.writing(), suppress(FileNotFoundError):
                # The renames must be durable first: if a crash undid one after the removal of a later
                # file, the log would have a gap.
                if garbage.start_offset is None:
                    self.files.sync_directory(garbage.folder)
                else:
                    start = self._starts.get(garbage.folder, garbage.start_offset)
                    prepare_removal(self.files, garbage.folder, start)
            for path in garbage.paths:
                with self.writing(), suppress(FileNotFoundError):
                    self.files.remove(path)
            with suppress(ValueError):
                self._garbage.remove(garbage)
