"""The clients that measure groups and transactions do what they claim, on strom alone."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from benchmarks.clients import ProduceInTransactions, run
from benchmarks.commit_clients import AsynchronousCommits, WaitingCommits
from benchmarks.internal_topics import OFFSETS, create_coordinator, keep_promise
from benchmarks.members import Rebalances
from benchmarks.peers import STROM_DISK, STROM_OS, Peer, running
from benchmarks.share_groups import records_per_second


@pytest.fixture(scope="module")
def peer():
    with running("strom") as started:
        create_coordinator(started, OFFSETS)
        yield started


def committed(peer: Peer, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": peer.bootstrap_servers, "group.id": group})
    (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    offset: int = place.offset
    return offset


@pytest.mark.parametrize("variant", [STROM_OS, STROM_DISK], ids=lambda one: one.key)
def test_the_topic_of_offsets_can_be_given_either_promise(peer: Peer, variant):
    keep_promise(peer, OFFSETS, variant)
    with peer.topic("promised", 1, {}) as topic:
        assert run(WaitingCommits(peer.bootstrap_servers, topic, 0.3, groups=2)) > 0
        assert committed(peer, f"{topic}-0", topic) >= 0
        assert committed(peer, f"{topic}-1", topic) >= 0


def test_every_asynchronous_commit_is_answered(peer: Peer):
    with peer.topic("asynchronous", 1, {}) as topic:
        job = AsynchronousCommits(peer.bootstrap_servers, topic, commits=1_200, groups=2)
        assert run(job) > 0
        assert committed(peer, f"{topic}-0", topic) == 599
        assert committed(peer, f"{topic}-1", topic) == 599


def test_a_refused_commit_is_not_taken_for_an_answer(peer: Peer):
    with pytest.raises(RuntimeError, match="failed with code 3"):
        run(WaitingCommits(peer.bootstrap_servers, "no-such-topic", 0.1, groups=1))


@pytest.mark.parametrize("new_protocol", [False, True], ids=["classic", "consumer"])
@pytest.mark.parametrize("members", [1, 4])
def test_a_rebalance_is_timed_until_all_are_stable(peer: Peer, members, new_protocol):
    with peer.topic("rebalanced", members, {}) as topic:
        times = run(
            Rebalances(
                peer.bootstrap_servers,
                group=topic,
                topic=topic,
                topic_id=peer.topic_id(topic),
                members=members,
                repetitions=2,
                new_protocol=new_protocol,
            )
        )
    assert times.join_ms > 0
    assert (times.leave_ms is None) == (members == 1)


def test_transactions_leave_their_records_and_a_marker_each(peer: Peer):
    with peer.topic("transactions", 1, {}) as topic:
        job = ProduceInTransactions(
            peer.bootstrap_servers, topic, topic, transactions=3, records=50
        )
        assert run(job) > 0
        assert peer.end_offset(topic) == (3 + 1) * (50 + 1)  # and one to warm up


def test_the_rate_of_a_share_group_counts_from_the_first_records():
    day = "2026-11-15 18:34:"
    output = f"""
{day}00:000, {day}09:000, 0.0001, 0.0000, 0.1069, 1, 9000 for share consumer 1
{day}09:000, {day}09:500, 0.5723, 2.6128, 27397.2603, 6001, 500 for share consumer 1
{day}00:000, {day}10:000, 9.5367, 0.8995, 9432.1826, 10001, 10000
"""
    assert records_per_second(output, 10_001) == 10_000
    with pytest.raises(RuntimeError, match="only 10001 of 10002"):
        records_per_second(output, 10_002)
