"""When a log is compacted, up to which offset, and which segments are merged: a pure plan."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from strom.model.settings import INT_MAX
from strom.model.topic_settings import TopicSettings
from strom.storage.retention import SegmentInfo


@dataclass(frozen=True)
class CompactionPlan:
    """What one run of compaction may rewrite."""

    segments: tuple[SegmentInfo, ...]
    """Closed segments from the start of the log, including clean ones: they hold superseded values."""
    first_dirty_offset: int
    """Where the key map begins: records before it were compacted by an earlier run."""
    end_offset: int
    """The base offset of the first segment that must not be rewritten."""


def plan_compaction(
    segments: Sequence[SegmentInfo],
    *,
    now_ms: int,
    settings: TopicSettings,
    first_dirty_offset: int,
    last_stable_offset: int,
) -> CompactionPlan | None:
    """The run of compaction that is due, or None.

    `segments` are all of the log's, oldest first. `first_dirty_offset` is where the last run's key
    map ended (`KeyMap.end_offset`, kept by the log), 0 for a log that was never compacted. Excluded are
    the active segment, segments beyond the last stable offset, and segments with a record younger than
    `min.compaction.lag.ms`; without such a lag, timestamps are ignored, even those of the future. A run
    is due when the dirty ratio exceeds `min.cleanable.dirty.ratio`, or when dirty records are older than
    `max.compaction.lag.ms` (KIP-354; the log must also roll an active segment of that age).
    """
    allowed = _allowed_segments(segments, now_ms, settings, last_stable_offset)
    if not allowed:
        return None
    end_offset = _base_offset_after(segments, len(allowed))
    if not segments[0].base_offset <= first_dirty_offset <= end_offset:
        first_dirty_offset = segments[
            0
        ].base_offset  # the start has advanced, or the log was truncated
    dirty = [segment for segment in allowed if segment.next_offset > first_dirty_offset]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    if dirty_bytes == 0:
        return None
    ratio = dirty_bytes / sum(segment.size_bytes for segment in allowed)
    if ratio <= settings.min_cleanable_dirty_ratio and not _waits_too_long(dirty, now_ms, settings):
        return None
    return CompactionPlan(tuple(allowed), first_dirty_offset, end_offset)


def _allowed_segments(
    segments: Sequence[SegmentInfo], now_ms: int, settings: TopicSettings, last_stable_offset: int
) -> list[SegmentInfo]:
    allowed: list[SegmentInfo] = []
    lag_ms = settings.min_compaction_lag_ms
    for segment in segments:
        too_young = lag_ms > 0 and now_ms - segment.youngest_ms < lag_ms
        if segment.active or segment.next_offset > last_stable_offset or too_young:
            break
        allowed.append(segment)
    return allowed


def _base_offset_after(segments: Sequence[SegmentInfo], count: int) -> int:
    if count < len(segments):
        return segments[count].base_offset
    return segments[-1].next_offset


def _waits_too_long(dirty: Iterable[SegmentInfo], now_ms: int, settings: TopicSettings) -> bool:
    oldest = min(_written_ms(segment) for segment in dirty)
    return now_ms - oldest > settings.max_compaction_lag_ms


def _written_ms(segment: SegmentInfo) -> int:
    """When its first record was written, as far as known; at most the modification time of its file."""
    timestamp = segment.first_timestamp if segment.first_timestamp >= 0 else segment.youngest_ms
    return min(timestamp, segment.modified_ms)


def group_segments(
    segments: Iterable[SegmentInfo], *, max_bytes: int
) -> list[tuple[SegmentInfo, ...]]:
    """Adjacent segments that become one, with the base offset of the first.

    No group exceeds `max_bytes` (`segment.bytes`) before compaction, so that the result does not
    either, or spans more offsets than fit into 31 bits. A segment that is too large by itself forms
    a group of one.
    """
    groups: list[tuple[SegmentInfo, ...]] = []
    group: list[SegmentInfo] = []
    size = 0
    for segment in segments:
        size += segment.size_bytes
        if group and (size > max_bytes or segment.next_offset - group[0].base_offset > INT_MAX):
            groups.append(tuple(group))
            group, size = [], segment.size_bytes
        group.append(segment)
    if group:
        groups.append(tuple(group))
    return groups
