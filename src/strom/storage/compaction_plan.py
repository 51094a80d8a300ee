"""When a log is compacted, up to where, and which segments are joined: planned from facts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from strom.model.settings import INT_MAX
from strom.model.topic_settings import TopicSettings
from strom.storage.retention import SegmentFacts


@dataclass(frozen=True)
class CompactionPlan:
    """What one run of compaction may touch."""

    segments: tuple[SegmentFacts, ...]
    """Closed segments from the start of the log, the clean ones too: old values lie in them."""
    first_dirty_offset: int
    """From here on no key was looked at yet; the key map is built from here."""
    end_offset: int
    """Where the first segment begins that may not be touched."""


def plan_compaction(
    segments: Sequence[SegmentFacts],
    *,
    now_ms: int,
    settings: TopicSettings,
    first_dirty_offset: int,
    last_stable_offset: int,
) -> CompactionPlan | None:
    """The run of compaction that is due, or None.

    `segments` are all of the log's, oldest first. `first_dirty_offset` is where the last run's key
    map ended (`KeyMap.end_offset`, kept by the log), 0 for a log that never was compacted. Whole
    segments only, and none that is active, reaches beyond the last stable offset, or holds a record
    younger than `min.compaction.lag.ms`; without such a lag, timestamps do not matter, not even
    those of the future. It is due when the dirty share of these is larger than
    `min.cleanable.dirty.ratio`, or when dirty records are older than `max.compaction.lag.ms`
    (the log must also roll an active segment of that age, else it cannot be compacted).
    """
    allowed = _allowed_segments(segments, now_ms, settings, last_stable_offset)
    if not allowed:
        return None
    end_offset = _base_offset_after(segments, len(allowed))
    if not segments[0].base_offset <= first_dirty_offset <= end_offset:
        first_dirty_offset = segments[0].base_offset  # the start has moved, or the log was cut
    dirty = [segment for segment in allowed if segment.next_offset > first_dirty_offset]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    if dirty_bytes == 0:
        return None
    ratio = dirty_bytes / sum(segment.size_bytes for segment in allowed)
    if ratio <= settings.min_cleanable_dirty_ratio and not _waits_too_long(dirty, now_ms, settings):
        return None
    return CompactionPlan(tuple(allowed), first_dirty_offset, end_offset)


def _allowed_segments(
    segments: Sequence[SegmentFacts], now_ms: int, settings: TopicSettings, last_stable_offset: int
) -> list[SegmentFacts]:
    allowed: list[SegmentFacts] = []
    lag_ms = settings.min_compaction_lag_ms
    for segment in segments:
        too_young = lag_ms > 0 and now_ms - segment.youngest_ms < lag_ms
        if segment.active or segment.next_offset > last_stable_offset or too_young:
            break
        allowed.append(segment)
    return allowed


def _base_offset_after(segments: Sequence[SegmentFacts], count: int) -> int:
    if count < len(segments):
        return segments[count].base_offset
    return segments[-1].next_offset


def _waits_too_long(dirty: Iterable[SegmentFacts], now_ms: int, settings: TopicSettings) -> bool:
    oldest = min(_written_ms(segment) for segment in dirty)
    return now_ms - oldest > settings.max_compaction_lag_ms


def _written_ms(segment: SegmentFacts) -> int:
    """When its first record was written, as far as that is known; not after its file was."""
    timestamp = segment.first_timestamp if segment.first_timestamp >= 0 else segment.youngest_ms
    return min(timestamp, segment.modified_ms)


def group_segments(
    segments: Iterable[SegmentFacts], *, max_bytes: int
) -> list[tuple[SegmentFacts, ...]]:
    """Adjacent segments that become one, named by the first one's base offset.

    No group has more than `max_bytes` (`segment.bytes`) before compaction, so that it has not after
    it, nor spans more offsets than the 31 bits that indexes have for them. Such a segment that is
    too large by itself stays alone.
    """
    groups: list[tuple[SegmentFacts, ...]] = []
    group: list[SegmentFacts] = []
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
