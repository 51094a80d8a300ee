"""Which segments retention deletes: a pure plan, carried out by `log_retention`."""

from collections.abc import Sequence
from dataclasses import dataclass

from strom.model.topic_settings import TopicSettings

UNLIMITED = -1


@dataclass(frozen=True)
class SegmentInfo:
    """What retention and compaction need of a segment."""

    base_offset: int
    next_offset: int
    """The offset after its last record."""
    size_bytes: int
    largest_timestamp: int
    """Of its records; -1 if none has a timestamp."""
    modified_ms: int
    """When its file was last written; used if no record has a timestamp."""
    active: bool
    """Whether it is the active segment."""
    first_timestamp: int = -1
    """Of its first batch, for `max.compaction.lag.ms`; if unknown, the largest timestamp is used."""

    @property
    def youngest_ms(self) -> int:
        """When its newest record was written, as far as known."""
        return self.largest_timestamp if self.largest_timestamp >= 0 else self.modified_ms


def segments_to_delete(
    segments: Sequence[SegmentInfo],
    *,
    now_ms: int,
    settings: TopicSettings,
    high_watermark: int,
    log_start_offset: int = 0,
) -> list[SegmentInfo]:
    """The oldest segments that `retention.ms`, `retention.bytes` and the log start offset expire.

    `segments` are all of the log's, oldest first. The result is a prefix of them, before the high
    watermark. If it includes the active segment (only if that has records), roll the log first, so
    that the next offset is not lost.

    `retention.ms` and `retention.bytes` apply only if `cleanup.policy` has `delete`; segments before
    the log start offset (after DeleteRecords) are always deleted, except the active one.
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


def deletion_times(
    segments: Sequence[SegmentInfo], settings: TopicSettings, *, log_start_offset: int, now_ms: int
) -> list[int | None]:
    """When each segment may be deleted at the earliest, if nothing more is written; None: never.

    One that `retention.bytes` or the log start offset has expired is due now.
    """
    due = _count_before_start(segments, log_start_offset)
    limit_ms = UNLIMITED
    if settings.deleted_by_age_or_size:
        due = max(due, _count_over_size(segments, settings.retention_bytes))
        limit_ms = settings.retention_ms
    times: list[int | None] = []
    latest = 0
    for index, segment in enumerate(segments):
        latest = max(latest, segment.youngest_ms + limit_ms + 1)
        if index < due:
            times.append(now_ms)
        elif limit_ms == UNLIMITED or _is_empty(segment):
            times.append(None)
        else:
            times.append(max(latest, now_ms))
    return times


def _count_before_start(segments: Sequence[SegmentInfo], log_start_offset: int) -> int:
    count = 0
    while (
        count < len(segments)
        and segments[count].next_offset <= log_start_offset
        and not segments[count].active
    ):
        count += 1
    return count


def _count_over_age(segments: Sequence[SegmentInfo], now_ms: int, retention_ms: int) -> int:
    """Stops at the first segment that is new enough, even if later ones are old."""
    if retention_ms == UNLIMITED:
        return 0
    count = 0
    for segment in segments:
        if now_ms - segment.youngest_ms <= retention_ms or _is_empty(segment):
            break
        count += 1
    return count


def _count_over_size(segments: Sequence[SegmentInfo], retention_bytes: int) -> int:
    """Deletes only what exceeds the limit: at least `retention_bytes` remain."""
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


def _is_empty(segment: SegmentInfo) -> bool:
    return segment.active and segment.size_bytes == 0
