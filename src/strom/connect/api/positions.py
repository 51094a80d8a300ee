"""Positions that a sink stores with its data, and where to continue from them.

A topic that is deleted and recreated under the same name starts at offset 0 again. So a position is
stored with its topic's id, and is ignored for a topic with another id.
"""

from typing import NamedTuple

from strom.connect.api.connectors import SinkContext
from strom.model.topics import TopicPartition


class StoredPosition(NamedTuple):
    """The next offset of a partition, and the id of its topic."""

    offset: int
    topic_id: str | None = None
    """None: unknown, as in positions that strom 0.1.0 stored."""


def resumed_position(
    stored: StoredPosition, partition: TopicPartition, context: SinkContext
) -> StoredPosition:
    """The position to store and to continue from, when the partition is opened again.

    It is offset 0 if the topic was recreated. A position without an id gets the topic's, unless it is
    beyond the end of the topic: that is another topic, or one that has lost records, and the position
    stays as it is. The runtime then fails the task instead of continuing from it.
    """
    present = context.topic_id(partition.topic)
    if present is None or present == stored.topic_id:
        return stored
    if stored.topic_id is not None:
        return StoredPosition(0, present)
    if context.end_offset(partition) < stored.offset:
        return stored
    return StoredPosition(stored.offset, present)
