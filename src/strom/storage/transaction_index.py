"""The aborted transactions that ended in a segment, for read_committed consumers.

A consumer that misses one would read aborted records as committed ones, so the file has a checksum, and
every closed segment has a file, even an empty one: a missing file is noticed, and entries of another
segment are not accepted. An empty file fits every segment. Older versions wrote no empty ones.
"""

import struct
from typing import NamedTuple

from strom.model.errors import CorruptData
from strom.storage.checksummed import add_checksum, strip_checksum
from strom.storage.files import FileSystem, read_file, write_file

_ENTRY = struct.Struct(">qqqq")


class AbortedTransaction(NamedTuple):
    """An aborted transaction: first record, marker, and the last stable offset at that time."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(transactions: list[AbortedTransaction]) -> bytes:
    return add_checksum(b"".join(_ENTRY.pack(*each) for each in transactions))


def decode_aborted(
    data: bytes, base_offset: int, next_offset: int | None
) -> list[AbortedTransaction]:
    """Decode the index of the segment with these offsets; CorruptData if it is damaged.

    `next_offset` is None for the last segment.
    """
    found = [AbortedTransaction._make(each) for each in _ENTRY.iter_unpack(strip_checksum(data))]
    for each in found:
        is_after = next_offset is not None and each.last_offset >= next_offset
        if each.last_offset < base_offset or is_after:
            raise CorruptData(f"the marker at offset {each.last_offset} is in another segment")
    return found


class TransactionIndex:
    """The aborted transactions of one segment, in memory or in its file."""

    def __init__(self, files: FileSystem, path: str, base_offset: int) -> None:
        self.path = path
        self.next_offset: int | None = None
        """The offset after the segment, if it is closed."""
        self.must_exist = True
        """Whether the segment has a file once it is closed; not if an older version has closed it."""
        self._files = files
        self._base_offset = base_offset
        self._aborted: list[AbortedTransaction] | None = []
        self._is_saved = False

    def use_saved(self, *, must_exist: bool) -> None:
        """Take what an earlier run has saved."""
        self.must_exist = must_exist
        self._aborted, self._is_saved = None, True

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """Aborted transactions whose marker is in the segment; CorruptData if the file is lost."""
        if self._aborted is None:
            self._aborted = self.read()
        return self._aborted

    def replace(self, transactions: list[AbortedTransaction]) -> None:
        """Take what was read from the log; it stays in memory until it is saved."""
        self._aborted, self._is_saved = transactions, False

    def add(self, transaction: AbortedTransaction) -> None:
        """Index a transaction whose abort marker is in the segment."""
        self.aborted.append(transaction)
        self._is_saved = False

    def read(self) -> list[AbortedTransaction]:
        """What is in the file; CorruptData if it is damaged or missing."""
        try:
            data = read_file(self._files, self.path)
            return decode_aborted(data, self._base_offset, self.next_offset)
        except FileNotFoundError:
            if self.must_exist:
                raise CorruptData(f"{self.path} is missing") from None
            return []
        except CorruptData as damage:
            raise CorruptData(f"{self.path}: {damage}") from damage

    def save(self, suffix: str = "") -> None:
        """Write the file, even an empty one; any thread."""
        write_file(self._files, self.path + suffix, encode_aborted(self.aborted))
        self._is_saved = self.must_exist = True

    def remove_file(self) -> None:
        """Remove the file of an earlier run, which may have more than the log."""
        if self._files.exists(self.path):
            self._files.remove(self.path)

    def unload(self) -> None:
        """Evict from memory what is in the file."""
        if self._is_saved:
            self._aborted = None
