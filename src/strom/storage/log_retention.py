"""Removing expired segments from a log, as `retention` plans it."""

from strom.model.topic_settings import TopicSettings
from strom.storage.disk import Disk, Garbage
from strom.storage.folder import delete_segment_files
from strom.storage.log_state import LogState
from strom.storage.retention import SegmentInfo, segments_to_delete
from strom.storage.segment import LogSegment


def segment_info(disk: Disk, segment: LogSegment) -> SegmentInfo:
    """What the planners of retention and compaction need of a segment."""
    return SegmentInfo(
        base_offset=segment.base_offset,
        next_offset=segment.next_offset,
        size_bytes=segment.size_bytes,
        largest_timestamp=segment.largest_timestamp,
        modified_ms=disk.files.modified_ms(segment.log_path),
        active=segment.active,
        first_timestamp=segment.first_timestamp,
    )


def expired_segments(
    disk: Disk, state: LogState, settings: TopicSettings, now_ms: int, high_watermark: int
) -> list[LogSegment]:
    """The expired segments, oldest first; the active one may be the last of them."""
    expired = segments_to_delete(
        [segment_info(disk, segment) for segment in state.segments],
        now_ms=now_ms,
        settings=settings,
        high_watermark=high_watermark,
        log_start_offset=state.start_offset,
    )
    return list(state.segments)[: len(expired)]


def remove_segments(
    disk: Disk, folder: str, state: LogState, segments: list[LogSegment], due_ms: int
) -> None:
    """Remove closed segments from the log; their files are renamed now and removed when due."""
    paths: list[str] = []
    try:
        with disk.writing():
            for segment in segments:
                segment.release()
                renamed = delete_segment_files(disk.files, segment.stem)
                paths.append(next(renamed))
                state.segments.remove(segment)
                state.start_offset = max(state.start_offset, segment.next_offset)
                paths.extend(renamed)
    finally:
        if paths:
            disk.remove_later(Garbage(folder, paths, due_ms, state.segments.first.base_offset))
