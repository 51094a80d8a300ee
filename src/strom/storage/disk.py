"""What all partitions of one data directory share: its files, the pool of open ones, its health."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.storage.files import Files, is_temporary
from strom.storage.open_files import OpenFiles
from strom.storage.shortage import Shortage

LOADED_INDEXES = 64
"""How many closed segments keep their indexes in memory; a full one takes up to 5 MB."""


class HasLoadedIndexes(Protocol):
    """Something that can drop what it has read from index files, and read it again."""

    def unload(self) -> None:
        """Drop it."""
        ...


class Garbage(NamedTuple):
    """Files that have left a log and are removed when their time has come."""

    folder: str
    paths: list[str]
    due_ms: int


class Disk:
    """Files with a memory of failure: after one, the whole directory is offline until a restart.

    A failed sync leaves pages that the kernel believes clean, so neither a second sync nor what is
    read from the page cache can be trusted.
    """

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.shortage = Shortage(files, path)
        self.open_files = OpenFiles(files, files.open_file_limit())
        self.offline: DirectoryOffline | None = None
        self._loaded: OrderedDict[HasLoadedIndexes, None] = OrderedDict()
        self._garbage: list[Garbage] = []

    def fail(self, error: BaseException) -> DirectoryOffline:
        """Take the directory offline; returns the error to raise. The first reason stays."""
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

        Optional work may want more space than there is without any client being refused.
        """
        self.check_online()
        try:
            yield
        except OSError as error:
            raise self.write_error(error, optional=optional) from error

    def write_error(self, error: OSError, *, optional: bool = False) -> ApiError | DirectoryOffline:
        """What to raise for a failed write."""
        if is_temporary(error):
            if not optional:
                self.shortage.refused(error)
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot write: {error.strerror}.")
        return self.fail(error)

    def note_loaded(self, holder: HasLoadedIndexes) -> None:
        """Remember who has indexes in memory, and make the one used longest ago drop them."""
        self._loaded[holder] = None
        self._loaded.move_to_end(holder)
        if len(self._loaded) > LOADED_INDEXES:
            self._loaded.popitem(last=False)[0].unload()

    def note_unloaded(self, holder: HasLoadedIndexes) -> None:
        """The holder is gone."""
        self._loaded.pop(holder, None)

    def remove_later(self, garbage: Garbage) -> None:
        """Leave files, already renamed so that no start takes them for the log's, to be removed."""
        self._garbage.append(garbage)

    def forget_garbage(self, folder: str) -> None:
        """A folder is going away as a whole."""
        self._garbage = [each for each in self._garbage if each.folder != folder]

    def remove_garbage(self, now_ms: int) -> None:
        """Remove what is due; any thread. Large files take the operating system a while."""
        for garbage in [each for each in self._garbage if each.due_ms <= now_ms]:
            with self.writing(), suppress(FileNotFoundError):
                # First the renames must be safe: were one undone after the removal of a later
                # file, the log would have a hole.
                self.files.sync_directory(garbage.folder)
            for path in garbage.paths:
                with self.writing(), suppress(FileNotFoundError):
                    self.files.remove(path)
            with suppress(ValueError):
                self._garbage.remove(garbage)
