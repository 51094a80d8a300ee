"""Balancing partitions among members that read different topics.

First what nobody has is given to whoever has the least, the hardest topics first: those with the most
partitions for each reader. Then, topic by topic, partitions move from the reader with the most to the one
with the least, until no move makes any topic's readers more equal.
"""

from collections.abc import Mapping, Sequence

from strom.coordination.groups.consumer.values import TopicIdPartition
from strom.wire.kafka.schema import Uuid

MAX_ROUNDS = 16
"""Overlapping subscriptions can take many rounds for ever smaller gains."""


def balance_overlapping(
    shares: dict[str, set[TopicIdPartition]],
    readers: Mapping[Uuid, Sequence[str]],
    partitions: Mapping[Uuid, int],
) -> None:
    """Complete and balance the shares, in place."""
    topics = sorted(
        (topic for topic in partitions if readers[topic]),
        key=lambda topic: (-partitions[topic] / len(readers[topic]), len(readers[topic]), topic),
    )
    taken = {one for share in shares.values() for one in share}
    for topic in topics:
        for index in range(partitions[topic]):
            one = TopicIdPartition(topic, index)
            if one not in taken:
                shares[_least_loaded(readers[topic], shares)].add(one)
    for _ in range(MAX_ROUNDS):
        moves = sum(_balance_topic(topic, readers[topic], shares) for topic in topics)
        if not moves:
            return


def _least_loaded(members: Sequence[str], shares: Mapping[str, set[TopicIdPartition]]) -> str:
    return min(members, key=lambda member: len(shares[member]))


def _balance_topic(
    topic: Uuid, readers: Sequence[str], shares: dict[str, set[TopicIdPartition]]
) -> int:
    """Move partitions of one topic; how many."""
    owned = {
        reader: sorted(one for one in shares[reader] if one.topic_id == topic) for reader in readers
    }
    moves = 0
    while givers := [reader for reader in readers if owned[reader]]:
        giver = max(givers, key=lambda reader: len(shares[reader]))
        taker = _least_loaded(readers, shares)
        if len(shares[giver]) - len(shares[taker]) <= 1:
            break
        one = owned[giver].pop()
        shares[giver].remove(one)
        shares[taker].add(one)
        owned[taker].append(one)
        moves += 1
    return moves
