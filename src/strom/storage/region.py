"""A range of a segment file that is sent to a client without being read into memory (sendfile)."""

from typing import Protocol

from strom.model.errors import CorruptData
from strom.storage.open_files import OpenFile, OpenFiles


class FileOwner(Protocol):
    """The part of a segment that a region needs."""

    log_path: str


class Region:
    """Bytes of a file that are consumed from the front.

    The file stays open as long as the region exists, even if retention or compaction removes the segment.
    """

    __slots__ = ("_length", "_open_file", "_open_files", "_path", "_position")

    def __init__(self, open_files: OpenFiles, owner: FileOwner, position: int, length: int) -> None:
        self._open_files = open_files
        self._open_file: OpenFile = open_files.pin(owner, owner.log_path)
        self._path = owner.log_path
        self._position = position
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __del__(self) -> None:
        # A response may be dropped at many points between reading and sending; this covers them all.
        if hasattr(self, "_open_file"):
            self._open_files.unpin(self._open_file)

    def take(self, at_most: int) -> bytes:
        """Read the next bytes; CorruptData if the file has become shorter."""
        length = min(at_most, self._length)
        data = self._open_file.file.pread(length, self._position)
        if len(data) != length:
            raise CorruptData(f"{self._path} was truncated")
        self._advance(length)
        return data

    def send(self, socket: int) -> int:
        """Send with sendfile as many bytes as the socket accepts now; returns how many.

        0 if the socket is full, or if the platform has no usable sendfile.
        """
        sent = self._open_file.file.send(socket, self._position, self._length)
        self._advance(sent)
        return sent

    def _advance(self, count: int) -> None:
        self._position += count
        self._length -= count
