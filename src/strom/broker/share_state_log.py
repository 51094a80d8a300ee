"""The topic `__share_group_state`: where the states of share partitions are written down.

Every share partition has its place in one partition of the topic. A snapshot makes everything before
it superfluous, so now and then the log is cut off before the oldest snapshot.
"""

import base64
from collections.abc import Callable, Iterator

from strom.broker.broker import Broker
from strom.broker.partition import Partition
from strom.broker.replaying import Replayed
from strom.broker.state_topic import StateTopic
from strom.coordination.groups.share.partitions.records import ShareKey, ShareRecord, decode, encode
from strom.model.errors import ApiError, ErrorCode
from strom.model.settings import MIB
from strom.model.topics import SHARE_STATE_TOPIC
from strom.wire.kafka.records import Record, build_batch

CLOSED_FROM_BYTES = MIB
"""A segment of this size is closed when the log is cut off: only closed ones are deleted, and after a
crash the whole active one is checked."""


class ShareStateLog:
    """Appends records of share partitions, and reads them all at the start."""

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
        """Create the topic if it is not there yet."""
        if self._broker.find_topic(SHARE_STATE_TOPIC) is None:
            await self._topic.ensure()

    def read(self) -> Iterator[tuple[ShareRecord, int]]:
        """Every record with its offset; what lies in a damaged partition is left out as a whole."""
        for _, records in self._topic.read(_decoded, lambda _: False):
            yield from records

    def place_of(self, key: ShareKey) -> Partition:
        """Where the records of a share partition are; COORDINATOR_NOT_AVAILABLE if they cannot be."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = _text(key)
        try:
            return self._topic.partition_of(name)
        except ApiError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    def append(self, key: ShareKey, record: ShareRecord) -> int:
        """Write a record; the offset that it got. Whether it is on disk tells `on_durable`."""
        now_ms = self._broker.clock.now_ms()
        batch = build_batch([Record(0, now_ms, *encode(record))])
        return self._topic.append(self.place_of(key), batch).last_offset

    def on_durable(self, key: ShareKey, callback: Callable[[ErrorCode], None]) -> None:
        """Call back when everything that was appended so far for this place is safe."""
        self._topic.on_durable(self.place_of(key), callback)

    @property
    def record_count(self) -> int:
        """How many records a start would have to read."""
        hosted = self._broker.find_topic(SHARE_STATE_TOPIC)
        logs = [] if hosted is None else [partition.log for partition in hosted.partitions]
        return sum(log.end_offset - log.start_offset for log in logs)

    def cut_off(self, oldest_needed: dict[Partition, int]) -> None:
        """Let go of what lies before the oldest record that is needed, once that one is safe."""
        for partition, offset in oldest_needed.items():
            if partition.log.start_offset < offset <= partition.log.flushed_offset:
                partition.delete_before(offset)
                if partition.log.roll_if_larger(CLOSED_FROM_BYTES, self._broker.clock.now_ms()):
                    partition.sync_soon()

    def forget_place(self, key: ShareKey) -> None:
        """There will be no more records of a share partition."""
        self._names.pop(key, None)

    def forget(self) -> None:
        """The topic is gone."""
        self._topic.forget()
        self._names.clear()


def _text(key: ShareKey) -> str:
    """By the hash of this Kafka finds the partition."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group}:{topic_id}:{key.partition}"


def _decoded(batch: Replayed) -> list[tuple[ShareRecord, int]]:
    decoded = ((decode(one.key, one.value), one.offset) for one in batch.records)
    return [(record, offset) for record, offset in decoded if record is not None]
