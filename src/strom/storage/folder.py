"""What lies in a partition's folder, and how half-done work of an earlier run is completed.

Compaction writes `NAME.log.cleaned`. When it is whole and synced, it is renamed to `NAME.log.swap`: from
then on it counts, in place of every segment that begins where it does or within it. See
`log_compaction` for the order of the steps.
"""

from dataclasses import dataclass, field

from strom.storage.batch_walk import walk_headers
from strom.storage.checked_text import decode_lines
from strom.storage.files import Files
from strom.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX
from strom.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
TEMPORARY = ".tmp"
_LEFTOVERS = (CLEANED, DELETED, TEMPORARY)
_DIGITS = 20


@dataclass
class FolderContents:
    """Base offsets of the segments and offsets of the snapshots, ascending."""

    bases: list[int] = field(default_factory=list)
    snapshot_offsets: list[int] = field(default_factory=list)

    @staticmethod
    def remove_segment(files: Files, folder: str, base_offset: int) -> None:
        """Remove a segment's files, those that are there."""
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            path = f"{folder}/{base_offset:020d}{suffix}"
            if files.exists(path):
                files.remove(path)


def offset_of(name: str, suffix: str) -> int | None:
    """The offset a file is named by, None if it is not named so."""
    digits = name[:_DIGITS]
    if name == digits + suffix and len(digits) == _DIGITS and digits.isdecimal():
        return int(digits)
    return None


def complete_interrupted_work(files: Files, folder: str) -> FolderContents:
    """Finish a swap, remove what no longer counts, and say what there is."""
    names = files.list(folder)
    for name in names:
        if name.endswith(_LEFTOVERS):
            files.remove(f"{folder}/{name}")
    swaps = [base for name in names if (base := offset_of(name, LOG_SUFFIX + SWAP)) is not None]
    for base in swaps:
        _complete_swap(files, folder, base)
    if swaps:
        files.sync_directory(folder)
    return _contents(files, folder)


def _complete_swap(files: Files, folder: str, base: int) -> None:
    swap = f"{folder}/{base:020d}{LOG_SUFFIX}{SWAP}"
    end = _end_of_swap(files, folder, base)
    for other in _contents(files, folder).bases:
        if base < other < end:
            FolderContents.remove_segment(files, folder, other)
    for suffix in INDEX_SUFFIXES:
        if files.exists(f"{folder}/{base:020d}{suffix}"):
            files.remove(f"{folder}/{base:020d}{suffix}")
    files.sync_directory(folder)
    files.rename(swap, f"{folder}/{base:020d}{LOG_SUFFIX}")
