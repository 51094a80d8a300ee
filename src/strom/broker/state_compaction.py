"""Which partitions of internal topics are compacted now.

A start reads these topics completely, so their total uncompacted size matters. Segments do not limit it:
`segment.bytes` (100 MiB as in Kafka, and stored with the topic when it was created) applies to each of
some 150 partitions, and active segments are never compacted.
"""

from collections.abc import Iterable

from strom.broker.partition import Partition
from strom.model.settings import MIB
from strom.model.topics import (
    CONSUMER_OFFSETS_TOPIC,
    METADATA_TOPIC,
    QUEUE_TOPOLOGY_TOPIC,
    TRANSACTION_STATE_TOPIC,
)

COMPACTED_STATE_TOPICS = frozenset(
    {CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, QUEUE_TOPOLOGY_TOPIC, METADATA_TOPIC}
)
"""Compacted topics that every start reads."""

MAX_DIRTY_BYTES = 8 * MIB
"""The limit of uncompacted bytes in all these topics: some 60,000 commits, half a second of a start."""


def partitions_to_compact(partitions: Iterable[Partition], max_dirty_bytes: int) -> list[Partition]:
    """The partitions to compact to get below the limit, the dirtiest first.

    A log with many keys is skipped until enough of it is dirty (`min.cleanable.dirty.ratio`), because
    compaction rewrites all of it. So a start reads about the limit and, by default, twice the live keys.
    """
    of_state = [one for one in partitions if one.log.partition.topic in COMPACTED_STATE_TOPICS]
    dirty = {one: one.log.dirty_bytes for one in of_state if _is_dirty_enough(one)}
    if sum(dirty.values()) <= max_dirty_bytes:
        return []
    share = max_dirty_bytes // len(of_state)
    return sorted((one for one in dirty if dirty[one] > share), key=dirty.__getitem__, reverse=True)


def _is_dirty_enough(partition: Partition) -> bool:
    log = partition.log
    ratio = log.settings.min_cleanable_dirty_ratio
    return log.settings.compacted and log.dirty_bytes > ratio * log.size_bytes
