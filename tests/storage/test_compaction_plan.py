import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.model.topic_settings import TopicSettings
from strom.storage.compaction_plan import group_segments, plan_compaction
from strom.storage.retention import SegmentInfo

NOW = 1_000_000
END = 10**9


def log(*sizes, timestamp=NOW - 100):
    """Segments of ten offsets each; the last one is active."""
    return [
        SegmentInfo(10 * i, 10 * i + 10, size, timestamp, NOW, i == len(sizes) - 1)
        for i, size in enumerate(sizes)
    ]


def plan(segments, *, first_dirty=0, last_stable=END, **texts):
    topic = TopicSettings().override({k.replace("_", "."): str(v) for k, v in texts.items()})
    return plan_compaction(
        segments,
        now_ms=NOW,
        settings=topic,
        first_dirty_offset=first_dirty,
        last_stable_offset=last_stable,
    )


def test_all_closed_segments_of_a_new_log_are_due():
    segments = log(5, 5, 5)
    due = plan(segments)
    assert due is not None
    assert due.segments == tuple(segments[:2])
    assert (due.first_dirty_offset, due.end_offset) == (0, 20)


def test_the_active_segment_alone_is_never_due():
    assert plan(log(5)) is None


def test_a_log_without_news_is_not_due():
    assert plan(log(5, 5, 5), first_dirty=20, min_cleanable_dirty_ratio=0) is None


def test_the_dirty_share_must_be_larger_than_the_ratio():
    segments = log(50, 50, 5)
    assert plan(segments, first_dirty=10, min_cleanable_dirty_ratio=0.5) is None
    due = plan(segments, first_dirty=10, min_cleanable_dirty_ratio=0.49)
    assert due is not None
    assert due.first_dirty_offset == 10
    assert len(due.segments) == 2


def test_records_that_wait_too_long_are_due_at_any_ratio():
    segments = log(50, 1, 5)
    few = {"first_dirty": 10, "min_cleanable_dirty_ratio": 1}
    assert plan(segments, max_compaction_lag_ms=100, **few) is None
    assert plan(segments, max_compaction_lag_ms=99, **few) is not None
    segments[1] = dataclasses.replace(segments[1], first_timestamp=NOW - 500)
    assert plan(segments, max_compaction_lag_ms=499, **few) is not None


def test_young_segments_and_all_behind_them_stay_out():
    segments = log(5, 5, 5, 5)
    segments[1] = dataclasses.replace(segments[1], largest_timestamp=NOW - 10)
    due = plan(segments, min_compaction_lag_ms=11)
    assert due is not None
    assert due.end_offset == 10
    assert plan(segments, min_compaction_lag_ms=10).end_offset == 30


def test_without_a_lag_records_of_the_future_are_compacted_like_any_others():
    segments = log(5, 5, 5, timestamp=NOW + 10**9)
    due = plan(segments, min_compaction_lag_ms=0)
    assert due is not None
    assert due.end_offset == 20


def test_with_a_lag_records_of_the_future_wait_until_they_are_that_old():
    assert plan(log(5, 5, 5, timestamp=NOW + 1), min_compaction_lag_ms=1) is None


def test_records_of_the_future_wait_no_longer_than_since_their_file_was_written():
    """`max.compaction.lag.ms` is a promise, and a wrong timestamp must not break it."""
    segments = log(50, 1, 5, timestamp=NOW + 10**9)
    segments[1] = dataclasses.replace(
        segments[1], first_timestamp=NOW + 10**9, modified_ms=NOW - 500
    )
    few = {"first_dirty": 10, "min_cleanable_dirty_ratio": 1}
    assert plan(segments, max_compaction_lag_ms=500, **few) is None
    assert plan(segments, max_compaction_lag_ms=499, **few) is not None


@pytest.mark.parametrize(
    ("last_stable", "end"), [(9, None), (10, 10), (19, 10), (20, 20), (30, 20)]
)
def test_nothing_beyond_the_last_stable_offset_is_touched(last_stable, end):
    due = plan(log(5, 5, 5), last_stable=last_stable)
    assert (due.end_offset if due else None) == end


def test_a_first_dirty_offset_outside_the_log_is_reset():
    segments = log(5, 5, 5, 5)[1:]
    for first_dirty in (0, 999):
        due = plan(segments, first_dirty=first_dirty)
        assert due is not None
        assert due.first_dirty_offset == 10


def test_small_neighbours_are_grouped_up_to_the_size():
    segments = log(40, 40, 40, 120, 10, 10)
    assert [len(group) for group in group_segments(segments, max_bytes=100)] == [2, 1, 1, 2]


def test_a_group_does_not_span_more_offsets_than_an_index_can_hold():
    def at(base, following):
        return SegmentInfo(base, following, 1, 0, 0, False)

    span = 2**31 - 1
    assert len(group_segments([at(0, 5), at(5, span)], max_bytes=100)) == 1
    assert len(group_segments([at(0, 5), at(5, span + 1)], max_bytes=100)) == 2


@given(st.lists(st.integers(0, 50), max_size=12), st.integers(1, 100))
def test_groups_hold_every_segment_once_in_order(sizes, max_bytes):
    segments = log(*sizes)
    groups = group_segments(segments, max_bytes=max_bytes)
    assert [segment for group in groups for segment in group] == segments
    for group in groups:
        assert len(group) == 1 or sum(s.size_bytes for s in group) <= max_bytes
