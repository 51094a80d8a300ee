"""The segments of a partition and their files, read from its folder; a broker may use it meanwhile."""

from dataclasses import dataclass

from strom.model.errors import CorruptData
from strom.storage.batch_walk import DamagedBatch, walk_headers
from strom.storage.files import FileSystem, read_file
from strom.storage.folder import list_segments
from strom.storage.retention import SegmentInfo
from strom.storage.segment import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
)
from strom.storage.time_index import TimeIndex
from strom.wire.kafka.batch import NO_TIMESTAMP


@dataclass(frozen=True)
class SegmentFiles:
    """One segment, and the sizes of its indexes by kind; those of the active one are in memory."""

    info: SegmentInfo
    index_bytes: dict[str, int]


def read_segment_list(files: FileSystem, folder: str) -> list[SegmentFiles]:
    """The segments of a partition, oldest first; one that is removed meanwhile is left out."""
    found = list_segments(files, folder)
    ends = [*(base for base, _ in found[1:]), None]
    segments = []
    for (base, path), following in zip(found, ends, strict=True):
        try:
            segments.append(_read_segment(files, base, path, following))
        except FileNotFoundError:
            continue
    return segments


def _read_segment(
    files: FileSystem, base_offset: int, path: str, following: int | None
) -> SegmentFiles:
    stem = path.removesuffix(LOG_SUFFIX)
    next_offset, largest = base_offset, NO_TIMESTAMP
    saved = _saved_timestamp(files, stem) if following is not None else None
    if saved is None:
        next_offset, largest = _walk(files, path, base_offset)
    else:
        largest = saved
    info = SegmentInfo(
        base_offset=base_offset,
        next_offset=next_offset if following is None else following,
        size_bytes=files.size(path),
        largest_timestamp=largest,
        modified_ms=files.modified_ms(path),
        active=following is None,
    )
    sizes = {
        suffix.removeprefix("."): files.size(stem + suffix)
        for suffix in INDEX_SUFFIXES
        if files.exists(stem + suffix)
    }
    return SegmentFiles(info, sizes)


def _saved_timestamp(files: FileSystem, stem: str) -> int | None:
    """The largest timestamp by the saved index, None if the batches must be read."""
    try:
        last = TimeIndex.decode(read_file(files, stem + TIME_INDEX_SUFFIX)).last()
    except (FileNotFoundError, CorruptData):
        return None
    return NO_TIMESTAMP if last is None else last.timestamp


def _walk(files: FileSystem, path: str, base_offset: int) -> tuple[int, int]:
    """The offset after the last batch and the largest timestamp, up to a write in flight or damage."""
    next_offset, largest = base_offset, NO_TIMESTAMP
    file = files.open(path)
    try:
        for _, header in walk_headers(file, 0, file.size()):
            next_offset, largest = header.next_offset, max(largest, header.max_timestamp)
    except DamagedBatch:
        pass
    finally:
        file.close()
    return next_offset, largest
