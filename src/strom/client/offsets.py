"""ListOffsets, retried while partitions have no leader."""

import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from strom.client.kafka_errors import NO_LEADER, error_name

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

PartitionOffset = dict[tuple[str, int], int]
"""An offset for each topic and partition."""
TIMEOUT_S: Final = 10.0
PAUSE_S: Final = 0.1


def list_offsets(
    client: "AdminClient",
    partitions: Iterable[tuple[str, int]],
    spec: Any,
    *,
    committed: bool = False,
    timeout_s: float = TIMEOUT_S,
    retried: frozenset[str] = NO_LEADER,
) -> PartitionOffset:
    """One offset for each partition, by confluent-kafka's OffsetSpec; -1 where there is none.

    With `committed`, the end is the last stable offset. A KafkaException named in `retried` is raised
    after `timeout_s`, any other at once.
    """
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

    wanted = {TopicPartition(topic, number): spec for topic, number in partitions}
    if not wanted:
        return {}
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    deadline = time.monotonic() + timeout_s
    left_s = timeout_s
    while True:
        futures = client.list_offsets(wanted, isolation_level=level, request_timeout=left_s)
        try:
            return {
                (partition.topic, partition.partition): future.result().offset
                for partition, future in futures.items()
            }
        except KafkaException as error:
            if error_name(error) not in retried or time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_S)
        left_s = max(PAUSE_S, deadline - time.monotonic())
        with contextlib.suppress(KafkaException):
            client.list_topics(timeout=left_s)  # refreshes the leaders in librdkafka's metadata


def offset_bounds(
    client: "AdminClient", partitions: Sequence[tuple[str, int]], *, committed: bool = False
) -> tuple[PartitionOffset, PartitionOffset]:
    """The log start offset and the end offset of each partition."""
    from confluent_kafka.admin import OffsetSpec

    first = list_offsets(client, partitions, OffsetSpec.earliest(), committed=committed)
    last = list_offsets(client, partitions, OffsetSpec.latest(), committed=committed)
    return first, last
