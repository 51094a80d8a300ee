"""What all partitions of one data directory share: its files, the pool of open ones, its health."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.storage.files import Files, is_temporary
from strom.storage.open_files import OpenFiles

LOADED_INDEXES = 64
"""How many closed segments keep their indexes in memory; a full one takes up to 5 MB."""


class HasLoadedIndexes(Protocol):
    """Something that can drop what it has read from index files, and read it again."""

    def unload(self) -> None:
        """Drop it."""
        ...


class Disk:
    """Files with a memory of failure: after one, the whole directory is offline until a restart.

    A failed sync leaves pages that the kernel believes clean, so neither a second sync nor what is
    read from the page cache can be trusted.
    """

    def __init__(self, files: Files) -> None:
        self.files = files
        self.open_files = OpenFiles(files, files.open_file_limit())
        self.offline: DirectoryOffline | None = None
        self._loaded: OrderedDict[HasLoadedIndexes, None] = OrderedDict()

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
    def writing(self) -> Iterator[None]:
        """Turn a failure of the medium into DirectoryOffline, and a lack of space into an ApiError."""
        self.check_online()
        try:
            yield
        except OSError as error:
            raise self.write_error(error) from error

    def write_error(self, error: OSError) -> ApiError | DirectoryOffline:
        """What to raise for a failed write."""
        if is_temporary(error):
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
