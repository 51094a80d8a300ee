"""Taking old segments out of a log, as `retention` plans it."""

from strom.model.topic_settings import TopicSettings
from strom.storage.disk import Disk, Garbage
from strom.storage.folder import delete_segment_files
from strom.storage.log_state import LogState
from strom.storage.retention import SegmentFacts, segments_to_delete
from strom.storage.segment import Segment


def facts_of(disk: Disk, segment: Segment) -> SegmentFacts:
    """What the planners of retention and compaction need to know of a segment."""
    return SegmentFacts(
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
) -> list[Segment]:
    """The segments that retention lets go, oldest first; the active one may be the last of them."""
    expired = segments_to_delete(
        [facts_of(disk, segment) for segment in state.segments],
        now_ms=now_ms,
        settings=settings,
        high_watermark=high_watermark,
        log_start_offset=state.start_offset,
    )
    return list(state.segments)[: len(expired)]


def take_out(
    disk: Disk, folder: str, state: LogState, segments: list[Segment], due_ms: int
) -> None:
    """Take closed segments out of the log; their files, renamed, are removed when due."""
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
            disk.remove_later(Garbage(folder, paths, due_ms))
