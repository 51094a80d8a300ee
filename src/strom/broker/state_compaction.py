"""Which partitions of the broker's own topics are compacted now.

A start reads these topics whole, so what matters is how much of them is uncompacted, all together. Their
segments do not bound that: `segment.bytes` (100 MiB as in Kafka, and stored with the topic when it was
created) holds for each of some 150 partitions, and the active segment of each is never compacted.
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
"""Read whole at every start, the last value per key counts."""

MAX_DIRTY_BYTES = 8 * MIB
"""How much of all these topics may be uncompacted: some 60,000 commits, half a second of a start."""


def partitions_to_compact(partitions: Iterable[Partition], max_dirty_bytes: int) -> list[Partition]:
    """Those whose compaction brings what is dirty below the limit again, the dirtiest first.

    A log with many keys is left alone until enough of it is dirty (`min.cleanable.dirty.ratio`), because
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
