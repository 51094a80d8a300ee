"""A bounded pool of open segment files, so that thousands of partitions do not use up descriptors.

The least recently used file is closed when the pool is full. A *pinned* file stays open: a flush
pins what another thread is about to sync. Only the event loop's thread calls the pool.
"""

from collections import OrderedDict

from strom.storage.files import File, Files


class OpenFile:
    """A file of the pool, with the number of flushes that still need it."""

    __slots__ = ("file", "forgotten", "pins")

    def __init__(self, file: File) -> None:
        self.file = file
        self.pins = 0
        self.forgotten = False


class OpenFiles:
    """Opens files when they are first asked for, and closes those not asked for in a long time."""

    def __init__(self, files: Files, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._open: OrderedDict[str, OpenFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str) -> File:
        """The open file at a path; valid until the next call."""
        entry = self._open.get(path)
        if entry is None:
            return self._enter(path, create=False).file
        self._open.move_to_end(path)
        return entry.file

    def create(self, path: str) -> File:
        """Create the file at a path, or open it if it is there."""
        return self._enter(path, create=True).file

    def pin(self, path: str) -> OpenFile:
        """The open file at a path, kept open until it is unpinned."""
        entry = self._open.get(path) or self._enter(path, create=False)
        entry.pins += 1
        return entry

    def unpin(self, entry: OpenFile) -> None:
        """One user fewer; the last one closes a file that has left the log meanwhile."""
        entry.pins -= 1
        if entry.forgotten and not entry.pins:
            entry.file.close()

    def forget(self, path: str) -> None:
        """Close the file at a path, because it is renamed, replaced or removed."""
        entry = self._open.pop(path, None)
        if entry is None:
            return
        entry.forgotten = True
        if not entry.pins:
            entry.file.close()

    def close(self) -> None:
        """Close everything."""
        for path in list(self._open):
            self.forget(path)

    def _enter(self, path: str, *, create: bool) -> OpenFile:
        entry = OpenFile(self._files.open(path, create=create))
        self._open[path] = entry
        if len(self._open) > self._limit:
            self._close_oldest(spare=path)
        return entry

    def _close_oldest(self, spare: str) -> None:
        for path, entry in self._open.items():
            if not entry.pins and path != spare:
                del self._open[path]
                entry.file.close()
                return
