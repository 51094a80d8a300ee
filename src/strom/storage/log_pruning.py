"""Pruning: rewriting closed segments without the records that their reader no longer needs.

The reader of a log reports which offsets are gone. It must have stored that durably before: pruned
records cannot be read again. The others keep their offsets. The new segments replace the old ones by
the steps of `log_compaction`, which are crash-safe.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Protocol

from strom.model.topic_settings import TopicSettings
from strom.storage.compaction import CleanedBatch, empty_batch, keep_records, whole_batches
from strom.storage.compaction_plan import CompactionPlan, group_segments
from strom.storage.disk import Disk
from strom.storage.log_compaction import Compaction, Replacement, Work
from strom.storage.log_retention import segment_info
from strom.storage.log_state import LogState
from strom.storage.retention import SegmentInfo
from strom.storage.segment import LogSegment
from strom.storage.transaction_index import AbortedTransaction
from strom.wire.kafka.batch import Buffer
from strom.wire.kafka.compression import MAX_DECOMPRESSED_BYTES
from strom.wire.kafka.records import read_body, read_keys

SMALL_SHARE = 8
"""A segment smaller than this fraction (1/8) of `segment.bytes` is merged with pruned neighbours."""


class GoneOffsets(Protocol):
    """The offsets of a log that its reader no longer needs."""

    def __contains__(self, offset: int) -> bool: ...

    def count_live(self, start: int, end: int) -> int:
        """How many offsets from `start` up to `end` are still needed."""
        ...


def gather_garbage(
    disk: Disk,
    state: LogState,
    settings: TopicSettings,
    gone: GoneOffsets,
    written: Mapping[int, int],
) -> list[list[LogSegment]]:
    """Groups of flushed closed segments, each to be rewritten as one."""
    closed = list(takewhile(lambda each: not each.dirty, state.segments.closed()))
    if sum(each.size_bytes for each in closed) * 2 < settings.segment_bytes:
        return []
    by_base = {each.base_offset: each for each in closed}
    groups = plan_pruning([segment_info(disk, each) for each in closed], gone, written, settings)
    return [[by_base[facts.base_offset] for facts in group] for group in groups]


def plan_pruning(
    segments: Sequence[SegmentInfo],
    gone: GoneOffsets,
    written: Mapping[int, int],
    settings: TopicSettings,
) -> list[tuple[SegmentInfo, ...]]:
    """Groups of adjacent segments, each to become one; none if it is not worthwhile.

    It is worthwhile when half of the bytes of all `segments`, and of a full segment, belong to records
    that are gone. `written` has the number of records that segments had after their last pruning, by
    base offset; others have one for every offset. So the bytes rewritten never exceed the bytes freed.
    """
    wasted = {each.base_offset: _wasted_bytes(each, gone, written) for each in segments}
    total = sum(each.size_bytes for each in segments)
    if sum(wasted.values()) < max(total / 2, settings.segment_bytes / 2):
        return []
    groups: list[tuple[SegmentInfo, ...]] = []
    run: list[SegmentInfo] = []
    for each in segments:
        is_wasteful = 2 * wasted[each.base_offset] >= each.size_bytes
        if is_wasteful or each.size_bytes * SMALL_SHARE < settings.segment_bytes:
            run.append(each)
        else:
            groups += group_segments(run, max_bytes=settings.segment_bytes)
            run = []
    groups += group_segments(run, max_bytes=settings.segment_bytes)
    return [group for group in groups if len(group) > 1 or wasted[group[0].base_offset]]


def _wasted_bytes(segment: SegmentInfo, gone: GoneOffsets, written: Mapping[int, int]) -> float:
    """An estimate of the bytes of a segment that belong to records that are gone."""
    records = written.get(segment.base_offset, segment.next_offset - segment.base_offset)
    live = gone.count_live(segment.base_offset, segment.next_offset)
    return segment.size_bytes * (1 - min(1.0, live / records)) if records else 0.0


class RecordPruner:
    def __init__(self, gone: GoneOffsets, end_offset: int) -> None:
        self.records_kept = 0
        self.aborted_with_data: set[AbortedTransaction] = set()
        """Always empty: logs that are pruned hold no transactions."""
        self._gone = gone
        self._end_offset = end_offset

    def clean(self, chunk: Buffer) -> Iterator[CleanedBatch]:
        """The remaining batches of a chunk of complete batches."""
        view = memoryview(chunk)
        for position, header in whole_batches(view):
            batch = CleanedBatch(header, view[position : position + header.size_bytes])
            pruned = self._prune(batch)
            if pruned is None and header.next_offset == self._end_offset:
                pruned = empty_batch(batch)  # readers continue at the next offset after it
            if pruned is not None:
                self.records_kept += pruned.header.record_count
                yield pruned

    def _prune(self, batch: CleanedBatch) -> CleanedBatch | None:
        header = batch.header
        if header.is_control or header.has_producer:
            return batch
        live = self._gone.count_live(header.base_offset, header.next_offset)
        if not live:
            return None
        if live == header.next_offset - header.base_offset:
            return batch
        body = read_body(batch.data, 0, header, MAX_DECOMPRESSED_BYTES)
        records = read_keys(body, header)
        kept = [record for record in records if record.offset not in self._gone]
        if not kept:
            return None
        return batch if len(kept) == len(records) else keep_records(batch, body, kept)


class Pruning(Compaction):
    """One pruning of one log; `run` it on any thread, then have the log apply it."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        state: LogState,
        groups: list[list[LogSegment]],
        gone: GoneOffsets,
        settings: TopicSettings,
        now_ms: int,
    ) -> None:
        self.written: dict[int, int] = {}
        """The number of records in the new segments, by base offset."""
        segments = [segment for group in groups for segment in group]
        facts = tuple(segment_info(disk, segment) for segment in segments)
        dirty_from, end = state.cleaned.first_dirty_offset, segments[-1].next_offset
        plan = CompactionPlan(facts, dirty_from, end)
        super().__init__(disk, folder, state, Work(plan, segments, [], [], settings, now_ms))
        self._groups = groups
        self._gone = gone

    def _write_replacements(self) -> None:
        for group in self._groups:
            pruner = RecordPruner(self._gone, group[-1].next_offset)
            self._replace(group, pruner)
            self.written[group[0].base_offset] = pruner.records_kept
        before = self._state.cleaned.gaps_before
        end = max(before, self._work.plan.end_offset)
        self.cleaned = self._state.cleaned._replace(gaps_before=end)

    def _keep_only(self, committed: list[Replacement]) -> None:
        bases = {replacement.new.base_offset for replacement in self.replacements}
        bases -= {replacement.new.base_offset for replacement in committed}
        self.written = {at: count for at, count in self.written.items() if at not in bases}
        super()._keep_only(committed)
