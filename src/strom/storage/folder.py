"""What lies in a partition's folder, and how half-done work of an earlier run is completed.

Compaction writes `BASE.log.cleaned`. When it is whole and synced, it is renamed to
`BASE-END.swap`: from then on it counts, in place of all segments from BASE up to END. See
`log_compaction` for the steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from strom.storage.files import Files
from strom.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX
from strom.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX

CLEANED = ".cleaned"
SWAP = ".swap"
REPLACED = ".replaced"
"""What a swap has replaced."""
DELETED = ".deleted"
"""What retention has taken. All segments before one are taken too, even if a crash undid that."""
TEMPORARY = ".tmp"
_LEFTOVERS = (CLEANED, REPLACED, DELETED, TEMPORARY)
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


def swap_name(base_offset: int, end_offset: int) -> str:
    """The name of a segment that stands for all segments between two offsets."""
    return f"{base_offset:020d}-{end_offset:020d}{SWAP}"


def _swap_range(name: str) -> tuple[int, int] | None:
    base, dash, end = name.removesuffix(SWAP).partition("-")
    if name.endswith(SWAP) and dash and base.isdecimal() and end.isdecimal():
        return int(base), int(end)
    return None


def complete_interrupted_work(files: Files, folder: str) -> FolderContents:
    """Finish a swap, remove what no longer counts, and say what there is."""
    names = files.list(folder)
    _finish_retention(files, folder, names)
    for name in names:
        swapped = _swap_range(name)
        if swapped is not None:
            clear_for_swap(files, folder, *swapped)
            files.sync_directory(folder)
            files.rename(f"{folder}/{name}", f"{folder}/{swapped[0]:020d}{LOG_SUFFIX}")
            files.sync_directory(folder)
    for name in files.list(folder):
        if name.endswith(_LEFTOVERS):
            files.remove(f"{folder}/{name}")
    contents = read_folder(files, folder)
    _remove_orphans(files, folder, contents)
    return contents


def delete_segment_files(files: Files, stem: str) -> Iterator[str]:
    """Rename the files of a segment that retention has taken, and say where they are now.

    The log is the first: from then on the segment is gone, even if a shortage keeps its indexes.
    """
    for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
        if suffix == LOG_SUFFIX or files.exists(stem + suffix):
            files.rename(stem + suffix, stem + suffix + DELETED)
            yield stem + suffix + DELETED


def _finish_retention(files: Files, folder: str, names: list[str]) -> None:
    taken = [base for name in names if (base := offset_of(name, LOG_SUFFIX + DELETED)) is not None]
    if not taken:
        return
    for name in names:
        base = offset_of(name, LOG_SUFFIX)
        if base is not None and base < max(taken):
            files.rename(f"{folder}/{name}", f"{folder}/{name}{DELETED}")
    files.sync_directory(folder)


def clear_for_swap(files: Files, folder: str, base_offset: int, end_offset: int) -> list[str]:
    """Rename away what a swap replaces; returns where it is now.

    Sync the folder before the swap gets its final name: were a later segment left then, its records
    would be there twice.
    """
    replaced = []
    for base in read_folder(files, folder).bases:
        if base_offset <= base < end_offset:
            stem = f"{folder}/{base:020d}"
            for suffix in INDEX_SUFFIXES:
                if files.exists(stem + suffix):
                    files.remove(stem + suffix)
            files.rename(stem + LOG_SUFFIX, stem + LOG_SUFFIX + REPLACED)
            replaced.append(stem + LOG_SUFFIX + REPLACED)
    return replaced


def read_folder(files: Files, folder: str) -> FolderContents:
    """What is there."""
    contents = FolderContents()
    for name in files.list(folder):
        if (base := offset_of(name, LOG_SUFFIX)) is not None:
            contents.bases.append(base)
        elif (offset := offset_of(name, SNAPSHOT_SUFFIX)) is not None:
            contents.snapshot_offsets.append(offset)
    return contents


def _remove_orphans(files: Files, folder: str, contents: FolderContents) -> None:
    """Remove indexes whose log file is gone."""
    known = set(contents.bases)
    for name in files.list(folder):
        for suffix in INDEX_SUFFIXES:
            base = offset_of(name, suffix)
            if base is not None and base not in known:
                files.remove(f"{folder}/{name}")
