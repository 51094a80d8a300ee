import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.model.topic_settings import TopicSettings
from strom.storage.retention import SegmentInfo, deletion_times, segments_to_delete

NOW = 1_000_000
END = 10**9


def log(*segments):
    """Segments of ten offsets each, given as (size, largest timestamp); the last one is active."""
    return [
        SegmentInfo(
            base_offset=10 * i,
            next_offset=10 * i + 10 if size else 10 * i,
            size_bytes=size,
            largest_timestamp=timestamp,
            modified_ms=NOW - 500,
            active=i == len(segments) - 1,
        )
        for i, (size, timestamp) in enumerate(segments)
    ]


def settings(**texts):
    return TopicSettings().override({k.replace("_", "."): str(v) for k, v in texts.items()})


def deleted(segments, *, high_watermark=END, log_start_offset=0, **texts):
    gone = segments_to_delete(
        segments,
        now_ms=NOW,
        settings=settings(**texts),
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
    )
    assert gone == segments[: len(gone)]
    return len(gone)


OLD, YOUNG = NOW - 2000, NOW - 1000


def test_segments_go_when_their_youngest_record_is_over_age():
    segments = log((5, OLD), (5, OLD), (5, YOUNG), (5, NOW))
    assert deleted(segments, retention_ms=1500) == 2


def test_the_limit_of_age_itself_is_not_over_it():
    assert deleted(log((5, OLD), (5, NOW)), retention_ms=2000) == 0
    assert deleted(log((5, OLD), (5, NOW)), retention_ms=1999) == 1


def test_an_old_segment_behind_a_young_one_stays():
    assert deleted(log((5, YOUNG), (5, OLD), (5, NOW)), retention_ms=1500) == 0


def test_the_active_segment_goes_too_when_all_of_it_is_over_age():
    assert deleted(log((5, OLD), (5, OLD)), retention_ms=1500) == 2


def test_an_empty_active_segment_stays():
    assert deleted(log((5, OLD), (0, -1)), retention_ms=0) == 1
    assert deleted(log((5, OLD), (0, -1)), retention_bytes=0) == 1


def test_without_record_times_the_files_time_counts():
    assert deleted(log((5, -1), (5, NOW)), retention_ms=400) == 1
    assert deleted(log((5, -1), (5, NOW)), retention_ms=600) == 0


def test_the_oldest_go_until_the_size_fits_but_no_further():
    segments = log((40, NOW), (30, NOW), (20, NOW), (10, NOW))
    assert deleted(segments, retention_bytes=100) == 0
    assert deleted(segments, retention_bytes=61) == 0
    assert deleted(segments, retention_bytes=60) == 1
    assert deleted(segments, retention_bytes=59) == 1
    assert deleted(segments, retention_bytes=30) == 2


@pytest.mark.parametrize("limits", [{"retention_ms": -1}, {"retention_bytes": -1}])
def test_minus_one_is_for_ever(limits):
    texts = {"retention_ms": -1, "retention_bytes": -1, **limits}
    assert deleted(log((5, 0), (5, 0)), **texts) == 0


def test_nothing_beyond_the_high_watermark_goes():
    segments = log((5, OLD), (5, OLD), (5, OLD))
    assert deleted(segments, retention_ms=0, high_watermark=20) == 2
    assert deleted(segments, retention_ms=0, high_watermark=19) == 1
    assert deleted(segments, retention_ms=0, high_watermark=0) == 0


def test_segments_before_the_start_of_the_log_go_with_any_policy():
    segments = log((5, NOW), (5, NOW), (5, NOW))
    for policy in ("delete", "compact"):
        assert deleted(segments, log_start_offset=20, cleanup_policy=policy) == 2
        assert deleted(segments, log_start_offset=19, cleanup_policy=policy) == 1
        assert deleted(segments, log_start_offset=30, cleanup_policy=policy) == 2


def test_age_and_size_count_only_where_deleting_is_the_policy():
    segments = log((5, OLD), (5, OLD))
    limits = {"retention_ms": 0, "retention_bytes": 0}
    assert deleted(segments, cleanup_policy="compact", **limits) == 0
    assert deleted(segments, cleanup_policy="compact,delete", **limits) == 2


SEGMENTS = st.lists(st.tuples(st.integers(1, 50), st.integers(0, NOW)), min_size=1, max_size=8)


@given(SEGMENTS, st.integers(0, NOW), st.integers(0, 300), st.integers(0, 90))
def test_what_stays_keeps_the_promises(sizes_and_times, retention_ms, retention_bytes, watermark):
    segments = log(*sizes_and_times)
    gone = deleted(
        segments,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        high_watermark=watermark,
    )
    for i, segment in enumerate(segments[:gone]):
        assert over_age(segments[: i + 1], retention_ms) or enough(
            segments[i + 1 :], retention_bytes
        )
        assert segment.next_offset <= watermark
    if gone < len(segments) and segments[gone].next_offset <= watermark:
        assert not over_age(segments[: gone + 1], retention_ms)
        assert not enough(segments[gone + 1 :], retention_bytes)


def over_age(segments, retention_ms):
    return all(NOW - segment.largest_timestamp > retention_ms for segment in segments)


def enough(segments, retention_bytes):
    return sum(segment.size_bytes for segment in segments) >= retention_bytes


@given(
    sizes=st.lists(st.tuples(st.integers(1, 100), st.integers(-1, NOW)), min_size=1, max_size=6),
    retention_ms=st.sampled_from([-1, 0, 1000, NOW]),
    retention_bytes=st.sampled_from([-1, 0, 50, 10_000]),
    start=st.sampled_from([0, 10, 25]),
    policy=st.sampled_from(["delete", "compact"]),
)
def test_a_segment_is_deleted_from_its_deletion_time_on(
    sizes, retention_ms, retention_bytes, start, policy
):
    segments = log(*sizes)
    texts = {
        "retention_ms": retention_ms,
        "retention_bytes": retention_bytes,
        "cleanup_policy": policy,
    }
    now_ms = min(each.youngest_ms for each in segments)
    times = deletion_times(segments, settings(**texts), log_start_offset=start, now_ms=now_ms)

    def count(at_ms):
        gone = segments_to_delete(
            segments,
            now_ms=at_ms,
            settings=settings(**texts),
            high_watermark=END,
            log_start_offset=start,
        )
        return len(gone)

    for index, time_ms in enumerate(times):
        if time_ms is None:
            assert count(10 * NOW) <= index
        else:
            assert count(time_ms) > index
            assert time_ms == now_ms or count(time_ms - 1) <= index
