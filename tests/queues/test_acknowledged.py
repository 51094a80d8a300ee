"""Ranges of gone positions against a set."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from strom.queues.acknowledged import Acknowledged
from strom.queues.progress_records import ALL, CHANGE, QueueProgress, encode_change, encode_snapshot

RANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 6)).map(lambda pair: (pair[0], sum(pair)))
)


@given(RANGES)
def test_ranges_are_a_set_of_positions(ranges):
    gone = Acknowledged()
    model: set[int] = set()
    for start, end in ranges:
        if end == start + 1:
            gone.add(start)
        else:
            gone.add_range(start, end)
        model.update(range(start, end))
    assert {position for position in range(60) if position in gone} == model
    assert list(gone.live_before(60)) == [at for at in range(60) if at not in model]
    assert gone.count_live_before(60) == 60 - len(model)
    assert gone.floor == next(at for at in range(60) if at not in model)
    spans = list(gone.beyond())
    assert all(one[1] < other[0] for one, other in itertools.pairwise(spans))


@given(RANGES, st.integers(0, 60), st.integers(0, 60))
def test_live_positions_of_a_part_are_counted(ranges, start, end):
    gone = Acknowledged()
    for span in ranges:
        gone.add_range(*span)
    copied = gone.copy()
    gone.add_range(0, 60)
    live = [position for position in range(start, end) if position not in copied]
    assert copied.count_live(start, end) == len(live)


@given(RANGES, st.integers(0, 45))
def test_what_lies_beyond_a_cut_is_forgotten(ranges, cut):
    gone = Acknowledged()
    model: set[int] = set()
    for start, end in ranges:
        gone.add_range(start, end)
        model.update(range(start, end))
    gone.cut(cut)
    assert {position for position in range(60) if position in gone} == {
        position for position in model if position < cut
    }


@given(RANGES, st.integers(0, 50), st.dictionaries(st.integers(0, 50), st.integers(1, 9)))
def test_a_record_of_everything_says_the_same_as_all_before_it(ranges, delivered, returned):
    step_by_step, at_once = QueueProgress(), QueueProgress()
    for span in ranges:
        step_by_step.replay(CHANGE, encode_change([span], 0))
    step_by_step.replay(CHANGE, encode_change([], delivered, returned.items()))
    at_once.replay(CHANGE, encode_change([(0, 60)], 0))
    value = encode_snapshot(
        step_by_step.acknowledged, 60, step_by_step.delivered, step_by_step.returned.items()
    )
    at_once.replay(ALL, value)
    assert list(at_once.acknowledged.live_before(60)) == list(
        step_by_step.acknowledged.live_before(60)
    )
    assert (at_once.delivered, at_once.returned) == (delivered, returned)


def test_positions_that_a_power_cut_took_are_not_gone_for_those_who_get_them_next():
    progress = QueueProgress()
    progress.replay(CHANGE, encode_change([(0, 5), (8, 12)], 12, [(9, 2)]))
    assert progress.reconcile(start=0, end=7)
    assert list(progress.acknowledged.live_before(20)) == list(range(5, 20))
    assert (progress.delivered, progress.returned) == (7, {})
