"""In which order `make test` runs the tests."""

import pytest

from tools.schedule_tests import Unit, arrange

SPARK = Unit("spark", tests=[0, 1])
KAFKA = Unit("oracle", tests=[2])
LONG_KAFKA = Unit("oracle", slow=True, tests=[3, 4])
LONG = Unit(None, slow=True, tests=[5])
LONGER = Unit(None, slow=True, tests=[6, 7])
SHORT = Unit(None, tests=[*range(8, 20)])
ALL = [SHORT, KAFKA, LONG, SPARK, LONGER, LONG_KAFKA]


def parts(workers):
    """Cut as xdist's work stealing does it."""
    left, cut = arrange(ALL, workers), []
    for number in range(workers):
        size = len(left) // (workers - number)
        cut.append(left[:size])
        del left[:size]
    return cut


def test_each_worker_begins_with_its_long_tests_and_then_those_of_its_servers():
    first, second = parts(2)
    assert first[:3] == [5, 0, 1]
    assert second[:5] == [6, 7, 3, 4, 2]


@pytest.mark.parametrize("workers", range(1, 8))
def test_each_test_runs_once_and_short_ones_are_last(workers):
    cut = parts(workers)
    assert sorted(test for part in cut for test in part) == list(range(20))
    for part in cut:
        shorts = [test in SHORT.tests for test in part]
        assert workers > 3 or shorts == sorted(shorts)


def test_tests_of_one_module_stay_together():
    for part in parts(2):
        for unit in (SPARK, LONG_KAFKA, LONGER):
            places = [part.index(test) for test in unit.tests if test in part]
            assert places == list(range(min(places, default=0), max(places, default=-1) + 1))
