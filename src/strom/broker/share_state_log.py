"""The topic `__share_group_state`: where the states of share partitions are written down.

Every share partition has its place in one partition of the topic. A snapshot makes everything before
it superfluous, so now and then the log is cut off before the oldest snapshot.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterator

from strom.broker.broker import Broker
from strom.broker.groups import java_hash
from strom.broker.partition import Partition
from strom.broker.replaying import records_of
from strom.coordination.shares.records import ShareKey, ShareRecord, decode, encode
from strom.model.errors import ApiError, CorruptData, DirectoryOffline, ErrorCode
from strom.model.topics import SHARE_STATE_TOPIC
from strom.storage.log import Appended
from strom.wire.kafka.records import Record, build_batch

log = logging.getLogger(__name__)


class ShareStateLog:
    """Appends records of share partitions, and reads them all at the start."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._creating = asyncio.Lock()
        self._unreadable: set[Partition] = set()
        self._last_appended: dict[Partition, Appended] = {}
        self._places: dict[ShareKey, int] = {}

    async def ensure_topic(self) -> None:
        """Create the topic if it is not there yet."""
        if self._broker.find_topic(SHARE_STATE_TOPIC) is not None:
            return
        async with self._creating:
            if self._broker.find_topic(SHARE_STATE_TOPIC) is None:
                settings = self._broker.settings
                await self._broker.create_topic(
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

    def read(self) -> Iterator[tuple[ShareRecord, int]]:
        """Every record with its offset; what lies in a damaged partition is left out as a whole."""
        hosted = self._broker.find_topic(SHARE_STATE_TOPIC)
        for partition in hosted.partitions if hosted is not None else ():
            try:
                found = [
                    (decode(one.key, one.value), one.offset) for one in records_of(partition.log)
                ]
            except CorruptData as error:
                self._unreadable.add(partition)
                log.error(
                    "The share groups in %s are not served: %s", partition.log.partition, error
                )
                continue
            yield from ((record, offset) for record, offset in found if record is not None)

    def place_of(self, key: ShareKey) -> Partition:
        """Where the records of a share partition are; COORDINATOR_NOT_AVAILABLE if they cannot be."""
        hosted = self._broker.find_topic(SHARE_STATE_TOPIC)
        if hosted is None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = java_hash(_text(key)) % len(hosted.partitions)
        partition = hosted.partitions[place]
        if partition in self._unreadable or partition.log.quarantined:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition

    def append(self, key: ShareKey, record: ShareRecord) -> int:
        """Write a record; the offset that it got. Whether it is on disk tells `when_safe`."""
        partition = self.place_of(key)
        now_ms = self._broker.clock.now_ms()
        batch = build_batch([Record(0, now_ms, *encode(record))])
        try:
            appended = partition.append(batch, now_ms, from_client=False)
        except DirectoryOffline as error:
            self._broker.storage_failed(error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        self._last_appended[partition] = appended
        return appended.last_offset

    def when_safe(self, key: ShareKey, callback: Callable[[ErrorCode], None]) -> None:
        """Call back when everything that was appended so far for this place is safe."""
        partition = self.place_of(key)
        last = self._last_appended.get(partition)
        if last is None or partition.is_safe(last):
            callback(ErrorCode.NONE)
        else:
            partition.when_safe(last, callback)
            partition.sync_soon()

    def cut_off(self, oldest_needed: dict[Partition, int]) -> None:
        """Let go of what lies before the oldest record that is needed, once that one is safe."""
        for partition, offset in oldest_needed.items():
            if partition.log.start_offset < offset <= partition.log.flushed_offset:
                partition.delete_before(offset)

    def forget_place(self, key: ShareKey) -> None:
        """There will be no more records of a share partition."""
        self._places.pop(key, None)

    def forget(self) -> None:
        """The topic is gone."""
        self._unreadable.clear()
        self._last_appended.clear()
        self._places.clear()


def _text(key: ShareKey) -> str:
    """By the hash of this Kafka finds the partition."""
    topic_id = base64.urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group}:{topic_id}:{key.partition}"
