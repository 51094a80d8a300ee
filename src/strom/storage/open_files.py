"""A bounded LRU pool of open segment files, so that thousands of partitions fit the descriptor limit.

The least recently used file is closed when the pool is full. A *pinned* file stays open: a flush pins
what another thread is about to sync. Only the event loop's thread calls the pool. Files are keyed by
their owner, not by their path: a topic that is deleted and recreated has the same paths.
"""

from collections import OrderedDict

from strom.storage.files import File, FileSystem


class OpenFile:
    """A file of the pool, with the number of its users."""

    __slots__ = ("file", "forgotten", "pins")

    def __init__(self, file: File) -> None:
        self.file = file
        self.pins = 0
        self.forgotten = False


class OpenFiles:
    """Opens files on first use, and closes the least recently used ones."""

    def __init__(self, files: FileSystem, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._open: OrderedDict[object, OpenFile] = OrderedDict()
        self._pinned = 0

    @property
    def is_crowded(self) -> bool:
        """Whether half of the pool is pinned, so that only a flush may pin more."""
        return self._pinned >= self._limit // 2

    def __len__(self) -> int:
        return len(self._open)

    def get(self, owner: object, path: str) -> File:
        """The owner's file, open; valid until the next call."""
        entry = self._open.get(owner)
        if entry is None:
            return self._enter(owner, path).file
        self._open.move_to_end(owner)
        return entry.file

    def pin(self, owner: object, path: str) -> OpenFile:
        """The owner's file, kept open until it is unpinned."""
        entry = self._open.get(owner) or self._enter(owner, path)
        entry.pins += 1
        self._pinned += entry.pins == 1
        return entry

    def unpin(self, entry: OpenFile) -> None:
        """Release a pin; the last one closes a file that was forgotten meanwhile."""
        entry.pins -= 1
        self._pinned -= not entry.pins
        if entry.forgotten and not entry.pins:
            entry.file.close()
        self._close_surplus()

    def forget(self, owner: object) -> None:
        """Close the owner's file, because it is renamed, replaced or removed."""
        entry = self._open.pop(owner, None)
        if entry is None:
            return
        entry.forgotten = True
        if not entry.pins:
            entry.file.close()

    def close(self) -> None:
        for owner in list(self._open):
            self.forget(owner)

    def _enter(self, owner: object, path: str) -> OpenFile:
        entry = OpenFile(self._files.open(path))
        self._open[owner] = entry
        self._close_surplus(spare=entry)
        return entry

    def _close_surplus(self, spare: OpenFile | None = None) -> None:
        surplus = len(self._open) - self._limit
        if surplus <= 0:
            return
        unused = [
            (owner, entry)
            for owner, entry in self._open.items()
            if not entry.pins and entry is not spare
        ]
        for owner, entry in unused[:surplus]:
            del self._open[owner]
            entry.file.close()
