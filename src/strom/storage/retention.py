"""Which segments go: planned from facts about them, carried out by the log."""

from collections.abc import Sequence
from dataclasses import dataclass

from strom.model.topic_settings import TopicSettings

FOR_EVER = -1


@dataclass(frozen=True)
class SegmentFacts:
    """What retention and compaction need to know of a segment."""

    base_offset: int
    next_offset: int
    """The offset after its last record."""
    size_bytes: int
    largest_timestamp: int
    """Of its records; -1 if none of them has a time."""
    modified_ms: int
    """When its file was last written; counts where no record has a time."""
    active: bool
    """Whether it is the one that is appended to."""
    first_timestamp: int = -1
    """Of its first batch, for `max.compaction.lag.ms`; if unknown, the largest one counts."""

    @property
    def youngest_ms(self) -> int:
        """When its youngest record was written, as far as that is known."""
        return self.largest_timestamp if self.largest_timestamp >= 0 else self.modified_ms


def segments_to_delete(
    segments: Sequence[SegmentFacts],
    *,
    now_ms: int,
    settings: TopicSettings,
    high_watermark: int,
    log_start_offset: int = 0,
) -> list[SegmentFacts]:
    """The oldest segments that `retention.ms`, `retention.bytes` and the log's start let go.

    `segments` are all of the log's, oldest first. The answer is a prefix of them, and nothing in it
    reaches beyond the high watermark. If it holds the active segment (always the last one, and only
    if it has records), roll the log first, so that the next offset is not forgotten.

    `retention.ms` and `retention.bytes` count only where `cleanup.policy` has `delete`; segments
    wholly before the log's start (after DeleteRecords) go in any case, the active one excepted.
    """
    count = _count_before_start(segments, log_start_offset)
    if settings.deleted_by_age_or_size:
        count = max(
            count,
            _count_over_age(segments, now_ms, settings.retention_ms),
            _count_over_size(segments, settings.retention_bytes),
        )
    while count and segments[count - 1].next_offset > high_watermark:
        count -= 1
    return list(segments[:count])


def _count_before_start(segments: Sequence[SegmentFacts], log_start_offset: int) -> int:
    count = 0
    while (
        count < len(segments)
        and segments[count].next_offset <= log_start_offset
        and not segments[count].active
    ):
        count += 1
    return count


def _count_over_age(segments: Sequence[SegmentFacts], now_ms: int, retention_ms: int) -> int:
    """Stops at the first segment that is young enough, even if later ones are old."""
    if retention_ms == FOR_EVER:
        return 0
    count = 0
    for segment in segments:
        if now_ms - segment.youngest_ms <= retention_ms or _is_empty(segment):
            break
        count += 1
    return count


def _count_over_size(segments: Sequence[SegmentFacts], retention_bytes: int) -> int:
    """Only what is more than the limit goes: at least `retention_bytes` stay."""
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for segment in segments:
        excess -= segment.size_bytes
        if excess < 0 or _is_empty(segment):
            break
        count += 1
    return count


def _is_empty(segment: SegmentFacts) -> bool:
    return segment.active and segment.size_bytes == 0
