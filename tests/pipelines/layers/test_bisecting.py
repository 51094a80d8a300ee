"""Finding the records that make a computation fail."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.pipelines.layers.bisecting import NoSingleRecord, TooManyFail, failing_records


class Computation:
    """Fails wherever one of its poison records is in, and counts how often it was tried."""

    def __init__(self, poison):
        self.poison, self.probes = set(poison), 0

    def fails(self, low, high):
        assert low < high
        self.probes += 1
        inside = sorted(one for one in self.poison if low <= one < high)
        return f"record {inside[0]}" if inside else None


@given(
    st.integers(1, 5_000).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1, max_size=40))
    )
)
def test_all_failing_records_are_found_and_no_others(case):
    size, poison = case
    computation = Computation(poison)
    found = failing_records(size, computation.fails, most=40, probes=10**6)
    assert found == {one: f"record {one}" for one in poison}
    depth = math.ceil(math.log2(size)) if size > 1 else 0
    assert computation.probes <= len(poison) * (2 * depth + 2)


@pytest.mark.parametrize("place", [0, 150_000, 299_999])
def test_one_record_among_many_takes_few_probes_wherever_it_is(place):
    computation = Computation({place})
    assert failing_records(300_000, computation.fails, most=100, probes=10**6).keys() == {place}
    assert computation.probes <= 2 * 19 + 2


def test_where_all_records_fail_the_search_ends_soon():
    computation = Computation(range(300_000))
    with pytest.raises(TooManyFail):
        failing_records(300_000, computation.fails, most=100, probes=10**6)
    assert computation.probes < 500


def test_as_many_as_allowed_may_fail_and_one_more_may_not():
    poison = range(0, 1_000, 10)
    assert len(failing_records(1_000, Computation(poison).fails, most=100, probes=10**6)) == 100
    with pytest.raises(TooManyFail):
        failing_records(1_000, Computation(poison).fails, most=99, probes=10**6)


def test_the_number_of_probes_is_bounded():
    computation = Computation(range(0, 100_000, 1_000))
    with pytest.raises(TooManyFail):
        failing_records(100_000, computation.fails, most=100, probes=50)
    assert computation.probes == 50


@given(st.integers(2, 2_000), st.integers(2, 2_000))
def test_records_that_fail_only_together_are_no_single_ones_fault(size, together):
    def overflows(low, high):
        return "overflow" if high - low >= min(together, size) else None

    with pytest.raises(NoSingleRecord):
        failing_records(size, overflows, most=100, probes=10**6)
