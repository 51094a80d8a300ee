"""What waits, against sorted lists; and what came back in a range costs one range."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from strom.queues.acknowledged import Acknowledged
from strom.queues.ready import FifoReady, PriorityReady, ReturnedRanges, join_positions

STEPS = st.lists(st.one_of(st.integers(0, 40), st.just("pop")), max_size=60)


@given(STEPS)
def test_returned_ranges_are_a_sorted_set(steps):
    ranges, model = ReturnedRanges(), set()
    for step in steps:
        if step != "pop" and step not in model:
            ranges.add_range(step, step + 1)
            model.add(step)
        elif step == "pop" and model:
            assert ranges.first == min(model)
            assert ranges.pop() == min(model)
            model.remove(min(model))
        assert ranges.count == len(model)
    assert [at for start, end in ranges.ranges() for at in range(start, end)] == sorted(model)


def test_a_million_messages_that_came_back_in_order_are_one_range():
    ready = FifoReady()
    for position in range(1_000_000):
        ready.put_back(position, 0)
    assert len(ready) == 1_000_000
    assert list(ready.clear()) == [(0, 1_000_000)]


def test_after_a_restart_what_was_out_came_back():
    ready = FifoReady()
    ready.restore(Acknowledged(2, [(4, 6)]), delivered=8, end=10)
    popped = [ready.pop() for _ in range(len(ready))]
    assert popped == [(2, True), (3, True), (6, True), (7, True), (8, False), (9, False)]
    assert ready.pop() is None


def test_priorities_know_what_came_back():
    ready = PriorityReady(5)
    for position, priority in ((0, 1), (1, 5), (2, 1)):
        ready.push(position, priority)
    assert ready.pop() == (1, False)
    ready.put_back(1, 5)
    assert [ready.pop() for _ in range(3)] == [(1, True), (0, False), (2, False)]


@given(st.sets(st.integers(0, 30)))
def test_positions_join_into_as_few_ranges_as_possible(positions):
    ranges = list(join_positions(sorted(positions)))
    assert {at for start, end in ranges for at in range(start, end)} == positions
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ranges))
