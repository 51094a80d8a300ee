"""Sharing out: everything has one owner, evenly, and moves little and never without being let go."""

from hypothesis import given
from hypothesis import strategies as st

from strom.connect.runtime.assignment import CONNECTOR, Unit, assign_units

units_st = st.frozensets(
    st.builds(Unit, st.sampled_from("abcd"), st.integers(CONNECTOR, 6)), max_size=30
)
workers_st = st.lists(st.sampled_from(["w1", "w2", "w3", "w4", "w5"]), unique=True, min_size=1)


@st.composite
def claims_st(draw):
    """Workers that claim disjoint sets, some of them work that is gone."""
    workers = draw(workers_st)
    claims: dict[str, set[Unit]] = {worker: set() for worker in workers}
    for unit in sorted(draw(units_st)):
        owner = draw(st.sampled_from([*workers, None]))
        if owner is not None:
            claims[owner].add(unit)
    return claims


def settled(units, claims):
    """Rounds until nothing moves; each worker has let go in between of what it was not given."""
    rounds = 0
    while True:
        shares = assign_units(units, claims)
        if shares == {worker: frozenset(claim) for worker, claim in claims.items()}:
            return shares, rounds
        claims = {worker: set(share) for worker, share in shares.items()}
        rounds += 1
        assert rounds <= 4


@given(units_st, claims_st())
def test_what_is_still_claimed_is_given_to_no_one_else(units, claims):
    shares = assign_units(units, claims)
    for worker, share in shares.items():
        for other, claim in claims.items():
            if other != worker:
                assert not share & claim


@given(units_st, claims_st())
def test_nothing_has_two_owners_in_any_round(units, claims):
    shares = assign_units(units, claims)
    given_out = [unit for share in shares.values() for unit in share]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) <= units


@given(units_st, claims_st())
def test_after_two_rounds_everything_has_an_owner_and_it_is_even(units, claims):
    shares, rounds = settled(units, claims)
    assert rounds <= 2
    assert frozenset().union(*shares.values()) == units
    for is_task in (False, True):
        counts = [
            sum((unit.task != CONNECTOR) is is_task for unit in share) for share in shares.values()
        ]
        assert max(counts) - min(counts) <= 1


@given(units_st, claims_st())
def test_only_surplus_moves(units, claims):
    shares = assign_units(units, claims)
    for is_task in (False, True):
        kind = {unit for unit in units if (unit.task != CONNECTOR) is is_task}
        most = -(-len(kind) // len(claims))
        for worker, claim in claims.items():
            kept = shares[worker] & claim & kind
            assert len(kept) >= min(len(claim & kind), most - 1)


@given(units_st, claims_st())
def test_the_order_of_members_does_not_matter(units, claims):
    backwards = dict(reversed(claims.items()))
    assert assign_units(units, claims) == assign_units(units, backwards)


def test_of_two_that_claim_the_same_one_lets_go():
    unit = Unit("a", 0)
    shares = assign_units({unit}, {"w1": {unit}, "w2": {unit}})
    assert shares == {"w1": frozenset({unit}), "w2": frozenset()}


def test_no_worker_no_share():
    assert assign_units({Unit("a", 0)}, {}) == {}
