"""Balancing partitions among members with different subscriptions.

First, unassigned partitions go to the subscriber with the fewest, starting with the topics that have the
most partitions per subscriber. Then, topic by topic, partitions move from the subscriber with the most to
the one with the fewest, until no move improves the balance of any topic.
"""

from collections.abc import Mapping, Sequence

from strom.coordination.groups.consumer.records import TopicIdPartition
from strom.wire.kafka.schema import Uuid

MAX_ROUNDS = 16
"""The limit of rounds: overlapping subscriptions can take many for ever smaller gains."""


def balance_overlapping(
    assignments: dict[str, set[TopicIdPartition]],
    readers: Mapping[Uuid, Sequence[str]],
    partitions: Mapping[Uuid, int],
) -> None:
    """Complete and balance the assignments, in place."""
    topics = sorted(
        (topic for topic in partitions if readers[topic]),
        key=lambda topic: (-partitions[topic] / len(readers[topic]), len(readers[topic]), topic),
    )
    taken = {one for assigned in assignments.values() for one in assigned}
    for topic in topics:
        for index in range(partitions[topic]):
            one = TopicIdPartition(topic, index)
            if one not in taken:
                assignments[_least_loaded(readers[topic], assignments)].add(one)
    for _ in range(MAX_ROUNDS):
        moves = sum(_balance_topic(topic, readers[topic], assignments) for topic in topics)
        if not moves:
            return


def _least_loaded(members: Sequence[str], assignments: Mapping[str, set[TopicIdPartition]]) -> str:
    return min(members, key=lambda member: len(assignments[member]))


def _balance_topic(
    topic: Uuid, readers: Sequence[str], assignments: dict[str, set[TopicIdPartition]]
) -> int:
    """Move partitions of one topic; returns how many."""
    owned = {
        reader: sorted(one for one in assignments[reader] if one.topic_id == topic)
        for reader in readers
    }
    moves = 0
    while givers := [reader for reader in readers if owned[reader]]:
        giver = max(givers, key=lambda reader: len(assignments[reader]))
        taker = _least_loaded(readers, assignments)
        if len(assignments[giver]) - len(assignments[taker]) <= 1:
            break
        one = owned[giver].pop()
        assignments[giver].remove(one)
        assignments[taker].add(one)
        owned[taker].append(one)
        moves += 1
    return moves
