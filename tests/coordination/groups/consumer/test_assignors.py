"""Sharing out partitions: all of them, to those who read them, evenly, and moving few."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.groups.consumer.assignors import (
    MAX_ROUNDS,
    Assignments,
    MemberSpec,
    OverlappingBalance,
)
from strom.coordination.groups.consumer.assignors import assign as assign_in_steps
from strom.coordination.groups.consumer.records import TopicIdPartition
from strom.model.steps import run_at_once

A, B, C = (bytes([number]) * 16 for number in range(3))
topics = st.frozensets(st.sampled_from([A, B, C]), min_size=1)
counts = st.fixed_dictionaries({A: st.integers(1, 12), B: st.integers(1, 5), C: st.integers(1, 30)})
members = st.lists(topics, min_size=1, max_size=7).map(
    lambda wanted: [MemberSpec(f"m{number}", None, one) for number, one in enumerate(wanted)]
)
assignors = st.sampled_from(["uniform", "range"])


def assign(name: str, members: list[MemberSpec], counts: dict[bytes, int]) -> Assignments:
    return run_at_once(assign_in_steps(name, members, counts))


def after(shares: Assignments, members: list[MemberSpec]) -> list[MemberSpec]:
    """The members when these shares are their targets."""
    return [one._replace(target=shares[one.id]) for one in members]


@given(assignors, members, counts)
def test_every_partition_that_is_read_goes_to_one_reader(name, members, counts):
    shares = assign(name, members, counts)
    given_out = [one for share in shares.values() for one in share]
    read = frozenset().union(*(member.topics for member in members))
    assert sorted(given_out) == sorted(
        TopicIdPartition(topic, index) for topic in read for index in range(counts[topic])
    )
    for member in members:
        assert {one.topic_id for one in shares[member.id]} <= member.topics


@given(st.integers(1, 8), counts)
def test_uniform_gives_equals_the_same_number(number, counts):
    everyone = [MemberSpec(f"m{one}", None, frozenset(counts)) for one in range(number)]
    sizes = [len(share) for share in assign("uniform", everyone, counts).values()]
    assert max(sizes) - min(sizes) <= 1


@given(members, counts)
def test_uniform_leaves_no_move_that_would_even_things_out(members, counts):
    shares = assign("uniform", members, counts)
    for giver in members:
        for one in shares[giver.id]:
            for taker in members:
                if one.topic_id in taker.topics:
                    assert len(shares[giver.id]) - len(shares[taker.id]) <= 1


@given(assignors, members, counts)
def test_nothing_moves_when_nothing_changes(name, members, counts):
    shares = assign(name, members, counts)
    assert assign(name, after(shares, members), counts) == shares


@given(st.integers(1, 6), counts, st.integers(0, 5))
def test_uniform_moves_no_more_than_it_must_when_one_leaves(number, counts, leaver):
    everyone = [MemberSpec(f"m{one}", None, frozenset(counts)) for one in range(number + 1)]
    before = assign("uniform", everyone, counts)
    rest = [one for one in after(before, everyone) if one.id != f"m{leaver % (number + 1)}"]
    now = assign("uniform", rest, counts)
    for member in rest:
        assert before[member.id] <= now[member.id], "whoever stays keeps what it has"


@given(st.integers(2, 7), counts)
def test_uniform_takes_only_what_the_new_one_gets(number, counts):
    everyone = [MemberSpec(f"m{one}", None, frozenset(counts)) for one in range(number)]
    before = assign("uniform", everyone[1:], counts)
    now = assign("uniform", [everyone[0], *after(before, everyone[1:])], counts)
    moved = sum(len(before[one.id] - now[one.id]) for one in everyone[1:])
    assert moved == len(now["m0"])


def test_range_gives_stretches_and_the_first_get_more():
    everyone = [MemberSpec("b", None, frozenset({A, B})), MemberSpec("a", None, frozenset({A, B}))]
    shares = assign("range", everyone, {A: 3, B: 1})
    assert shares["a"] == {
        TopicIdPartition(A, 0),
        TopicIdPartition(A, 1),
        TopicIdPartition(B, 0),
    }
    assert shares["b"] == {TopicIdPartition(A, 2)}


def test_instances_come_before_others():
    everyone = [MemberSpec("a", None, frozenset({A})), MemberSpec("z", "one", frozenset({A}))]
    assert assign("range", everyone, {A: 1})["z"] == {TopicIdPartition(A, 0)}


def test_partitions_and_topics_that_are_gone_are_not_kept():
    had = frozenset({TopicIdPartition(A, 5), TopicIdPartition(B, 0)})
    for others in ([], [MemberSpec("n", None, frozenset({C}))]):
        member = MemberSpec("m", None, frozenset({A, B}), had)
        shares = assign("uniform", [member, *others], {A: 1})
        assert shares["m"] == {TopicIdPartition(A, 0)}


class CountedReaders(list[str]):
    """The readers of a topic; counts how many are looked at."""

    seen = 0

    def __iter__(self):
        CountedReaders.seen += len(self)
        return super().__iter__()


def test_the_work_grows_with_the_partitions_and_members_and_not_with_their_product():
    names = [f"m{n}" for n in range(50)]
    before: dict[str, set[TopicIdPartition]] = {name: set() for name in names}
    before["m0"] = {TopicIdPartition(A, index) for index in range(300)}
    readers = {A: CountedReaders(names), B: CountedReaders(names[25:])}
    CountedReaders.seen = 0
    run_at_once(OverlappingBalance(before, readers, {A: 300, B: 200}).complete())
    assert {len(assigned) for assigned in before.values()} == {10}
    assert CountedReaders.seen <= 4 * MAX_ROUNDS * len(names)


class CountedTopics(frozenset[bytes]):
    """The topics of a member; counts how often they are searched."""

    searched = 0

    def __contains__(self, topic: object) -> bool:
        CountedTopics.searched += 1
        return super().__contains__(topic)


class CountedPartitions(dict[bytes, int]):
    """The partition counts of topics; counts how many topics are looked at."""

    seen = 0

    def __iter__(self) -> Iterator[bytes]:
        CountedPartitions.seen += len(self)
        return super().__iter__()


@pytest.mark.parametrize("name", ["uniform", "range"])
def test_members_are_not_searched_for_the_topics_of_others(name):
    counts = CountedPartitions({bytes([n]) * 16: 1 for n in range(100)})
    members = [MemberSpec(f"m{n}", None, CountedTopics({topic})) for n, topic in enumerate(counts)]
    CountedTopics.searched = CountedPartitions.seen = 0
    shares = assign(name, members, counts)
    assert {len(assigned) for assigned in shares.values()} == {1}
    assert CountedTopics.searched + CountedPartitions.seen <= 3 * (100 + 100)
