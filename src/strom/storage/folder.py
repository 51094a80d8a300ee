"""The files of a partition's folder, and the completion of work that a crash interrupted.

Compaction writes `BASE.log.cleaned`. When it is complete and synced, it is renamed to
`BASE-END.swap`: from then on it replaces all segments from BASE up to END. See `log_compaction` for
the steps.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from strom.storage.files import FileSystem, is_temporary
from strom.storage.segment import INDEX_SUFFIXES, LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from strom.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from strom.storage.start_offset import prepare_removal

CLEANED = ".cleaned"
SWAP = ".swap"
REPLACED = ".replaced"
"""A segment that a swap has replaced."""
DELETED = ".deleted"
"""A segment that retention has deleted. All segments before one are deleted too, even if a crash undid
the rename."""
MISSING = ".missing"
"""An empty file in the place of a log file that has gone missing since a clean stop."""
TEMPORARY = ".tmp"
_LEFTOVERS = (CLEANED, REPLACED, DELETED, TEMPORARY)
_DIGITS = 20


@dataclass
class FolderContents:
    """Base offsets of the segments and offsets of the snapshots, ascending."""

    bases: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    """Base offsets of segments that are noted as missing."""
    snapshot_offsets: list[int] = field(default_factory=list)
    transaction_indexes: set[int] = field(default_factory=set)
    """Base offsets of the segments that have one."""

    @staticmethod
    def remove_segment(files: FileSystem, folder: str, base_offset: int) -> None:
        """Remove those files of a segment that exist."""
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            path = f"{folder}/{base_offset:020d}{suffix}"
            if files.exists(path):
                files.remove(path)


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file's name, None for other names."""
    digits = name[:_DIGITS]
    if name == digits + suffix and len(digits) == _DIGITS and digits.isdecimal():
        return int(digits)
    return None


def swap_name(base_offset: int, end_offset: int) -> str:
    """The name of a compacted segment that replaces all segments between two offsets."""
    return f"{base_offset:020d}-{end_offset:020d}{SWAP}"


def _swap_range(name: str) -> tuple[int, int] | None:
    base, dash, end = name.removesuffix(SWAP).partition("-")
    if name.endswith(SWAP) and dash and base.isdecimal() and end.isdecimal():
        return int(base), int(end)
    return None


def complete_interrupted_work(files: FileSystem, folder: str) -> FolderContents:
    """Finish interrupted swaps and retention, remove leftovers, and return the contents."""
    names = files.list(folder)
    _finish_retention(files, folder, names)
    for name in names:
        swapped = _swap_range(name)
        if swapped is not None:
            clear_for_swap(files, folder, *swapped)
            adopt_indexes(files, f"{folder}/{swapped[0]:020d}")
            files.sync_directory(folder)
            files.rename(f"{folder}/{name}", f"{folder}/{swapped[0]:020d}{LOG_SUFFIX}")
            files.sync_directory(folder)
    for name in files.list(folder):
        if name.endswith(_LEFTOVERS):
            files.remove(f"{folder}/{name}")
    contents = read_folder(files, folder)
    _remove_orphans(files, folder, contents)
    return contents


def delete_segment_files(files: FileSystem, stem: str) -> Iterator[str]:
    """Rename the files of a segment that retention deletes; yields the new paths.

    The log file comes first: its rename deletes the segment, even if a shortage keeps the indexes.
    """
    for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
        if suffix == LOG_SUFFIX or files.exists(stem + suffix):
            files.rename(stem + suffix, stem + suffix + DELETED)
            yield stem + suffix + DELETED


def _finish_retention(files: FileSystem, folder: str, names: list[str]) -> None:
    deleted = [
        base for name in names if (base := offset_of(name, LOG_SUFFIX + DELETED)) is not None
    ]
    if not deleted:
        return
    bases = [base for name in names if (base := offset_of(name, LOG_SUFFIX)) is not None]
    for base in bases:
        if base < max(deleted):
            path = f"{folder}/{base:020d}{LOG_SUFFIX}"
            files.rename(path, path + DELETED)
    remaining = [base for base in bases if base > max(deleted)]
    if remaining:
        prepare_removal(files, folder, min(remaining))
    else:
        files.sync_directory(folder)


def clear_for_swap(files: FileSystem, folder: str, base_offset: int, end_offset: int) -> list[str]:
    """Rename the segments that a swap replaces; returns the new paths.

    Sync the folder before the swap gets its final name: if a crash left a later segment, its records
    would be in the log twice.
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


def adopt_indexes(files: FileSystem, stem: str) -> None:
    """Rename the indexes of a compacted segment after `clear_for_swap`; sync the folder afterwards."""
    for suffix in INDEX_SUFFIXES:
        if files.exists(stem + suffix + CLEANED):
            files.rename(stem + suffix + CLEANED, stem + suffix)


def read_folder(files: FileSystem, folder: str) -> FolderContents:
    contents = FolderContents()
    for name in files.list(folder):
        if (base := offset_of(name, LOG_SUFFIX)) is not None:
            contents.bases.append(base)
        elif (base := offset_of(name, LOG_SUFFIX + MISSING)) is not None:
            contents.missing.append(base)
        elif (offset := offset_of(name, SNAPSHOT_SUFFIX)) is not None:
            contents.snapshot_offsets.append(offset)
        elif (base := offset_of(name, TRANSACTION_INDEX_SUFFIX)) is not None:
            contents.transaction_indexes.add(base)
    return contents


def note_missing(files: FileSystem, folder: str, bases: Iterable[int]) -> None:
    """Note durably which of a log's files are missing: compaction leaves gaps, so no check finds them.

    The names say it all, because a full disk has room for empty files.
    """
    try:
        missing = sorted(set(bases) - {base for base, _ in list_segments(files, folder)})
    except OSError as error:
        if is_temporary(error):
            raise
        return  # without its folder the log is quarantined anyway
    for base in missing:
        files.open(f"{folder}/{base:020d}{LOG_SUFFIX}{MISSING}", create=True).close()
    if missing:
        files.sync_directory(folder)


def forget_missing(files: FileSystem, folder: str, bases: Iterable[int]) -> None:
    """Remove these notes. A crash cannot bring one back after its segment is deleted or replaced:
    both sync the folder first."""
    for base in bases:
        files.remove(f"{folder}/{base:020d}{LOG_SUFFIX}{MISSING}")


def list_segments(files: FileSystem, folder: str) -> list[tuple[int, str]]:
    """The base offset and file of every segment, as `complete_interrupted_work` would leave them."""
    names = files.list(folder)
    deleted = [offset_of(name, LOG_SUFFIX + DELETED) for name in names]
    start = max((base for base in deleted if base is not None), default=-1)
    swaps = {name: swapped for name in names if (swapped := _swap_range(name)) is not None}
    found = {}
    for name in names:
        base = offset_of(name, LOG_SUFFIX)
        if base is None or any(first <= base < end for first, end in swaps.values()):
            continue
        if base > start:
            found[base] = f"{folder}/{name}"
    found |= {first: f"{folder}/{name}" for name, (first, _) in swaps.items()}
    return sorted(found.items())


def _remove_orphans(files: FileSystem, folder: str, contents: FolderContents) -> None:
    """Remove indexes without a log file."""
    known = set(contents.bases)
    for name in files.list(folder):
        for suffix in INDEX_SUFFIXES:
            base = offset_of(name, suffix)
            if base is not None and base not in known:
                files.remove(f"{folder}/{name}")
