"""The topic `__share_group_state`, which stores the state of share partitions.

The records of a share partition are in one partition of the topic. A snapshot supersedes everything
before it, so the log before the oldest snapshot is deleted from time to time.
"""

import base64
from collections.abc import Callable, Iterable, Iterator

from strom.broker.broker import Broker
from strom.broker.partition import Partition
from strom.broker.replaying import Replayed
from strom.broker.state_topic import StateTopic
from strom.coordination.groups.share.partitions.records import ShareKey, ShareRecord, decode, encode
from strom.model.errors import ApiError, ErrorCode
from strom.model.settings import MIB
from strom.model.topics import SHARE_STATE_TOPIC

CLOSED_FROM_BYTES = MIB
"""A segment of this size is closed when the log is pruned: only closed segments are deleted, and
recovery checks the whole active one."""


class ShareStateLog:
    """Appends records of share partitions, and reads all of them at start."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        settings = broker.settings
        self._topic = StateTopic(
            broker,
            SHARE_STATE_TOPIC,
            settings.share_state_topic_num_partitions,
            {
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
                "compression.type": "producer",
                "segment.bytes": str(settings.share_state_topic_segment_bytes),
            },
        )
        self._names: dict[ShareKey, str] = {}

    async def ensure_topic(self) -> None:
        """Create the topic unless it exists."""
        if self._broker.find_topic(SHARE_STATE_TOPIC) is None:
            await self._topic.ensure()

    def read(self) -> Iterator[tuple[ShareRecord, int]]:
        """Every record with its offset, except those of damaged partitions."""
        for _, records in self._topic.read(_decoded, lambda _: False):
            yield from records

    def partition_of(self, key: ShareKey) -> Partition:
        """The partition of a share partition's records; COORDINATOR_NOT_AVAILABLE if it is not
        available.
        """
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = _text(key)
        try:
            return self._topic.partition_of(name)
        except ApiError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    def append(self, key: ShareKey, record: ShareRecord) -> int:
        """Append a record; returns its offset. Use `on_durable` to wait for the disk."""
        batch = self._topic.batch_of([encode(record)])
        return self._topic.append(self.partition_of(key), batch).last_offset

    def on_durable(self, key: ShareKey, callback: Callable[[ErrorCode], None]) -> None:
        """Call back when everything appended so far to this partition is durable."""
        self._topic.on_durable(self.partition_of(key), callback)

    async def wait_until_durable(self, keys: Iterable[ShareKey]) -> None:
        """Return when everything appended so far to these partitions is durable; ApiError if it cannot
        be.
        """
        for partition in {self.partition_of(key): None for key in keys}:
            code = await self._topic.wait_until_durable(partition)
            if code is not ErrorCode.NONE:
                raise ApiError(code)

    @property
    def record_count(self) -> int:
        """How many records a start must read."""
        hosted = self._broker.find_topic(SHARE_STATE_TOPIC)
        logs = [] if hosted is None else [partition.log for partition in hosted.partitions]
        return sum(log.end_offset - log.start_offset for log in logs)

    def end_offsets(self) -> dict[Partition, int]:
        """The end of each partition's log."""
        hosted = self._broker.find_topic(SHARE_STATE_TOPIC)
        partitions = [] if hosted is None else hosted.partitions
        return {partition: partition.log.end_offset for partition in partitions}

    def delete_before(self, oldest_needed: dict[Partition, int]) -> None:
        """Delete records before the oldest needed one, when that one is durable."""
        for partition, offset in oldest_needed.items():
            if partition.deleted or partition.log.quarantined:
                continue
            if partition.log.start_offset < offset <= partition.log.flushed_offset:
                partition.delete_before(offset)
                if partition.log.roll_if_larger(CLOSED_FROM_BYTES, self._broker.clock.now_ms()):
                    partition.sync_soon()

    def forget_partition(self, key: ShareKey) -> None:
        """Drop the cached location of a share partition."""
        self._names.pop(key, None)

    def forget(self) -> None:
        self._topic.forget()
        self._names.clear()


def _text(key: ShareKey) -> str:
    """The text whose hash gives the partition, as in Kafka."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group}:{topic_id}:{key.partition}"


def _decoded(batch: Replayed) -> list[tuple[ShareRecord, int]]:
    decoded = ((decode(one.key, one.value), one.offset) for one in batch.records)
    return [(record, offset) for record, offset in decoded if record is not None]
