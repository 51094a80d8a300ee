"""Knots in graphs, against a method that is too simple to be wrong."""

from hypothesis import given
from hypothesis import strategies as st

from strom.testing.history.components import components


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
