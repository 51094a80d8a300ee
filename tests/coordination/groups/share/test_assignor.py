"""Whoever wants to read gets something to read, every partition has readers, and nobody is overloaded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.groups.share.assignor import assign_simple as assign_in_steps
from strom.model.steps import run_at_once

A, B, C = (bytes([n]) * 16 for n in range(3))
members = st.sets(st.sampled_from([f"m{n}" for n in range(9)]), min_size=1)
partitions = st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 6), min_size=1)


def assign_simple(wanted, partitions, before):
    return run_at_once(assign_in_steps(wanted, partitions, before))


def readers(shares):
    counts: dict[tuple[bytes, int], int] = {}
    for its in shares.values():
        for topic, indexes in its.items():
            for index in indexes:
                counts[topic, index] = counts.get((topic, index), 0) + 1
    return counts


def load(share):
    return sum(map(len, share.values()))


@given(members, partitions)
def test_if_all_want_the_same_all_have_about_as_much(names, topics):
    shares = assign_simple({name: set(topics) for name in names}, topics, {})
    counts = readers(shares)
    total = sum(topics.values())
    assert set(counts) == {(topic, n) for topic, count in topics.items() for n in range(count)}
    assert max(counts.values()) - min(counts.values()) <= 1
    loads = [load(share) for share in shares.values()]
    assert max(loads) - min(loads) <= 1
    assert min(loads) >= 1
    if len(names) <= total:
        assert max(counts.values()) == 1


@given(st.data(), members, partitions)
def test_no_member_gets_what_it_did_not_subscribe_to(data, names, topics):
    wanted = {name: data.draw(st.sets(st.sampled_from(sorted(topics)))) for name in names}
    shares = assign_simple(wanted, topics, {})
    for name, share in shares.items():
        assert set(share) <= wanted[name]
        assert bool(share) == bool(wanted[name])
    read = readers(shares)
    for topic in set().union(*wanted.values()):
        assert all((topic, n) in read for n in range(topics[topic]))


@given(members, partitions)
def test_what_is_fair_already_stays_as_it_is(names, topics):
    wanted = {name: set(topics) for name in names}
    before = assign_simple(wanted, topics, {})
    assert assign_simple(wanted, topics, before) == before


@given(members, partitions)
def test_a_newcomer_takes_no_more_than_its_part(names, topics):
    before = assign_simple({name: set(topics) for name in names}, topics, {})
    more = assign_simple({name: set(topics) for name in {*names, "new"}}, topics, before)
    total = sum(topics.values())
    if len(names) + 1 <= total:
        kept = sum(
            len(set(before[name].get(topic, ())) & set(more[name].get(topic, ())))
            for name in names
            for topic in topics
        )
        assert kept >= total - load(more["new"]) - len(names)


def test_without_topics_there_is_nothing_to_share():
    assert assign_simple({"m": {A}}, {}, {}) == {"m": {}}
    assert assign_simple({}, {A: 3}, {}) == {}


class CountedTopics(frozenset[bytes]):
    """The topics of a member; counts how often they are searched."""

    searched = 0

    def __contains__(self, topic):
        CountedTopics.searched += 1
        return super().__contains__(topic)


def test_members_are_not_searched_for_the_topics_of_others():
    topics = {bytes([n]) * 16: 1 for n in range(100)}
    wanted = {f"m{n}": CountedTopics({topic}) for n, topic in enumerate(topics)}
    CountedTopics.searched = 0
    assign_simple(wanted, topics, {})
    assert CountedTopics.searched <= 3 * (100 + 100)


@pytest.mark.parametrize("idle", [0, 50])
def test_the_work_grows_with_the_partitions_and_members_and_not_with_their_product(idle):
    topics = {A: 300, B: 1}
    wanted = {f"m{n}": CountedTopics({A}) for n in range(50)}
    wanted |= {f"idle{n}": CountedTopics({B}) for n in range(idle)}
    CountedTopics.searched = 0
    assign_simple(wanted, topics, {})
    assert CountedTopics.searched <= 3 * (50 + 300)
