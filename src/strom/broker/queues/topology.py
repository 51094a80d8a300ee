"""The log of definitions: a compacted topic with all exchanges, queues and bindings."""

from collections.abc import Sequence

from strom.broker.broker import Broker
from strom.broker.replaying import records_of
from strom.model.errors import ApiError, DirectoryOffline, ErrorCode
from strom.model.topics import QUEUE_TOPOLOGY_TOPIC
from strom.queues.definitions import Definition, decode, encode, key_of
from strom.wire.kafka.records import Record, build_batch

SETTINGS = {"cleanup.policy": "compact", "flush": "disk", "compression.type": "producer"}


class TopologyLog:
    """Reads and writes definitions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def read(self) -> list[Definition]:
        """All definitions; CorruptData if the log cannot be read."""
        hosted = self._broker.find_topic(QUEUE_TOPOLOGY_TOPIC)
        if hosted is None:
            return []
        found: dict[bytes, Definition] = {}
        for record in records_of(hosted.partitions[0].log):
            key = record.key or b""
            if record.value is None:
                found.pop(key, None)
            else:
                found[key] = decode(key, record.value)
        return list(found.values())

    async def write(
        self, there: Sequence[Definition] = (), gone: Sequence[Definition] = ()
    ) -> None:
        """Write added and deleted definitions; return when they are durable."""
        now_ms = self._broker.clock.now_ms()
        pairs: list[tuple[bytes, bytes | None]] = [encode(definition) for definition in there]
        pairs += [(key_of(definition), None) for definition in gone]
        if not pairs:
            return
        records = [Record(index, now_ms, key, value) for index, (key, value) in enumerate(pairs)]
        hosted = self._broker.find_topic(QUEUE_TOPOLOGY_TOPIC)
        if hosted is None:
            hosted = await self._broker.create_topic(QUEUE_TOPOLOGY_TOPIC, 1, SETTINGS)
        partition = hosted.partitions[0]
        try:
            appended = partition.append(build_batch(records), now_ms, from_client=False)
        except DirectoryOffline as error:
            self._broker.storage_failed(error)
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        code = await partition.wait_until_synced(appended.last_offset)
        if code is not ErrorCode.NONE:
            raise ApiError(code)
