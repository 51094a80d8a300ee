"""Offsets within transactions: they count when it commits, and only then."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strom.coordination.groups.offsets import CommittedOffsets
from strom.coordination.groups.pending_offsets import OpenTransaction
from strom.coordination.groups.records import CommittedOffset, OffsetCommitted, OffsetDeleted
from strom.model.topics import TopicPartition

PARTITION = TopicPartition("t", 0)
ONE, OTHER = OpenTransaction(0, 1), OpenTransaction(0, 2)


def commit(offset, group="g"):
    return OffsetCommitted(group, PARTITION, CommittedOffset(offset=offset, committed_ms=0))


def found(offsets, group="g"):
    one = offsets.of(group).get(PARTITION)
    return None if one is None else one.offset


def test_the_same_producer_in_another_partition_is_another_transaction():
    offsets = CommittedOffsets()
    offsets.replay(commit(1, "a"), OpenTransaction(0, 7))
    offsets.replay(commit(2, "b"), OpenTransaction(1, 7))
    offsets.end_transaction(OpenTransaction(0, 7), committed=True)
    assert (found(offsets, "a"), found(offsets, "b")) == (1, None)
    assert offsets.pending("b") == {PARTITION}


def test_what_is_forgotten_does_not_come_back():
    offsets = CommittedOffsets()
    offsets.replay(commit(1), ONE)
    assert offsets.tombstones("g") == [OffsetDeleted("g", PARTITION)]
    offsets.replay(OffsetDeleted("g", PARTITION))
    offsets.end_transaction(ONE, committed=True)
    assert found(offsets) is None
    assert offsets.pending("g") == frozenset()


def test_pending_offsets_of_a_deleted_topic_are_forgotten():
    offsets = CommittedOffsets()
    offsets.replay(commit(1), ONE)
    found = [*offsets.tombstones_of_topics(lambda name, _: name == "t")]
    assert ("g", [OffsetDeleted("g", PARTITION)]) in found


def test_what_a_transaction_is_about_to_change_does_not_expire():
    offsets = CommittedOffsets()
    offsets.replay(commit(1))

    def expired() -> list[OffsetDeleted]:
        return offsets.expired(
            "g", [PARTITION], keeps=lambda _: False, empty_since_ms=0, now_ms=10, retention_ms=5
        )

    assert len(expired()) == 1
    offsets.replay(commit(2), ONE)
    assert expired() == []


groups = st.sampled_from(["g", "h"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from([None, ONE, OTHER]), groups),
        st.tuples(st.sampled_from(["committed", "aborted"]), st.sampled_from([ONE, OTHER]), groups),
        st.tuples(st.just("gone"), st.none(), groups),
    ),
    max_size=12,
)


@given(steps)
def test_the_latest_of_what_counts_is_found(steps):
    """Against a model: all commits in the order of the log, each with whether it counts."""
    offsets = CommittedOffsets()
    logs: dict[str, list[list[Any]]] = {
        "g": [],
        "h": [],
    }  # [offset or None for forgotten, transaction, counts]
    for number, (verb, transaction, group) in enumerate(steps):
        if verb == "commit":
            offsets.replay(commit(number, group), transaction)
            logs[group].append([number, transaction, transaction is None])
        elif verb == "gone":
            offsets.replay(OffsetDeleted(group, PARTITION))
            logs[group].clear()
        else:
            offsets.end_transaction(transaction, committed=verb == "committed")
            for log in logs.values():
                last = max((one[0] for one in log if one[1] == transaction), default=None)
                for entry in log:
                    if entry[1] == transaction:  # of its own commits, the last one counts
                        entry[1:] = None, verb == "committed" and entry[0] == last
        for name, log in logs.items():
            counting = [offset for offset, _, counts in log if counts]
            assert found(offsets, name) == (counting[-1] if counting else None)
            is_pending = any(transaction is not None for _, transaction, _ in log)
            assert (offsets.pending(name) == {PARTITION}) == is_pending
