"""Positions that a sink stores with its data: of which topic they are, and where to go on.

A name is not a topic: one that is deleted and recreated begins at offset 0 again. So a position is
stored with its topic's id, and is worth nothing for a topic with another one.
"""

from typing import NamedTuple

from strom.connect.api.connectors import SinkContext
from strom.connect.api.records import TopicPartition


class StoredPosition(NamedTuple):
    """The next offset of a partition, and the id of its topic."""

    offset: int
    topic_id: str | None = None
    """None: not known, as with positions that strom 0.1.0 has stored."""


def resumed_position(
    stored: StoredPosition, partition: TopicPartition, context: SinkContext
) -> StoredPosition:
    """The position to store and go on from, now that the partition is opened again.

    It is the beginning if the topic was recreated. A position without an id gets the topic's, unless
    the topic ends before it: that is another topic, or it has lost records, and the position stays as
    it is. The runtime then refuses to go on from it.
    """
    present = context.topic_id(partition.topic)
    if present is None or present == stored.topic_id:
        return stored
    if stored.topic_id is not None:
        return StoredPosition(0, present)
    if context.end_offset(partition) < stored.offset:
        return stored
    return StoredPosition(stored.offset, present)
