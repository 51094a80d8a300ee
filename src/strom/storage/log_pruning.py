"""Pruning: closed segments are rewritten without records that their reader no longer needs.

The reader of a log says which offsets are gone. It must have noted that durably before: what is pruned
cannot be read again. What stays keeps its offset. The new segments are put in place of the old ones by
the steps of `log_compaction`, which are crash safe.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Protocol

from strom.model.topic_settings import TopicSettings
from strom.storage.compaction import CleanedBatch, empty_batch, keep_records, whole_batches
from strom.storage.compaction_plan import CompactionPlan, group_segments
from strom.storage.disk import Disk
from strom.storage.log_compaction import Compaction, Replacement, Work
from strom.storage.log_retention import facts_of
from strom.storage.log_state import LogState
from strom.storage.retention import SegmentFacts
from strom.storage.segment import Segment
from strom.storage.transaction_index import AbortedTransaction
from strom.wire.kafka.batch import Buffer
from strom.wire.kafka.compression import MAX_DECOMPRESSED_BYTES
from strom.wire.kafka.records import read_body, read_keys

SMALL_SHARE = 8
"""A segment of less than this part of `segment.bytes` is joined with neighbours that are pruned."""


class GoneOffsets(Protocol):
    """Which offsets of a log nobody needs any more."""

    def __contains__(self, offset: int) -> bool: ...

    def count_live(self, start: int, end: int) -> int:
        """How many offsets from `start` up to `end` are needed."""
        ...


def gather_garbage(
    disk: Disk,
    state: LogState,
    settings: TopicSettings,
    gone: GoneOffsets,
    written: Mapping[int, int],
) -> list[list[Segment]]:
    """Groups of closed segments that are on disk, each worth being rewritten as one."""
    closed = list(takewhile(lambda each: not each.dirty, state.segments.closed()))
    if sum(each.size_bytes for each in closed) * 2 < settings.segment_bytes:
        return []
    by_base = {each.base_offset: each for each in closed}
    groups = plan_pruning([facts_of(disk, each) for each in closed], gone, written, settings)
    return [[by_base[facts.base_offset] for facts in group] for group in groups]


def plan_pruning(
    segments: Sequence[SegmentFacts],
    gone: GoneOffsets,
    written: Mapping[int, int],
    settings: TopicSettings,
) -> list[tuple[SegmentFacts, ...]]:
    """Groups of adjacent segments, each to become one; none if it is not worth the work.

    It is worth it when half of the bytes of all `segments`, and half a segment's worth, are of records
    that are gone. `written` says how many records segments had when they were pruned last, by base
    offset; others have one for every offset. So what is written again is never more than what goes.
    """
    wasted = {each.base_offset: _wasted_bytes(each, gone, written) for each in segments}
    total = sum(each.size_bytes for each in segments)
    if sum(wasted.values()) < max(total / 2, settings.segment_bytes / 2):
        return []
    groups: list[tuple[SegmentFacts, ...]] = []
    run: list[SegmentFacts] = []
    for each in segments:
        is_wasteful = 2 * wasted[each.base_offset] >= each.size_bytes
        if is_wasteful or each.size_bytes * SMALL_SHARE < settings.segment_bytes:
            run.append(each)
        else:
            groups += group_segments(run, max_bytes=settings.segment_bytes)
            run = []
    groups += group_segments(run, max_bytes=settings.segment_bytes)
    return [group for group in groups if len(group) > 1 or wasted[group[0].base_offset]]


def _wasted_bytes(segment: SegmentFacts, gone: GoneOffsets, written: Mapping[int, int]) -> float:
    """About how many bytes of a segment are of records that are gone."""
    records = written.get(segment.base_offset, segment.next_offset - segment.base_offset)
    live = gone.count_live(segment.base_offset, segment.next_offset)
    return segment.size_bytes * (1 - min(1.0, live / records)) if records else 0.0


class RecordPruner:
    """Takes gone records out of batches."""

    def __init__(self, gone: GoneOffsets, end_offset: int) -> None:
        self.records_kept = 0
        self.aborted_with_data: set[AbortedTransaction] = set()
        """None: whose log is pruned writes no transactions."""
        self._gone = gone
        self._end_offset = end_offset

    def clean(self, chunk: Buffer) -> Iterator[CleanedBatch]:
        """The batches that stay of a chunk of whole batches."""
        view = memoryview(chunk)
        for position, header in whole_batches(view):
            batch = CleanedBatch(header, view[position : position + header.size_bytes])
            pruned = self._prune(batch)
            if pruned is None and header.next_offset == self._end_offset:
                pruned = empty_batch(batch)  # readers find the next offset behind it
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
    """One run over one log; `run` it on any thread, then have the log apply it."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        state: LogState,
        groups: list[list[Segment]],
        gone: GoneOffsets,
        settings: TopicSettings,
        now_ms: int,
    ) -> None:
        self.written: dict[int, int] = {}
        """How many records the new segments have, by base offset."""
        segments = [segment for group in groups for segment in group]
        facts = tuple(facts_of(disk, segment) for segment in segments)
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
