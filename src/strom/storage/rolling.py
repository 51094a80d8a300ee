"""When the active segment of a log is closed and the next one created."""

from crc32c import crc32c

from strom.model.settings import INT_MAX
from strom.model.topic_settings import TopicSettings
from strom.storage.segment import LogSegment
from strom.wire.kafka.batch import BatchHeader


def is_full(
    segment: LogSegment, settings: TopicSettings, header: BatchHeader, size: int, now_ms: int
) -> bool:
    """Whether a batch must go to the next segment."""
    if not segment.size_bytes:
        return False
    if segment.size_bytes + size > settings.segment_bytes or segment.damage:
        return True
    if (
        header.last_offset - segment.base_offset > INT_MAX
    ):  # indexes hold relative offsets of 32 bits
        return True
    if segment.offset_index.size_bytes >= settings.segment_index_bytes:
        return True
    if segment.first_timestamp >= 0:
        waited_ms = header.max_timestamp - segment.first_timestamp
    else:
        waited_ms = now_ms - segment.created_ms
    return waited_ms > settings.segment_ms - _jitter_ms(segment, settings)


def is_old(segment: LogSegment, settings: TopicSettings, now_ms: int) -> bool:
    """Whether a segment holds records and is older than `segment.ms`."""
    longest_ms = settings.segment_ms - _jitter_ms(segment, settings)
    if settings.compacted:  # only closed segments are compacted
        longest_ms = min(longest_ms, settings.max_compaction_lag_ms)
    return segment.size_bytes > 0 and now_ms > segment.created_ms + longest_ms


def _jitter_ms(segment: LogSegment, settings: TopicSettings) -> int:
    most = settings.segment_jitter_ms
    return crc32c(segment.log_path.encode()) % (most + 1) if most else 0
