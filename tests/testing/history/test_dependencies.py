"""Circles of operations that depend on each other; and ways that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.testing.history import Anomaly, Outcome, check_history
from strom.testing.history.dependencies import components
from tests.testing.history.telling import OTHER, at_once, in_turn, polled, sent, together

THIRD = "clicks-2"

READ_EACH_OTHER = at_once(
    together("p", sent("p", 1, at=0), polled("p", (0, 2), key=OTHER)),
    together("q", sent("q", 2, at=0, key=OTHER), polled("q", (0, 1))),
)

BAD = {
    "two transactions that have read each other": READ_EACH_OTHER,
    "three transactions that have read each other in the round": at_once(
        together("p", sent("p", 1, at=0), polled("p", (0, 3), key=THIRD)),
        together("q", sent("q", 2, at=0, key=OTHER), polled("q", (0, 1))),
        together("r", sent("r", 3, at=0, key=THIRD), polled("r", (0, 2), key=OTHER)),
    ),
    "a record read before it was sent": in_turn(polled("c", (0, 1)), sent("p", 1, at=0)),
    "a record that a poll saw while its transaction went on, told by a third": [
        *in_turn(
            polled("c", (0, 1)),
            sent("q", 2, at=0, key=OTHER),
        ),
        # The long one sent 1 before all of this, and read 2 after it: so it was not committed
        # when its record was read.
        *at_once(together("p", sent("p", 1, at=0), polled("p", (0, 2), key=OTHER))),
    ],
}

GOOD = {
    "a chain of reads": in_turn(
        sent("p", 1, at=0),
        together("q", polled("q", (0, 1)), sent("q", 2, at=0, key=OTHER)),
        together("r", polled("r", (0, 2), key=OTHER), sent("r", 3, at=0, key=THIRD)),
        polled("c", (0, 3), key=THIRD),
    ),
    "a poll that was under way when the record was sent": at_once(
        polled("c", (0, 1)), sent("p", 1, at=0)
    ),
    "a poll after a send of which nobody saw the end": in_turn(
        sent("p", 1, outcome=Outcome.UNKNOWN), polled("c", (0, 1))
    ),
    "two transactions whose records lie before each other": at_once(
        together("p", sent("p", 1, at=0), sent("p", 4, at=1, key=OTHER)),
        together("q", sent("q", 2, at=1), sent("q", 3, at=0, key=OTHER)),
        polled("c", (0, 1), (1, 2)),
        polled("c", (0, 3), (1, 4), key=OTHER),
    ),
}


@pytest.mark.parametrize("history", BAD.values(), ids=BAD)
def test_it_is_found(history):
    verdict = check_history(history)
    assert verdict.anomalies == {Anomaly.READ_CYCLE}, verdict.explain()


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_nothing_is_wrong_with(history):
    verdict = check_history(history)
    assert verdict.is_sound, verdict.explain()


def test_transactions_that_lie_before_each_other_are_reported_though_allowed():
    counts = check_history(GOOD["two transactions whose records lie before each other"]).counts
    assert counts[Anomaly.WRITE_CYCLE] == 1
    assert counts[Anomaly.MIXED_CYCLE] == 0


def test_a_circle_of_lying_before_and_reading_is_reported_though_allowed():
    verdict = check_history(
        at_once(
            together("p", sent("p", 1, at=0), polled("p", (0, 3), key=OTHER)),
            together("q", sent("q", 2, at=1), sent("q", 3, at=0, key=OTHER)),
            polled("c", (0, 1), (1, 2)),
        )
    )
    assert verdict.is_sound
    assert verdict.counts == {Anomaly.MIXED_CYCLE: 1}


def test_an_aborted_transaction_depends_on_no_other():
    history = at_once(
        together("p", sent("p", 1, at=0), polled("p", (0, 2), key=OTHER), outcome=Outcome.FAILED),
        together("q", sent("q", 2, at=0, key=OTHER), polled("q", (0, 1))),
        polled("c", (0, 2), key=OTHER),
    )
    assert check_history(history).anomalies == {Anomaly.ABORTED_READ}


def test_the_explanation_goes_round_the_circle():
    (finding,) = check_history(READ_EACH_OTHER).findings
    assert finding.explanation == "p was read by q; q was read by p"
    assert {operation.process for operation in finding.operations} == {"p", "q"}


def test_the_reported_circle_is_a_short_one():
    many = [
        together(f"t{number}", sent("t", number, at=number), polled("t", (number - 1, number - 1)))
        for number in range(1, 50)
    ]
    first = together("t0", sent("t", 0, at=0), polled("t", (49, 49)))
    back = together("t3b", sent("t", "x", at=0, key=OTHER), polled("t", (3, 3)))
    third = together(
        "t3", sent("t", 3, at=3), polled("t", (2, 2)), polled("t", (0, "x"), key=OTHER)
    )
    many[2] = third
    verdict = check_history(at_once(first, *many, back))
    told = [one for one in verdict.findings if one.anomaly is Anomaly.READ_CYCLE]
    assert [len(one.operations) for one in told] == [2]


@st.composite
def graphs(draw):
    size = draw(st.integers(0, 12))
    node = st.integers(0, size - 1) if size else st.nothing()
    return [draw(st.lists(node, max_size=4)) for _ in range(size)]


def reachable(after, start):
    found, left = set(), [start]
    while left:
        for node in after[left.pop()]:
            if node not in found:
                found.add(node)
                left.append(node)
    return found


@given(graphs())
def test_two_nodes_are_in_one_component_when_each_leads_to_the_other(after):
    ways = [reachable(after, node) for node in range(len(after))]
    expected = {
        frozenset({node} | {other for other in ways[node] if node in ways[other]})
        for node in range(len(after))
    }
    found = [frozenset(component) for component in components(after)]
    assert set(found) == expected
    assert sum(map(len, found)) == len(after)


def test_a_long_chain_needs_no_deep_stack():
    size = 100_000
    chain = [[node + 1] for node in range(size - 1)] + [[0]]
    assert [len(component) for component in components(chain)] == [size]
